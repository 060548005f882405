"""What is remembered of leader epochs, held against a log that is truncated and grows again by any history."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest

from mirror_connect.connectors.records.source_offsets import NO_EPOCH
from mirror_connect.kafka_io.consumer.leader_epochs import MOST, LeaderEpochs, divergence
from tests.fakes.source_cluster import Log, batch
from tests.seeds import numbers


def epochs(*begun: tuple[int, int]) -> LeaderEpochs:
    made = LeaderEpochs()
    made.read(begun)
    return made


def test_every_offset_has_the_epoch_that_began_last_before_it() -> None:
    known = epochs((10, 1), (20, 4))
    assert [known.at(offset) for offset in (9, 10, 19, 20, 99)] == [NO_EPOCH, 1, 1, 4, 4]


def test_of_a_position_that_comes_back_only_its_own_epoch_is_known() -> None:
    known = LeaderEpochs()
    known.know(99, 3)
    known.read([(100, 3), (110, 5)])
    assert [known.at(offset) for offset in (98, 99, 109, 110)] == [NO_EPOCH, 3, 3, 5]
    assert (known.first_after(2), known.first_after(3), known.first_after(5)) == (99, 110, None)


def test_an_epoch_lower_than_the_one_before_is_not_believed() -> None:
    known = epochs((0, 5), (10, 2), (20, 5), (30, 6))
    assert [known.at(offset) for offset in (5, 15, 25, 35)] == [5, 5, 5, 6]


def test_behind_a_format_without_epochs_none_is_known() -> None:
    known = epochs((0, 5), (10, NO_EPOCH), (20, 7))
    assert [known.at(offset) for offset in (5, 15, 25)] == [5, NO_EPOCH, 7]


@pytest.mark.parametrize(("to", "left"), [(25, [1, 4]), (20, [1, 1]), (15, [1, 1]), (31, [NO_EPOCH, NO_EPOCH])])
def test_where_reading_goes_on_elsewhere_what_it_passes_over_is_not_known(to: int, left: list[int]) -> None:
    known = epochs((10, 1), (20, 4))
    known.go_on(to, 30)
    assert [known.at(offset) for offset in (19, 24)] == left


def test_where_reading_goes_on_below_all_that_was_read_the_epoch_is_the_one_told() -> None:
    known = LeaderEpochs()
    known.know(29, 4)
    known.go_on(20, 30, 2)
    assert [known.at(offset) for offset in (18, 19)] == [NO_EPOCH, 2]
    known = epochs((10, 1), (20, 4))
    known.go_on(15, 30, NO_EPOCH)
    assert known.at(14) == 1


def test_many_changes_of_leaders_are_forgotten_from_the_oldest_on() -> None:
    known = epochs(*((number, number) for number in range(100)))
    assert [known.at(offset) for offset in (99, 100 - MOST, 99 - MOST)] == [99, 100 - MOST, NO_EPOCH]


@pytest.mark.parametrize(
    ("epoch", "end", "found"),
    [
        pytest.param(4, 30, None, id="the_log_goes_on"),
        pytest.param(4, 99, None, id="the_log_has_grown"),
        pytest.param(4, 25, 25, id="the_last_epoch_ends_before"),
        pytest.param(1, 15, 15, id="the_last_epoch_is_gone_with_some_before"),
        pytest.param(1, 20, 20, id="the_last_epoch_is_gone"),
        pytest.param(1, 28, 20, id="an_earlier_leader_had_more_than_was_read_of_it"),
        pytest.param(0, 99, 10, id="nothing_that_was_read_is_left"),
    ],
)
def test_a_divergence_is_where_what_was_read_ends_in_the_log(epoch: int, end: int, found: int | None) -> None:
    assert divergence(30, epochs((10, 1), (20, 4)), epoch, end) == found


def test_of_a_position_that_came_back_its_own_record_is_gone_with_its_epoch() -> None:
    known = LeaderEpochs()
    known.know(29, 4)
    assert divergence(30, known, 1, 99) == 29


@pytest.mark.parametrize("seed", numbers(60, 300))
def test_whatever_leaders_do_to_a_log_the_reader_finds_the_first_record_that_is_another_one(seed: int) -> None:
    for log, read, _ in histories(seed):
        assert read == log[: len(read)]


def test_the_histories_have_truncations_of_all_sizes() -> None:
    lost = [lost for seed in range(50) for _, _, lost in histories(seed) if lost]
    assert min(lost) == 1
    assert max(lost) > 5
    assert len(lost) > 100


def histories(seed: int) -> Iterator[tuple[list[int], list[int], int]]:
    """The leader's log, what the reader holds of it after asking, and how much it had to give up for that; step by step.

    Replicas append, lag and are elected, cleanly or not. A log is the epoch of each record, which is enough to tell it.
    """
    dice = random.Random(seed)
    replicas = [list[int](), list[int](), list[int]()]
    leader, epoch = 0, 0
    known, read = LeaderEpochs(), list[int]()
    for _ in range(40):
        log = replicas[leader]
        log += [epoch] * dice.randrange(4)
        for follower in {0, 1, 2} - {leader}:
            if dice.random() < 0.4:
                replicas[follower] = log[: dice.randrange(common(log, replicas[follower]), len(log) + 1)]
        if dice.random() < 0.4:
            leader, epoch = dice.randrange(3), epoch + 1
            log = replicas[leader]
        before = len(read)
        while read and (found := divergence(len(read), known, *ends(log, epoch, known.at(len(read) - 1)))) is not None:
            assert found < len(read)
            known.cut(found)
            del read[found:]
        yield log, read, before - len(read)
        fresh = log[len(read) : len(read) + dice.randrange(6)]
        known.read((len(read) + at, each) for at, each in enumerate(fresh) if at == 0 or each != fresh[at - 1])
        read += fresh


def ends(log: Sequence[int], leaders: int, asked: int) -> tuple[int, int]:
    """What a leader of the epoch `leaders` with this log answers of another epoch."""
    held = Log(batches=[(at, 1, batch(at, 1, epoch=each)) for at, each in enumerate(log)], epoch=leaders)
    return held.epoch_end(asked)


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """Up to where two logs are the same: an epoch's records are those of one leader, in its order."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
