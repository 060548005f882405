from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mirror_connect.app.group.assignor import NOTHING, Share, assign, union, work
from mirror_connect.app.supervisor.readiness import Readiness
from mirror_connect.connectors.task_protocol import TaskId

TEN = work({f"c{number}": 2 for number in range(10)})


def tasks(*ids: str) -> Share:
    return Share(tasks=frozenset(TaskId(each[:-1], int(each[-1])) for each in ids))


def settled(claims: dict[str, Share], wanted: Share, **more: Any) -> dict[str, Share]:
    """What members have when each has ended what was left out of its assignment."""
    for _ in range(3):
        given = assign(claims, wanted, **more)
        if given == claims:
            return given
        claims = given
    raise AssertionError("it does not come to rest")


def loads(shares: dict[str, Share]) -> tuple[list[int], list[int]]:
    return sorted(len(each.connectors) for each in shares.values()), sorted(len(each.tasks) for each in shares.values())


def moves(before: dict[str, Share], after: dict[str, Share]) -> int:
    gone = [before[name] - after.get(name, NOTHING) for name in before]
    return sum(len(each.connectors) + len(each.tasks) for each in gone)


def test_three_workers_share_ten_connectors_of_two_tasks_and_no_worker_has_both_of_one() -> None:
    given = assign({"a": NOTHING, "b": NOTHING, "c": NOTHING}, TEN)
    assert loads(given) == ([3, 3, 4], [6, 7, 7])
    assert union(given.values()) == TEN
    for share in given.values():
        assert max(Counter(task.connector for task in share.tasks).values()) == 1


def test_what_runs_stays_when_a_worker_goes() -> None:
    before = settled({"a": NOTHING, "b": NOTHING, "c": NOTHING}, TEN)
    after = assign({"a": before["a"], "b": before["b"]}, TEN)
    assert after["a"] - before["a"] | after["b"] - before["b"] == before["c"]
    assert loads(after) == ([5, 5], [10, 10])


def test_only_what_a_new_worker_gets_moves_and_in_two_steps() -> None:
    before = settled({"a": NOTHING, "b": NOTHING}, TEN)
    first = assign({**before, "c": NOTHING}, TEN)
    assert first["c"] == NOTHING
    assert moves(before, first) == 3 + 6
    second = assign(first, TEN)
    assert loads(second) == ([3, 3, 4], [6, 7, 7])
    assert moves(first, second) == 0
    assert assign(second, TEN) == second


def test_nobody_gets_what_another_one_has_not_ended() -> None:
    claims = {"a": tasks("x0", "x1", "x2"), "b": NOTHING}
    first = assign(claims, tasks("x0", "x1", "x2"))
    # It still ends it, however often the group joins.
    assert assign(claims, tasks("x0", "x1", "x2")) == first
    assert (first["a"], first["b"]) == (tasks("x0", "x1"), NOTHING)


def test_what_two_claim_belongs_to_neither() -> None:
    given = assign({"a": tasks("x0", "x1"), "b": tasks("x1", "x2")}, tasks("x0", "x1", "x2"))
    assert given == {"a": tasks("x0"), "b": tasks("x2")}


def test_what_nobody_wants_any_more_is_left_out() -> None:
    assert assign({"a": Share(frozenset({"x"}), frozenset({TaskId("x", 0)}))}, NOTHING) == {"a": NOTHING}


def test_connectors_stay_with_the_one_that_may_run_them() -> None:
    given = settled({"a": NOTHING, "b": NOTHING}, TEN, for_connectors="b")
    assert loads(given) == ([0, 10], [10, 10])
    taken = assign(given, TEN, for_connectors="a")
    assert taken["a"].connectors == taken["b"].connectors == frozenset()
    assert assign(taken, TEN, for_connectors="a")["a"].connectors == TEN.connectors


def test_what_is_held_waits_and_nothing_moves_for_it() -> None:
    before = settled({"a": NOTHING, "b": NOTHING, "c": NOTHING}, TEN)
    left = {"a": before["a"], "b": before["b"]}
    assert assign(left, TEN, held=before["c"], balance=False) == left
    come = {**left, "d": NOTHING}
    assert assign(come, TEN, held=before["c"], balance=False) == come
    assert assign({**left, "e": NOTHING}, TEN, back={"e": before["c"]})["e"] == before["c"]


STARTING, FAILING = Readiness.STARTING, Readiness.FAILING


def test_a_worker_whose_spark_is_not_there_yet_gets_connectors_and_no_tasks() -> None:
    before = settled({"a": NOTHING, "b": NOTHING}, TEN)
    during = settled({**before, "c": NOTHING}, TEN, readiness={"c": STARTING})
    assert {name: during[name].tasks for name in "abc"} == {
        **{name: before[name].tasks for name in "ab"},
        "c": frozenset(),
    }
    assert loads(during) == ([3, 3, 4], [0, 10, 10])
    assert loads(settled(during, TEN)) == ([3, 3, 4], [6, 7, 7])


def test_without_any_spark_all_get_their_share_at_once_and_keep_it() -> None:
    first = settled({"a": NOTHING, "b": NOTHING}, TEN, readiness={"a": STARTING, "b": STARTING})
    assert loads(first) == ([5, 5], [10, 10])
    assert settled(first, TEN, readiness={"b": STARTING}) == first
    assert assign({"a": NOTHING}, TEN, readiness={"a": FAILING}) == {"a": TEN}


def test_what_is_new_goes_to_those_that_are_ready_and_what_is_too_much_leaves_those_that_are_not() -> None:
    claims = {"a": NOTHING, "b": tasks("x0", "x1", "x2")}
    given = settled(claims, tasks("x0", "x1", "x2", "y0"), readiness={"b": STARTING})
    assert {name: len(each.tasks) for name, each in given.items()} == {"a": 2, "b": 2}
    assert given["b"].tasks < claims["b"].tasks


def test_a_worker_whose_spark_does_not_come_gives_its_tasks_to_those_that_can_run_them() -> None:
    before = settled({"a": NOTHING, "b": NOTHING, "c": NOTHING}, TEN)
    after = settled(before, TEN, readiness={"c": FAILING})
    assert (after["c"].tasks, after["c"].connectors) == (frozenset(), before["c"].connectors)
    # One that may soon be there is better than one that fails.
    assert settled(before, TEN, readiness=dict.fromkeys("bc", FAILING) | {"a": STARTING})["a"].tasks == TEN.tasks
    assert settled(before, TEN, readiness=dict.fromkeys("abc", FAILING)) == before


def test_what_waited_for_a_worker_is_its_own_again_before_its_spark_is_there() -> None:
    before = settled({"a": NOTHING, "b": NOTHING}, TEN)
    again = assign({"a": before["a"], "c": NOTHING}, TEN, back={"c": before["b"]}, readiness={"c": STARTING})
    assert again["c"] == before["b"]


NAMES = [f"m{number}" for number in range(5)]
ITEMS = st.builds(TaskId, st.sampled_from("xyz"), st.integers(0, 5))
CLAIMS = st.dictionaries(st.sampled_from(NAMES), st.frozensets(ITEMS, max_size=10), min_size=1)


def fewest_moves(kept: list[int], total: int) -> int:
    """Of all ways to give each its share, or one more."""
    least, more = divmod(total, len(kept))
    return min(
        sum(max(0, count - least - (number in chosen)) for number, count in enumerate(kept))
        for chosen in combinations(range(len(kept)), more)
    )


@settings(max_examples=300, deadline=None)
@given(CLAIMS, st.dictionaries(st.sampled_from("xyz"), st.integers(0, 6)))
def test_shares_are_disjoint_and_respect_claims_and_few_move(
    claimed: dict[str, frozenset[TaskId]], wanted: dict[str, int]
) -> None:
    claims = {name: Share(tasks=each) for name, each in claimed.items()}
    asked = Share(tasks=work(wanted).tasks)
    given_now = assign(claims, asked)
    counts = Counter(task for each in claims.values() for task in each.tasks)
    owners = Counter(task for each in given_now.values() for task in each.tasks)
    assert set(owners.values()) <= {1}
    assert set(owners) <= asked.tasks
    for name, share in given_now.items():
        for task in share.tasks - claims[name].tasks:
            assert counts[task] == 0
    kept = [len([task for task in each.tasks & asked.tasks if counts[task] == 1]) for each in claims.values()]
    single = sum(kept) - sum(len(claims[name].tasks & given_now[name].tasks) for name in claims)
    assert single == fewest_moves(kept, len(asked.tasks))
    # What nobody claims is with somebody now.
    assert {task for task in asked.tasks if not counts[task]} <= set(owners)
    after = settled(given_now, asked)
    assert union(after.values()) == asked
    sizes = [len(each.tasks) for each in after.values()]
    assert max(sizes) - min(sizes) <= 1


@settings(max_examples=200, deadline=None)
@example(
    {"m1": frozenset(), "m2": work({"y": 3}).tasks, "m3": frozenset()},
    {"y": 4},
    {"m1": Readiness.STARTING, "m2": Readiness.STARTING},
)
@given(
    CLAIMS,
    st.dictionaries(st.sampled_from("xyz"), st.integers(0, 6)),
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(Readiness)),
)
def test_nothing_goes_to_one_that_is_less_ready_than_another(
    claimed: dict[str, frozenset[TaskId]], wanted: dict[str, int], readiness: dict[str, Readiness]
) -> None:
    claims = {name: Share(tasks=each) for name, each in claimed.items()}
    asked = Share(tasks=work(wanted).tasks)
    ranks = {name: readiness.get(name, Readiness.READY) for name in claims}
    best = min(ranks.values())
    given_now = assign(claims, asked, readiness=readiness)
    for name, share in given_now.items():
        if ranks[name] is not best:
            assert share.tasks <= claims[name].tasks
    after = settled(given_now, asked, readiness=readiness)
    assert union(after.values()) == asked
    takers = [len(after[name].tasks) for name in claims if ranks[name] is best]
    assert max(takers) - min(takers) <= 1
    assert not [name for name in claims if ranks[name] is FAILING is not best and after[name].tasks]
    # When all are ready, it is as if they had always been.
    sizes = [len(each.tasks) for each in settled(after, asked).values()]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("seed", range(3))
def test_the_order_in_which_members_are_named_changes_nothing(seed: int) -> None:
    names = NAMES[seed:] + NAMES[:seed]
    assert assign(dict.fromkeys(names, NOTHING), TEN) == assign(dict.fromkeys(NAMES, NOTHING), TEN)
