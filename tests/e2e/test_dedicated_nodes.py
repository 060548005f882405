"""Nodes of dedicated mode with one file and without internal REST: they share the tasks of a flow by the group alone."""

from __future__ import annotations

import contextlib
import re

import pytest

from deploy.local import LocalCluster
from tests.brokers import messages
from tests.e2e.dedicated import Dedicated, mm2_properties
from tests.e2e.ends import wait_ends
from tests.e2e.identity_topics import produce
from tests.waiting import wait_for, wait_for_state

# Nodes that serve REST share in test_dedicated.py.
pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long]

ALIAS, TOPIC = "shared", "dedicated-shared"
PARTITIONS = range(4)


def test_two_nodes_share_the_tasks_of_a_flow_and_one_goes_on_alone(
    source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    source_cluster.create_topic(TOPIC, len(PARTITIONS))
    # Both clusters are shared with other tests: topics of heartbeats would be found there.
    more = {"topics": TOPIC, "groups": "", "emit.heartbeats.enabled": "false", "tasks.max": "4"}
    properties = mm2_properties({ALIAS: source_cluster, "B": target_cluster}, [f"{ALIAS}->B"], more)
    copy = f"{ALIAS}.{TOPIC}"
    with contextlib.ExitStack() as stack:
        first, second = (Dedicated(target_cluster, properties, internal_rest=False, name=f"node{n}") for n in "12")
        for each in (first, second):
            stack.callback(each.close)
        first.start()
        _copied(source_cluster, target_cluster, copy, range(10))
        second.start()
        wait_for_state(lambda: [_runs(each)[1] for each in (first, second)] == [2, 2], "both run tasks")
        # Who leads writes the task configs, so all connectors stay there.
        assert sorted(_runs(each)[0] for each in (first, second))[0] == 0
        _copied(source_cluster, target_cluster, copy, range(10, 20))
        first.kill()
        _copied(source_cluster, target_cluster, copy, range(20, 30))
        assert second.stop() == 0


def _copied(source: LocalCluster, target: LocalCluster, copy: str, numbers: range) -> None:
    """Produces these numbers to each partition, and waits until all since 0 are there, in order."""
    rows = ({"value": b"%d" % number, "partition": partition} for partition in PARTITIONS for number in numbers)
    produce(source, TOPIC, rows)
    wait_ends(target, copy, dict.fromkeys(PARTITIONS, numbers.stop))
    wanted = list(range(numbers.stop))
    wait_for(lambda: all(_firsts(target, copy, each) == wanted for each in PARTITIONS), "all are copied", 120, 0.5)


def _firsts(target: LocalCluster, copy: str, partition: int) -> list[int]:
    """The numbers that are there, each where it came first: a kill repeats some."""
    return list(dict.fromkeys(int(message.value() or b"-1") for message in messages(target, copy, partition)))


def _runs(node: Dedicated) -> tuple[int, int]:
    """How many connectors and tasks it runs, by the last that it said of it as one of two nodes."""
    said = re.findall(r"This worker runs (\d+) connectors? and (\d+) tasks?, as one of 2 workers", node.log_text())
    return (int(said[-1][0]), int(said[-1][1])) if said else (-1, -1)
