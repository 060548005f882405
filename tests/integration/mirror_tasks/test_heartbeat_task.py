"""The heartbeat task on real clusters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deploy.local import LocalCluster
from mirror_connect.connectors.records.heartbeats import Heartbeat
from mirror_connect.spark_jobs.tasks.mirror_heartbeat import run_heartbeat_task
from tests.integration.mirror_rig import messages, running
from tests.integration.mirror_tasks.mapped_groups import (
    places,
    spec,
)

pytestmark = pytest.mark.brokers


async def test_heartbeats_are_written_at_each_interval_until_it_is_told_to_end(
    source: LocalCluster, target: LocalCluster
) -> None:
    async with running(spec(source, target, "Heartbeat"), None, run_heartbeat_task) as task:
        await task.until(lambda: task.link.counters.get("records", 0) >= 2)
        await task.finish()
    beats = [
        (Heartbeat.decode(m.key(), m.value()), m.partition(), m.timestamp()[1]) for m in messages(target, "heartbeats")
    ]
    assert beats == [(Heartbeat("A", "B", when), 0, when) for _, _, when in beats]
    assert len(beats) >= 2


async def test_a_heartbeat_task_keeps_its_place_in_connect_offsets_as_java_does(
    source: LocalCluster, target: LocalCluster
) -> None:
    of = spec(source, target, "Heartbeat")
    async with running(of, None, run_heartbeat_task) as task:
        await task.until(lambda: task.link.counters.get("records", 0) >= 1)
        await task.finish()
    assert (places(target, of.connector)[0], task.link.topics) == (
        (f'["{of.connector}",{{"sourceClusterAlias":"A","targetClusterAlias":"B"}}]', b'{"offset":0}'),
        {"heartbeats"},
    )


async def test_with_exactly_once_each_heartbeat_is_a_transaction_with_its_place(
    source: LocalCluster, target: LocalCluster
) -> None:
    of = replace(spec(source, target, "Heartbeat"), exactly_once=True)
    before = sum(1 for _ in messages(target, "heartbeats", isolation="read_committed"))
    async with running(of, None, run_heartbeat_task) as task:
        await task.until(lambda: task.link.counters.get("records", 0) >= 3)
        assert not task.link.problems
        await task.finish()
    beats = sum(1 for _ in messages(target, "heartbeats", isolation="read_committed")) - before
    assert beats == len(places(target, of.connector)) >= 3
