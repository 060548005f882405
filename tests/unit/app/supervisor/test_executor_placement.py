"""Which executor a task should have: with a made-up cluster of executors that the driver tells of."""

from __future__ import annotations

import pytest

from mirror_connect.app.supervisor.executor_placement import (
    ANSWERS_S,
    MOST_REFUSALS,
    RELOCATE_AFTER_S,
    RELOCATE_EVERY_S,
)
from tests.fakes.executors import Cluster, executor


@pytest.mark.parametrize(
    ("there", "refused"),
    [
        pytest.param([], False, id="nothing_is_anywhere"),
        pytest.param([("c", "1")], True, id="one_of_the_connector_is_here"),
        pytest.param([("c", "2")], False, id="one_of_the_connector_is_there"),
        pytest.param([("c", "1"), ("c", "2")], False, id="one_of_the_connector_is_on_each"),
        pytest.param([("other", "1")], True, id="there_is_less_to_do_there"),
        pytest.param([("c", "2"), ("other", "1"), ("other", "1")], False, id="the_connectors_own_count_first"),
        pytest.param([("c", "1"), *[("other", "2")] * 4], False, id="no_slot_is_free_there"),
    ],
)
def test_a_task_is_sent_on_if_another_executor_is_better(there: list[tuple[str, str]], refused: bool) -> None:
    cluster = Cluster(executor("1"), executor("2"))
    for connector, place in there:
        cluster.run(connector, place)
    assert cluster.placement.refuses(cluster.run("c"), "1") is refused


def test_tasks_of_a_connector_are_spread_over_hosts_before_executors() -> None:
    cluster = Cluster(executor("1", "a"), executor("2", "a"), executor("3", "b"))
    cluster.run("c", "1")
    assert cluster.placement.refuses(cluster.run("c"), "2")
    assert not cluster.placement.refuses(cluster.run("c"), "3")


def test_in_the_end_every_executor_is_taken() -> None:
    cluster = Cluster(executor("1", slots=9), executor("2", slots=9))
    for _ in range(8):
        cluster.run("c", "1")
    run = cluster.run("c")
    assert [cluster.placement.refuses(run, "1") for _ in range(MOST_REFUSALS + 1)] == [True] * MOST_REFUSALS + [False]


def test_neither_a_drained_executor_nor_one_given_up_is_better() -> None:
    cluster = Cluster(executor("1"), executor("2", draining=True), executor("3"))
    cluster.run("c", "1")
    cluster.executors.give_up("3")
    assert not cluster.placement.refuses(cluster.run("c"), "1")


def test_tasks_leave_a_drained_executor_as_far_as_there_are_slots() -> None:
    cluster = Cluster(executor("1", draining=True), executor("2", slots=1))
    first, second = cluster.run("c", "1"), cluster.run("c", "1")
    cluster.placement.look(cluster.now)
    assert (first.leaving, second.leaving) == (True, False)
    cluster.executors.told([executor("1", draining=True), executor("2", slots=2)])
    cluster.placement.look(cluster.now)
    assert second.leaving
    assert first.is_to_end_its_epoch


def test_a_new_executor_gets_tasks_of_others_one_after_the_other() -> None:
    cluster = Cluster(executor("1"))
    runs = [cluster.run("c", "1") for _ in range(4)]
    cluster.executors.told([executor("1"), executor("2")])
    cluster.now += RELOCATE_EVERY_S + 1
    cluster.placement.look(cluster.now)
    assert not any(run.leaving for run in runs)
    cluster.now += RELOCATE_AFTER_S
    cluster.placement.look(cluster.now)
    assert [run.leaving for run in runs] == [True, False, False, False]
    runs[0].begin_attempt("next", cluster.now, executor="2")
    cluster.now += RELOCATE_EVERY_S + 1
    cluster.placement.look(cluster.now)
    assert [run.leaving for run in runs] == [False, True, False, False]
    runs[1].begin_attempt("next", cluster.now, executor="2")
    cluster.now += RELOCATE_AFTER_S + RELOCATE_EVERY_S
    cluster.placement.look(cluster.now)
    assert not any(run.leaving for run in runs)


def test_an_executor_that_does_not_answer_is_no_better_place() -> None:
    cluster = Cluster(executor("1"), executor("2", silent_s=ANSWERS_S))
    cluster.run("c", "1")
    assert not cluster.placement.refuses(cluster.run("c"), "1")
