"""The plan of a checkpoint connector between real brokers, and what its task then does."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from deploy.local import LocalCluster
from mirror_connect.app.config.worker_config import WorkerConfig
from mirror_connect.app.planning.plan import PlannedGroup, PlannedPosition
from mirror_connect.app.planning.planner import Planner
from mirror_connect.app.worker_connectors.target_choice import TargetChooser
from mirror_connect.spark_jobs.tasks.mirror_checkpoint import run_checkpoint_task
from tests.brokers import commit, committed
from tests.fakes.config_topic import no_others
from tests.fakes.connector_context import no_offsets
from tests.integration.mirror_rig import fresh_topic, messages, running
from tests.integration.mirror_tasks.mapped_groups import (
    CHECKPOINTS,
    a_pair,
    eventually,
    mapped_by_ranges,
    mapped_by_syncs,
    member,
    spec,
)
from tests.integration.test_worker_connector import Worker

pytestmark = pytest.mark.brokers


async def test_the_positions_of_a_plan_are_what_the_task_then_commits(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic, other = a_pair(source, target, records=50), a_pair(source, target, records=50)
    behind, ahead, active = (fresh_topic("plan") for _ in range(3))
    mapped_by_syncs(source, topic, (0, 0))
    mapped_by_ranges(target, topic, (0, 50, 0))
    for group in (behind, ahead, active):
        commit(source, group, topic, 23)
    # Nothing tells where its records are on the target.
    commit(source, behind, other, 7)
    commit(target, ahead, f"A.{topic}", 40)
    config = {
        **spec(source, target, "Checkpoint").config,
        **{f"source.cluster.{name}": value for name, value in source.client_properties().items()},
        "groups": "plan-.*",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
    }
    with member(target, active, f"A.{topic}"):
        before = len(list(messages(target, CHECKPOINTS)))
        targets = TargetChooser(cast("WorkerConfig", Worker(target)))
        planner = Planner(targets, no_offsets, "connect-offsets", no_others())
        plan = await planner.plan(config, config)
        assert len(list(messages(target, CHECKPOINTS))) == before
        assert committed(target, behind, f"A.{topic}") == {}

        def at(now: int | None, *, synced: bool) -> list[PlannedPosition]:
            return [PlannedPosition(f"A.{topic}", 0, 23, 23, now, synced)]

        assert {each.group: each for each in plan.groups} == {
            behind: PlannedGroup(behind, False, at(None, synced=True), 1),
            ahead: PlannedGroup(ahead, False, at(40, synced=False), 0),
            active: PlannedGroup(
                active, False, at(None, synced=False), 0, "active on the target, left alone until idle"
            ),
        }
        assert (plan.refused, plan.tasks.then) == ([], 1)
        task = spec(
            source,
            target,
            "Checkpoint",
            *(each.group for each in plan.groups),
            **{name: value for name, value in config.items() if name.startswith("sync.")},
        )
        async with running(task, None, run_checkpoint_task):
            await eventually(lambda: committed(target, behind, f"A.{topic}") == {0: 23})
            await asyncio.sleep(1.5)
        for each in plan.groups:
            moved = {position.partition: position.target_offset for position in each.positions if position.synced}
            stays = {0: 40} if each.group == ahead else {}
            assert committed(target, each.group, f"A.{topic}") == {**stays, **moved}
