"""The state of a comparison: what is explained, what is repeated, and what was called missing or foreign too early."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from mirror_connect.verify.comparison import Comparison, Repeat
from mirror_connect.verify.findings import Fault, Findings, Kind
from mirror_connect.verify.side import Producer, Side

OLD, NEW = (7, 0), (7, 1)


def comparison(*, hollow: int = 0, producers: dict[int, Producer] | None = None) -> Comparison:
    """`producers`: of target offsets; offset 0 is the first record of the window."""
    known = producers or {}
    source = SimpleNamespace(hollow=hollow)
    target = SimpleNamespace(hollow=0, log_append_time=False, producer=known.get, producer_at=known.get)
    return Comparison(
        cast("Side", source),
        cast("Side", target),
        Findings(),
        start=0,
        done=None,
        producer=None,
        progress=lambda _offset: None,
    )


def test_new_records_are_equal_and_move_what_is_explained() -> None:
    state = comparison()
    state.matched(0, 9, 8, 0, 7)
    assert (state.findings.equal, state.done_to, state.repeat) == (8, 10, None)


@pytest.mark.parametrize(
    ("fresh", "complete", "hollow", "repeated"),
    [
        pytest.param(True, True, 0, 4, id="after_a_restart"),
        pytest.param(True, False, 0, 0, id="that_ends_too_early"),
        pytest.param(True, False, 1, 4, id="that_ends_too_early_in_a_compacted_log"),
        pytest.param(False, True, 0, 0, id="by_the_same_producer"),
    ],
)
def test_records_below_what_is_explained_are_repeated_or_doubled(
    fresh: bool, complete: bool, hollow: int, repeated: int
) -> None:
    state = comparison(hollow=hollow)
    state.matched(0, 9, 10, 0, 9)
    state.repeat = Repeat(fresh)
    state.matched(4, 5, 2, 10, 11)
    state.matched(6, 7, 2, 12, 13)
    state.end_repeat(complete=complete)
    doubled = [] if repeated else [Fault(Kind.DOUBLED, (4, 7), (10, 13), 4)]
    assert (state.findings.repeated, state.findings.listed, state.repeat) == (repeated, doubled, None)


def test_a_repeat_that_leads_up_to_a_new_record_is_complete() -> None:
    state = comparison()
    state.matched(0, 9, 10, 0, 9)
    state.repeat = Repeat(fresh=True)
    state.matched(8, 9, 2, 10, 11)
    state.matched(10, 10, 1, 12, 12)
    assert (state.findings.repeated, state.findings.equal) == (2, 11)


def test_of_records_found_again_those_called_missing_came_late() -> None:
    state = comparison()
    state.done_to = 10
    state.missing.add(5, 4)
    state.findings.add(Fault(Kind.MISSING, (5, 5), None))
    state.repeat = Repeat(fresh=True)
    state.matched_again([(4, 1, b"d"), (5, 1, b"e")], [(20, 1, b"d"), (21, 1, b"e")])
    assert state.findings.listed == [Fault(Kind.REORDERED, (5, 5), (21, 21))]
    assert (5 in state.missing, state.repeat.records, state.repeat.reached) == (False, 1, 5)


def test_an_early_copy_is_doubled_once_the_record_is_found_in_order() -> None:
    state = comparison()
    record = (5, 1, b"e")
    state.findings.add(Fault(Kind.FOREIGN, None, (3, 3)))
    state.strays[hash(state.content(record))] = [3]
    state.came_early([record])
    assert (state.findings.listed, state.strays) == ([Fault(Kind.DOUBLED, (5, 5), (3, 3))], {})


def test_timestamps_of_the_broker_end_their_comparison_with_one_note() -> None:
    state = comparison()
    state.check_timestamps()
    assert state.content((0, 1, b"x")) != state.content((0, 2, b"x"))
    state.target.log_append_time = True
    for _ in range(2):
        state.check_timestamps()
    assert state.content((0, 1, b"x")) == state.content((0, 2, b"x"))
    assert len(state.findings.notes) == 1


@pytest.mark.parametrize(
    ("producers", "hollow", "fresh"),
    [
        pytest.param({0: NEW, 4: OLD}, 0, True, id="another_epoch"),
        pytest.param({0: OLD, 4: OLD}, 0, False, id="the_same"),
        pytest.param({0: (-1, -1), 4: (-1, -1)}, 0, True, id="unknown"),
        pytest.param({0: OLD, 4: NEW}, 1, True, id="not_the_one_of_the_last_new_record_in_a_compacted_log"),
        pytest.param({0: NEW, 4: NEW}, 1, False, id="the_one_of_the_last_new_record_in_a_compacted_log"),
    ],
)
def test_a_producer_has_just_begun_if_the_record_before_is_another_ones(
    producers: dict[int, Producer], hollow: int, fresh: bool
) -> None:
    state = comparison(hollow=hollow, producers=producers)
    state.done_to = 5
    state.wrote(4, 4)
    assert state.fresh() is fresh


@pytest.mark.parametrize(("hollow", "fresh"), [(0, True), (1, False)])
def test_in_a_compacted_log_the_producer_of_the_last_new_record_has_not_just_begun(hollow: int, fresh: bool) -> None:
    state = comparison(hollow=hollow, producers={0: OLD, 4: OLD, 6: NEW})
    state.done_to = 5
    state.wrote(4, 4)
    state.wrote(6, 2)
    assert state.fresh() is fresh


def test_where_missing_offsets_are_no_longer_kept_a_note_says_from_where_on() -> None:
    state = comparison()
    state.done_to, state.missing.full_from = 10, 6
    state.matched(7, 7, 1, 20, 20)
    assert "from source offset 6 on" in state.findings.notes[0]
