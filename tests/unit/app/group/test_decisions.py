"""What a leader decides, one generation after the other; and groups in which anything happens in any order."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror_connect.app.group.assignor import NOTHING, Share, union, work
from mirror_connect.app.group.decisions import LOST_SECONDS, Joined, decide, last_state
from mirror_connect.app.group.messages import Assignment, GroupState, Metadata
from mirror_connect.app.herder.interfaces import WantedWork
from mirror_connect.app.supervisor.readiness import Readiness
from mirror_connect.connectors.task_protocol import TaskId

# `make soak` has more of them.
EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "700"))
WANTED = WantedWork({"x": 3, "y": 3}, 10)


def member(name: str, claims: Share = NOTHING, version: int = 2, **more: int) -> Metadata:
    return Metadata(f"http://{name}:1", f"{name}:1", version, 10, claims, dict(more))


@dataclass
class Leader:
    """Decides for its group; what each member has been assigned is what it claims next."""

    delay_s: float = 0.0
    generation: int = 0
    now: float = 1000.0
    state: GroupState = field(default_factory=GroupState)
    last: dict[str, Assignment] = field(default_factory=dict)

    def round(self, *names: str, wanted: WantedWork | None = WANTED, leader: str = "") -> dict[str, Share]:
        members = {name: member(name, self.last[name].share if name in self.last else NOTHING) for name in names}
        return self.decided(members, wanted, leader)

    def decided(
        self,
        members: dict[str, Metadata],
        wanted: WantedWork | None = WANTED,
        leader: str = "",
        *,
        has_missed: bool = False,
    ) -> dict[str, Share]:
        self.generation += 1
        joined = Joined(self.generation, leader or next(iter(members)), members)
        before = last_state(self.state, joined)
        self.last = decide(joined, wanted, before, now=self.now, delay_s=self.delay_s, has_missed=has_missed)
        self.state = next(iter(self.last.values())).state
        return {name: each.share for name, each in self.last.items()}

    def fences(self) -> set[TaskId]:
        """What the leader of the last generation has to fence; nobody else has to."""
        found = [each.fence for each in self.last.values() if each.fence]
        assert len(found) <= 1
        return set(found[0]) if found else set()


def test_members_learn_who_runs_what_and_where() -> None:
    leader = Leader()
    given = leader.round("a", "b")
    workers = leader.state.workers
    assert [(each.url, each.worker_id, each.share) for each in workers] == [
        ("http://a:1", "a:1", given["a"]),
        ("http://b:1", "b:1", given["b"]),
    ]
    assert union(given.values()) == work(WANTED.connectors)
    assert leader.state.offset == 10


def test_who_begins_with_a_connector_has_confirmed_what_it_will_have_read() -> None:
    leader = Leader()
    leader.decided({"a": member("a", x=4), "b": member("b", z=-1)}, WantedWork({"x": 2}, 12))
    confirmed = {each.worker_id: each.confirmed for each in leader.state.workers}
    assert confirmed == {"a:1": {"x": 4}, "b:1": {"x": 12, "z": -1}}


def test_a_member_of_version_1_runs_nothing_and_learns_who_leads() -> None:
    leader = Leader()
    given = leader.decided({"a": member("a"), "old": member("old", version=1)})
    assert given == {"a": work(WANTED.connectors), "old": NOTHING}
    assert leader.last["old"].leader_url == "http://a:1"
    assert [each.worker_id for each in leader.state.workers] == ["a:1"]


def test_a_lost_worker_is_told_of_for_a_while_with_all_that_it_may_have_run() -> None:
    leader = Leader()
    given = leader.round("a", "b", "c")
    leader.now += 5.0
    leader.round("a", "b")
    (lost,) = leader.state.lost
    assert (lost.worker_id, lost.share, lost.lost_at) == ("c:1", given["c"], 1005.0)
    assert lost.confirmed == dict.fromkeys({task.connector for task in given["c"].tasks}, 10)
    leader.now += LOST_SECONDS - 1.0
    leader.round("a", "b")
    assert leader.state.lost == (lost,)
    leader.now += 1.0
    leader.round("a", "b")
    assert leader.state.lost == ()


def test_what_a_lost_worker_had_not_ended_yet_is_told_of_too() -> None:
    leader = Leader()
    busy = Share(tasks=frozenset({TaskId("gone", 0)}))
    leader.decided({"a": member("a"), "b": member("b", busy, gone=3)})
    leader.round("a")
    (lost,) = leader.state.lost
    assert TaskId("gone", 0) in lost.share.tasks
    assert lost.confirmed["gone"] == 3


@pytest.mark.parametrize("delay_s", [0.0, 30.0])
def test_a_lost_worker_that_ran_nothing_any_more_is_told_of_while_its_requests_may_land(delay_s: float) -> None:
    """Its last task was killed, and the partitions of that one wait. It has no work, as there is too little."""
    leader = Leader(delay_s)
    none = WantedWork({}, 10)
    leader.decided({"a": member("a"), "b": member("b", x=3), "c": member("c")}, none)
    leader.decided({"a": member("a")}, none)
    (lost,) = leader.state.lost
    assert (lost.worker_id, lost.share, lost.confirmed, leader.state.held) == ("b:1", NOTHING, {"x": 3}, ())


def test_a_leader_that_is_new_in_the_group_learns_of_the_lost_from_the_others() -> None:
    first = Leader()
    shares = first.round("a", "b", "c")
    fresh = Leader(generation=first.generation)
    fresh.decided(
        {"new": member("new"), "b": replace(member("b", shares["b"]), seen=first.state), "c": member("c", shares["c"])}
    )
    assert [each.worker_id for each in fresh.state.lost] == ["a:1"]


def test_what_members_know_of_another_life_of_the_group_counts_only_at_the_beginning_of_a_new_one() -> None:
    before = Leader(generation=69)
    before.round("a", "b")
    old = before.state
    members = {"new": member("new"), "b2": replace(member("b"), seen=old)}
    # The brokers have lost the group. Its first leader is a worker that has just started.
    assert last_state(GroupState(), Joined(1, "new", members)) == old
    fresh = Leader()
    fresh.decided(members)
    assert {each.worker_id for each in fresh.state.lost} == {"a:1", "b:1"}
    again = {"new": replace(member("new"), seen=fresh.state), "b2": replace(member("b"), seen=old)}
    for own in (fresh.state, old, GroupState()):
        assert last_state(own, Joined(2, "new", again)) == fresh.state


def test_without_a_delay_the_others_take_over_at_once() -> None:
    leader = Leader()
    leader.round("a", "b")
    assert leader.round("a") == {"a": work(WANTED.connectors)}


def test_with_a_delay_a_lost_worker_is_waited_for_and_then_replaced() -> None:
    leader = Leader(delay_s=30.0)
    before = leader.round("a", "b", "c")
    left = {"a": before["a"], "b": before["b"]}
    assert leader.round("a", "b") == left
    (held,) = leader.state.held
    assert (held.worker_id, held.share, held.until) == ("c:1", before["c"], 1030.0)
    leader.now += 29.0
    # A worker more does not end the wait, nor does anything move to it meanwhile.
    assert leader.round("a", "b", "d") == {**left, "d": NOTHING}
    leader.now += 1.0
    after = leader.round("a", "b", "d")
    assert after["d"] == before["c"]
    assert leader.state.held == ()


def test_a_worker_that_is_back_in_time_gets_its_own_again_at_once() -> None:
    leader = Leader(delay_s=30.0)
    before = leader.round("a", "b", "c")
    leader.round("a", "b")
    leader.now += 3.0
    back = replace(member("c2"), worker_id="c:1")
    members = {name: member(name, before[name]) for name in "ab"} | {"c2": back}
    assert leader.decided(members)["c2"] == before["c"]


def test_a_new_leader_goes_on_waiting() -> None:
    leader = Leader(delay_s=30.0)
    before = leader.round("a", "b", "c")
    leader.round("b", "c", leader="b")
    leader.now += 3.0
    other = Leader(delay_s=30.0, generation=leader.generation, now=leader.now)
    members = {name: replace(member(name, before[name]), seen=leader.state) for name in "bc"}
    assert other.decided(members) == {name: before[name] for name in "bc"}
    assert other.state.held[0].until == 1030.0


def test_what_is_wanted_no_more_is_not_waited_for() -> None:
    leader = Leader(delay_s=30.0)
    before = leader.round("a", "b")
    given = leader.round("a", wanted=WantedWork({}, 11))
    assert (given["a"], leader.state.held) == (NOTHING, ())
    assert before["b"]


def test_a_leader_that_knows_too_little_leaves_everything_as_it_is() -> None:
    leader = Leader()
    before = leader.round("a", "b")
    assert leader.round("a", "b", "c", wanted=None) == {**before, "c": NOTHING}
    assert leader.state.offset == 10


def test_without_rest_the_leader_keeps_all_connectors() -> None:
    leader = Leader()
    members = {name: replace(member(name), url=f"host/A->B/{name}") for name in "ab"}
    given = leader.decided(members, leader="b")
    assert (given["a"].connectors, given["b"].connectors) == (frozenset(), frozenset({"x", "y"}))
    assert {len(each.tasks) for each in given.values()} == {3}


def test_of_a_worker_that_leaves_nothing_is_waited_for_and_the_others_have_it_at_once() -> None:
    leader = Leader()
    before = leader.round("a", "b")
    members = {"a": member("a", before["a"]), "b": replace(member("b"), leaving=True)}
    assert leader.decided(members) == {"a": work(WANTED.connectors), "b": NOTHING}
    assert [each.worker_id for each in leader.state.workers] == ["a:1"]
    assert leader.state.lost == ()
    # It has gone now.
    assert leader.round("a") == {"a": work(WANTED.connectors)}
    assert leader.state.lost == ()


@pytest.mark.parametrize(
    "left", [{"claims": Share(tasks=frozenset({TaskId("x", 0)}))}, {"confirmed": {"x": 3}}], ids=["runs", "unsettled"]
)
def test_a_worker_that_leaves_with_something_left_is_lost_like_any_other(left: dict[str, Any]) -> None:
    leader = Leader()
    before = leader.round("a", "b")
    given = leader.decided({"a": member("a", before["a"]), "b": replace(member("b"), leaving=True, **left)})
    assert not given["a"].tasks & left.get("claims", NOTHING).tasks
    leader.round("a")
    assert [each.worker_id for each in leader.state.lost] == ["b:1"]


def test_a_leader_that_leaves_gives_its_own_to_the_others() -> None:
    leader = Leader()
    before = leader.round("a", "b")
    members = {"a": replace(member("a"), leaving=True), "b": member("b", before["b"])}
    assert leader.decided(members) == {"a": NOTHING, "b": work(WANTED.connectors)}


@pytest.mark.parametrize("url", ["http://a:1", "host/A->B/a"])
def test_a_last_worker_that_leaves_assigns_nothing(url: str) -> None:
    leader = Leader()
    leader.round("a")
    assert leader.decided({"a": replace(member("a"), url=url, leaving=True)}) == {"a": NOTHING}


def test_without_rest_the_connectors_of_a_leader_that_leaves_wait_for_the_next_one() -> None:
    leader = Leader()
    members = {name: replace(member(name), url=f"host/A->B/{name}") for name in "ab"}
    before = leader.decided(members)
    leaves = {"a": replace(members["a"], leaving=True), "b": replace(members["b"], claims=before["b"])}
    assert leader.decided(leaves)["b"] == Share(tasks=work(WANTED.connectors).tasks)


def test_with_a_delay_a_worker_that_has_left_is_waited_for() -> None:
    leader = Leader(delay_s=30.0)
    before = leader.round("a", "b")
    members = {"a": member("a", before["a"]), "b": replace(member("b"), leaving=True)}
    assert leader.decided(members) == {"a": before["a"], "b": NOTHING}
    assert leader.round("a") == {"a": before["a"]}
    leader.now += 3.0
    back = replace(member("b2"), worker_id="b:1", readiness=Readiness.STARTING)
    assert leader.decided({"a": member("a", before["a"]), "b2": back})["b2"] == before["b"]
    assert leader.state.lost == ()


def test_a_worker_gets_tasks_when_its_spark_is_there() -> None:
    leader = Leader()
    before = leader.round("a")
    starting = replace(member("b"), readiness=Readiness.STARTING)
    assert leader.decided({"a": member("a", before["a"]), "b": starting})["a"].tasks == before["a"].tasks
    leader.round("a", "b")
    assert {len(each.tasks) for each in leader.round("a", "b").values()} == {3}


def test_members_are_told_when_something_is_about_to_move() -> None:
    leader = Leader()
    leader.round("a")
    assert not leader.last["a"].moving
    leader.round("a", "b")
    assert leader.last["a"].moving
    leader.round("a", "b")
    assert not leader.last["a"].moving


# Anything in any order.


@dataclass
class Worker:
    """One process. `runs`: what it has not ended. `slow`: for how many rounds it still does not end what it should."""

    name: str
    version: int = 2
    runs: Share = NOTHING
    had: Share = NOTHING
    seen: GroupState = field(default_factory=GroupState)
    slow: int = 0

    def metadata(self, offset: int) -> Metadata:
        if self.version == 1:
            return Metadata(f"http://{self.name}", version=1)
        # As Membership has it: what it may start, and what it has not ended.
        return Metadata(f"http://{self.name}", self.name, 2, offset, self.runs | self.had, {}, self.seen)

    def take(self, given: Assignment) -> None:
        self.had, self.seen = given.share, given.state
        if self.slow:
            self.slow -= 1
            self.runs |= given.share
        else:
            self.runs = given.share


Step = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ("join", "join", "join old", "go", "kill leader", "slow", "miss", "behind", "wish", "wish", "round", "wait")
        ),
        st.integers(0, 5),
        st.integers(0, 5),
    ),
    max_size=25,
)


class AnyGroup:
    """Rounds of a group. A worker that is stopped counts as gone: what it runs its lease holds off (test_group_model)."""

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s
        self.workers: dict[str, Worker] = {}
        self.leader = ""
        self.generation = 0
        self.now = 0.0
        self.wanted: dict[str, int] = {}
        self.offset = 0
        self.made = 0

    def step(self, step: Step) -> None:
        kind, one, other = step
        names = sorted(self.workers)
        chosen = names[one % len(names)] if names else ""
        match kind:
            case "join" | "join old":
                self.made += 1
                name = f"w{self.made}"
                self.workers[name] = Worker(name, version=1 if kind == "join old" else 2)
            case "go" if chosen:
                del self.workers[chosen]
            case "kill leader" if self.leader in self.workers:
                del self.workers[self.leader]
            case "slow" if chosen:
                self.workers[chosen].slow = other
            case "wish":
                self.offset += 1
                if other == 5:
                    self.wanted.pop(f"c{one}", None)
                else:
                    self.wanted[f"c{one}"] = other
            case "wait":
                self.now += 10.0 * one
                return
        self.round(missing=chosen if kind == "miss" else "", behind=kind == "behind")

    def round(self, *, missing: str = "", behind: bool = False) -> dict[str, Share]:
        """`missing`: does not hear of its assignment, and joins again. `behind`: the leader has not read far enough."""
        if not self.workers:
            return {}
        self.generation += 1
        if self.leader not in self.workers:
            # Whom the broker chooses, the newest one too.
            self.leader = sorted(self.workers)[self.generation % len(self.workers)]
        leader = self.workers[self.leader]
        if leader.version == 1:
            for each in self.workers.values():
                each.runs = each.had = NOTHING
            return {}
        members = {name: each.metadata(self.offset) for name, each in self.workers.items()}
        joined = Joined(self.generation, self.leader, members)
        wanted = None if behind else WantedWork(dict(self.wanted), self.offset)
        given = decide(joined, wanted, last_state(leader.seen, joined), now=self.now, delay_s=self.delay_s)
        self.look(given, members)
        for name, each in self.workers.items():
            if name != missing and each.version == 2:
                each.take(given[name])
        return {name: each.share for name, each in given.items() if self.workers[name].version == 2}

    def look(self, given: dict[str, Assignment], members: dict[str, Metadata]) -> None:
        for name, each in given.items():
            for other, theirs in given.items():
                if name != other:
                    assert not each.share & theirs.share, f"{name} and {other} have the same"
                    assert not each.share & members[other].claims, f"{name} has what {other} claims"

    def come_to_rest(self) -> None:
        for each in self.workers.values():
            each.slow = 0
        self.workers = {name: each for name, each in self.workers.items() if each.version == 2}
        if not self.workers:
            return
        self.round()
        # What those ran that have just been found missing.
        self.now += self.delay_s + 1.0
        for _ in range(4):
            given = self.round()
        assert given == self.round(), "it does not come to rest"
        assert union(given.values()) == work(self.wanted)
        for sizes in ([len(each.connectors) for each in given.values()], [len(each.tasks) for each in given.values()]):
            assert max(sizes) - min(sizes) <= 1, f"not balanced: {sizes}"
        held = union(each.runs for each in self.workers.values())
        assert held == work(self.wanted)


@pytest.mark.parametrize("delay_s", [pytest.param(0.0, id="at_once"), pytest.param(15.0, id="after_a_delay")])
def test_nothing_ever_has_two_owners_and_everything_comes_to_one_in_the_end(delay_s: float) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, database=None)
    @given(STEPS)
    def live(steps: list[Step]) -> None:
        group = AnyGroup(delay_s)
        for step in steps:
            group.step(step)
        group.come_to_rest()

    live()


# What the leader has to fence.

TASKS = work(WANTED.connectors).tasks


def test_what_nobody_had_is_fenced_for_whoever_gets_it_and_what_moves_is_not() -> None:
    """All workers may have been killed."""
    leader = Leader()
    leader.round("a", "b")
    assert leader.fences() == TASKS
    leader.round("a", "b")
    assert leader.fences() == set()
    # A third one comes: two tasks are given up, and then they move.
    leader.round("a", "b", "c")
    given = leader.round("a", "b", "c")
    assert given["c"].tasks
    assert leader.fences() == set()


def test_a_task_that_is_taken_away_is_fenced_once_when_it_has_ended() -> None:
    """It may have been killed, with a transaction open. Until it has ended it commits what it has copied."""
    leader = Leader()
    shares = leader.round("a", "b", wanted=WantedWork({"x": 2}, 10))
    less = WantedWork({"x": 1}, 12)
    leader.decided({each: member(each, shares[each]) for each in "ab"}, less)
    ending = leader.fences()
    kept = {each: Share(shares[each].connectors, shares[each].tasks - {TaskId("x", 1)}) for each in "ab"}
    leader.decided({each: member(each, kept[each]) for each in "ab"}, less)
    ended = leader.fences()
    leader.round("a", "b", wanted=less)
    assert (ending, ended, leader.fences()) == (set(), {TaskId("x", 1)}, set())


def test_a_loss_is_fenced_once_however_often_it_is_told() -> None:
    leader = Leader()
    leader.round("a", "b")
    lost = leader.last["b"].share.tasks
    leader.round("a")
    assert leader.fences() == lost
    for _ in range(40):
        # A message takes a while, so the loss seems to be later each time.
        late = [replace(each, lost_at=each.lost_at + 0.3) for each in leader.state.lost]
        leader.state = replace(leader.state, lost=tuple(late))
        leader.now += 0.5
        leader.round("a")
        assert leader.state.lost
        assert leader.fences() == set()


def test_a_leader_that_is_new_in_the_group_spares_what_has_begun_after_the_loss() -> None:
    leader = Leader(delay_s=30.0)
    leader.round("a", "b", "c")
    kept, lost = leader.last["b"].share.tasks, leader.last["c"].share.tasks
    leader.round("a", "b")
    assert leader.fences() == lost
    # `a` is lost as well, and the new one leads at once. What `c` had waits for it, and has not begun anywhere.
    also = leader.last["a"].share.tasks
    members = {"new": member("new"), "b": member("b", leader.last["b"].share)}
    leader.decided(members, leader="new", has_missed=True)
    assert leader.fences() == lost | also
    assert not leader.fences() & kept
    # When the wait is over, somebody gets them, and they are fenced once more before they begin.
    leader.now += 31.0
    given = leader.round("new", "b")
    assert lost <= union(given.values()).tasks
    assert leader.fences() == lost | also
    leader.round("new", "b")
    assert leader.fences() == set()


def test_a_member_that_was_lost_and_is_back_is_fenced_before_it_begins_again() -> None:
    leader = Leader()
    leader.round("a", "b")
    lost = leader.last["b"].share.tasks
    # The same worker, as a new member of the group.
    leader.decided({"a": member("a", leader.last["a"].share), "b2": replace(member("b"))})
    assert leader.fences() == lost
