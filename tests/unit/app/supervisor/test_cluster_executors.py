"""Which executors are given up: with a made-up cluster of executors that the driver tells of."""

from __future__ import annotations

from mirror_connect.app.supervisor.cluster_executors import FIRST_HUNG_S, HUNG_AGAIN_S, HUNG_S
from tests.fakes.executors import Cluster, executor


def test_an_executor_is_given_up_if_no_task_on_it_is_heard() -> None:
    cluster = Cluster(executor("1"), executor("2"))
    cluster.run("c", "1")
    assert not cluster.executors.give_up("1")
    cluster.now += 7
    assert cluster.executors.give_up("1")
    assert not cluster.executors.give_up("1")
    assert cluster.executors.given_up == {"1"}
    cluster.executors.told([executor("2")])
    assert cluster.executors.given_up == frozenset()
    assert cluster.executors.is_lost("1")


def test_an_executor_whose_processes_ask_for_nothing_is_given_up_now_and_then() -> None:
    cluster = Cluster(executor("1", tasks=1), executor("2"))
    cluster.run("c", "1")
    assert not cluster.executors.look_for_hung(waiting=True)
    cluster.runs.clear()
    assert not cluster.executors.look_for_hung(waiting=True)
    cluster.now += HUNG_S + 1
    assert cluster.executors.look_for_hung(waiting=True)
    # Its successor on the same host does the same.
    cluster.executors.told([executor("3", "host1", tasks=1), executor("2")])
    assert not cluster.executors.look_for_hung(waiting=True)
    cluster.now += FIRST_HUNG_S + 1
    assert not cluster.executors.look_for_hung(waiting=True)
    cluster.now += HUNG_AGAIN_S
    assert cluster.executors.look_for_hung(waiting=True)


def test_the_first_process_of_an_executor_may_take_minutes() -> None:
    cluster = Cluster(executor("1", tasks=1))
    assert not cluster.executors.look_for_hung(waiting=True)
    cluster.now += FIRST_HUNG_S - 1
    assert not cluster.executors.look_for_hung(waiting=True)
    cluster.now += 2
    assert cluster.executors.look_for_hung(waiting=True)


def test_the_first_process_of_an_executor_gets_seconds_if_its_jvm_does_not_answer_either() -> None:
    cluster = Cluster(executor("1", tasks=1))
    for second in range(int(HUNG_S) + 1):
        cluster.executors.told([executor("1", tasks=1, silent_s=second)])
        assert not cluster.executors.look_for_hung(waiting=True)
        cluster.now += 1
    cluster.executors.told([executor("1", tasks=1, silent_s=HUNG_S + 1)])
    assert cluster.executors.look_for_hung(waiting=True)
    # And so is the next one on the same host.
    cluster.executors.told([executor("2", "host1", tasks=1, silent_s=HUNG_S + 1)])
    assert not cluster.executors.look_for_hung(waiting=True)
    cluster.now += HUNG_S + 1
    assert cluster.executors.look_for_hung(waiting=True)


def test_what_spark_began_before_an_executor_was_given_up_may_be_there_until_spark_has_lost_it() -> None:
    cluster = Cluster(executor("1"), executor("2"))
    assert not cluster.executors.was_any_given_up(cluster.now - 1)
    cluster.executors.give_up("1")
    assert cluster.executors.was_any_given_up(cluster.now - 1)
    assert not cluster.executors.was_any_given_up(cluster.now)
    cluster.executors.told([executor("2")])
    assert not cluster.executors.was_any_given_up(cluster.now - 1)


def test_no_executor_counts_as_hung_while_nobody_waits() -> None:
    cluster = Cluster(executor("1", tasks=1))
    for _ in range(3):
        assert not cluster.executors.look_for_hung(waiting=False)
        cluster.now += HUNG_S + 1
