"""The demo's proof fails for any difference, so its claims mean something."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from deploy.demo.proof import Record, Topic, compare, went_on


def _record(number: int) -> Record:
    return Record(
        b"key %d" % number, b"value %d" % number, (("line", b"%d" % number),), (1, 1_700_000_000_000 + number)
    )


SOURCE: Topic = {0: [_record(number) for number in range(5)], 1: [_record(number) for number in range(10, 13)]}


def _with(partition: int, change: Callable[[list[Record]], list[Record]]) -> Topic:
    return {**SOURCE, partition: change(list(SOURCE[partition]))}


def _false(target: Topic, source: Topic = SOURCE) -> set[str]:
    return {claim.text.partition(":")[0] for claim in compare(source, target) if not claim.true}


def test_a_true_copy_leaves_no_claim_false() -> None:
    assert _false({partition: list(records) for partition, records in SOURCE.items()}) == set()


def test_every_claim_names_how_many_it_looked_at() -> None:
    assert [claim.text for claim in compare(SOURCE, SOURCE) if "8" not in claim.text] == []


def test_an_empty_copy_of_nothing_proves_nothing() -> None:
    assert all(not claim.true for claim in compare({0: []}, {0: []}))


@pytest.mark.parametrize(
    ("target", "caught_by"),
    [
        pytest.param(_with(0, lambda r: r[:2] + r[3:]), {"count", "loss", "order"}, id="missing_in_the_middle"),
        pytest.param(_with(1, lambda r: r[:-1]), {"count", "loss", "order"}, id="missing_at_the_end"),
        pytest.param(_with(0, lambda r: [*r, r[-1]]), {"count", "loss", "order"}, id="twice_at_the_end"),
        pytest.param(_with(1, lambda r: [r[0], *r]), {"count", "loss", "order"}, id="twice_at_the_beginning"),
        pytest.param(_with(0, lambda r: [r[1], r[0], *r[2:]]), {"order"}, id="reordered"),
        pytest.param({**SOURCE, 0: SOURCE[1], 1: SOURCE[0]}, {"count", "loss", "order"}, id="other_partitions"),
        pytest.param({0: SOURCE[0]}, {"count", "loss", "order"}, id="a_partition_is_not_there"),
        pytest.param({**SOURCE, 2: []}, {"count"}, id="a_partition_too_many"),
        pytest.param({0: [*SOURCE[0], *SOURCE[1]], 1: []}, {"count", "loss", "order"}, id="all_in_one_partition"),
    ],
)
def test_records_that_are_not_where_they_were_are_caught(target: Topic, caught_by: set[str]) -> None:
    assert caught_by <= _false(target)


def test_a_changed_order_alone_is_no_loss() -> None:
    assert "loss" not in _false(_with(0, lambda r: r[::-1]))


@pytest.mark.parametrize(
    ("changed", "claim"),
    [
        pytest.param({"key": b"another"}, "keys", id="key"),
        pytest.param({"key": None}, "keys", id="key_is_null"),
        pytest.param({"value": b"another"}, "values", id="value"),
        pytest.param({"value": None}, "values", id="value_is_null"),
        pytest.param({"headers": ()}, "headers", id="headers_lost"),
        pytest.param({"headers": (("line", None),)}, "headers", id="header_is_null"),
        pytest.param({"timestamp": (1, 1_700_000_000_009)}, "timestamps", id="timestamp"),
        pytest.param({"timestamp": (2, 1_700_000_000_002)}, "timestamps", id="timestamp_of_the_broker"),
    ],
)
def test_a_changed_record_is_caught_by_the_claim_about_what_changed(changed: dict[str, object], claim: str) -> None:
    target = _with(0, lambda r: [*r[:2], r[2]._replace(**changed), *r[3:]])  # type: ignore[arg-type]
    assert _false(target) == {"loss", "order", claim}


def test_a_false_claim_names_the_first_record_that_differs() -> None:
    target = _with(1, lambda r: [r[0], r[1]._replace(value=b"another"), r[2]])
    (values,) = (claim for claim in compare(SOURCE, target) if claim.text.startswith("values"))
    assert values.text.startswith("values: 7 of 8 the same")
    assert values.text.endswith("differs: partition 1, record 1")


READ_BEFORE: Topic = {0: SOURCE[0][:2], 1: SOURCE[1][:1]}
READ_AFTER: Topic = {0: SOURCE[0][2:], 1: SOURCE[1][1:]}


def _false_of_a_move(before: Topic, after: Topic, source: Topic = SOURCE) -> set[str]:
    return {claim.text.partition(":")[0] for claim in went_on("g", source, before, after) if not claim.true}


def test_a_group_that_goes_on_with_the_next_record_leaves_no_claim_false() -> None:
    assert _false_of_a_move(READ_BEFORE, READ_AFTER) == set()


@pytest.mark.parametrize(
    ("after", "caught_by"),
    [
        pytest.param({**READ_AFTER, 0: SOURCE[0][3:]}, {"group", "failover"}, id="one_skipped"),
        pytest.param({**READ_AFTER, 0: SOURCE[0][1:]}, {"group", "failover"}, id="one_repeated"),
        pytest.param(SOURCE, {"group", "failover"}, id="begun_anew"),
        pytest.param({**READ_AFTER, 0: [*SOURCE[0][2:4]]}, {"failover"}, id="the_last_is_not_read"),
        pytest.param({**READ_AFTER, 0: [*SOURCE[0][2:], SOURCE[0][2]]}, {"failover"}, id="one_repeated_later"),
        pytest.param({**READ_AFTER, 0: [SOURCE[0][2], SOURCE[0][4], SOURCE[0][3]]}, {"failover"}, id="reordered"),
        pytest.param({0: SOURCE[0][2:]}, {"group", "failover"}, id="a_partition_is_not_read"),
        pytest.param({0: SOURCE[1][1:], 1: SOURCE[0][2:]}, {"group", "failover"}, id="other_partitions"),
    ],
)
def test_a_group_that_skips_or_repeats_is_caught(after: Topic, caught_by: set[str]) -> None:
    assert _false_of_a_move(READ_BEFORE, after) == caught_by


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({0: [], 1: []}, SOURCE, id="nothing_was_read_before"),
        pytest.param(SOURCE, {}, id="nothing_was_left_to_read"),
        pytest.param({**READ_BEFORE, 1: []}, {**READ_AFTER, 1: SOURCE[1]}, id="one_partition_was_not_begun"),
    ],
)
def test_a_group_that_was_not_in_the_middle_proves_nothing(before: Topic, after: Topic) -> None:
    assert "failover" in _false_of_a_move(before, after)


def test_a_move_in_an_empty_topic_proves_nothing() -> None:
    assert _false_of_a_move({}, {}, {0: [], 1: []}) == {"group", "failover"}
