from __future__ import annotations

from dataclasses import dataclass, field

from mirror_connect.app.group.assignor import NOTHING, Share
from mirror_connect.app.group.own_claims import OwnClaims
from mirror_connect.app.herder.interfaces import Claims, GroupAssignment, WantedWork
from mirror_connect.app.supervisor.readiness import Readiness
from mirror_connect.connectors.task_protocol import TaskId

X0, X1 = TaskId("x", 0), TaskId("x", 1)
NOWHERE = GroupAssignment(1)


@dataclass
class Work:
    runs: frozenset[TaskId] = frozenset()
    confirmed: dict[str, int] = field(default_factory=dict)
    readiness: Readiness = Readiness.READY
    begins_by: dict[str, int] = field(default_factory=dict)

    def wanted(self) -> WantedWork:
        return WantedWork({}, 0)

    def claims(self) -> Claims:
        return Claims(frozenset(), self.runs, self.confirmed, self.readiness, self.begins_by)


def tasks(*ids: TaskId) -> Share:
    return Share(tasks=frozenset(ids))


def place(*ids: TaskId, offset: int = -1) -> GroupAssignment:
    return GroupAssignment(1, tasks=frozenset(ids), config_offset=offset)


def test_what_may_start_and_what_has_not_ended_is_claimed() -> None:
    work = Work(frozenset({X0}))
    own = OwnClaims(work)
    own.assigned(place(X0))
    assert own.say(place(X1)).claims == tasks(X0, X1)
    work.runs = frozenset()
    assert own.has_ended_some(place(X1))
    assert own.now(place(X1)).claims == tasks(X1)


def test_what_it_ran_as_another_member_is_not_claimed() -> None:
    own = OwnClaims(Work(frozenset({X0})))
    assert own.say(NOWHERE).claims == NOTHING
    own.assigned(place(X0))
    assert own.has_had_any
    own.void()
    assert not own.has_had_any
    assert own.now(NOWHERE).claims == NOTHING


def test_it_tells_by_which_commit_it_would_begin_what_it_holds_nothing_of() -> None:
    """Between its JoinGroup and its assignment a task may be resumed, while the leader writes another commit."""
    work = Work(begins_by={"x": 5, "y": 6}, confirmed={"x": 4})
    own = OwnClaims(work)
    assert own.say(place(X0)).confirmed == {"x": 4, "y": 6}
    work.begins_by["y"] = 7
    assert own.has_news(place(X0))
    own.leaving = True
    assert own.now(place(X0)).confirmed == {"x": 4}


def test_it_tells_how_far_it_reads_before_it_begins_what_it_has_not_taken_over_yet() -> None:
    """It joins again before it has read the config topic so far. It may begin the task before the answer comes."""
    work = Work()
    own = OwnClaims(work)
    own.say(NOWHERE)
    own.assigned(place(X0, offset=8))
    assert not own.has_news(place(X0, offset=8))
    assert own.say(place(X0, offset=8)).confirmed == {"x": 8}
    # It has taken it over, and so knows a commit. Then it holds something.
    work.begins_by = {"x": 7}
    assert own.now(place(X0, offset=8)).confirmed == {"x": 7}
    work.confirmed = {"x": -1}
    assert own.now(place(X0, offset=8)).confirmed == {"x": -1}
    own.leaving = True
    assert own.now(place(X0, offset=8)).confirmed == {"x": -1}


def test_more_to_run_is_no_news_but_anything_else_is() -> None:
    work = Work()
    own = OwnClaims(work)
    own.say(NOWHERE)
    own.assigned(place(X0))
    work.runs = frozenset({X0})
    assert not own.has_news(place(X0))
    work.confirmed = {"x": 3}
    assert own.has_news(place(X0))
    own.say(place(X0))
    work.readiness = Readiness.FAILING
    assert own.has_news(place(X0))
    own.say(place(X0))
    assert not own.has_news(place(X0))


def test_one_that_leaves_claims_only_what_has_not_ended() -> None:
    work = Work(frozenset({X0}))
    own = OwnClaims(work)
    own.assigned(place(X0, X1))
    own.leaving = True
    assert own.now(place(X0, X1)).claims == tasks(X0)
    work.runs = frozenset()
    assert (own.say(place(X0, X1)).claims, own.told.leaving) == (NOTHING, True)
