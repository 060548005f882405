"""One run by itself: its versions of partitions, and whose work it is."""

from __future__ import annotations

from mirror_connect.app.supervisor.task_run import Partitions, Phase, TaskRun
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.task_protocol import TaskId

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def begun(*partitions: TopicPartition) -> TaskRun:
    """A run at which the attempt `first` is at work, with these partitions."""
    run = TaskRun(TaskId("c", 0), {}, frozenset(partitions), since=0.0)
    run.assign(frozenset(partitions))
    run.begin_attempt("first", now=1.0)
    return run


def test_a_partition_taken_away_is_owned_until_the_task_has_confirmed_that() -> None:
    run = begun(ZERO, ONE)
    run.assign(frozenset({ZERO}))
    owned = [run.owned]
    assert run.confirm(run.version)
    owned.append(run.owned)
    assert (run.assigned, owned) == ({ZERO}, [{ZERO, ONE}, {ZERO}])


def test_the_same_partitions_make_no_new_version() -> None:
    run = begun(ZERO)
    version = run.version
    run.assign(frozenset({ZERO}))
    assert run.version == version
    assert not run.confirm(version)


def test_a_new_attempt_owns_the_newest_partitions_only() -> None:
    run = begun(ZERO, ONE)
    run.assign(frozenset({ONE}))
    run.begin_attempt("second", now=2.0)
    assert (run.owned, run.past_attempts) == ({ONE}, {"first"})
    assert (run.is_work_of("first"), run.is_work_of("second")) == (False, True)


def test_a_run_that_no_process_has_ends_at_once_when_it_is_asked_to_finish() -> None:
    waiting, working = TaskRun(TaskId("c", 0), {}, Partitions(), since=0.0), begun(ZERO)
    waiting.ask_to_finish(5.0)
    working.ask_to_finish(5.0)
    assert (waiting.phase, working.phase) == (Phase.ENDED, Phase.FINISHING)


def test_an_ended_run_owns_nothing_and_is_nobodys_work() -> None:
    run = begun(ZERO)
    run.end()
    assert (run.owned, run.is_work_of("first"), run.is_over) == (frozenset(), False, True)
