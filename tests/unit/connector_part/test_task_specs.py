"""What a task is told to copy: partitions, and what they are called on the target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from mirror_connect.app.connector_part import task_specs
from mirror_connect.app.connector_part.target_choice import Target
from mirror_connect.app.connector_part.task_specs import OffsetStores, OpenStore, TaskSpecs
from mirror_connect.connectors.job_contract import TaskId, TaskPartition
from mirror_connect.connectors.known_classes import IDENTITY_POLICY

CONFIG = {
    "name": "c",
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "source.cluster.alias": "A",
    "source.cluster.bootstrap.servers": "127.0.0.1:1",
    "replication.policy.class": IDENTITY_POLICY,
    "task.assigned.partitions": "connect-configs-0,orders-0",
}


class Targets:
    async def chosen(self, config: Mapping[str, str]) -> Target:
        return Target(True, {"bootstrap.servers": "127.0.0.1:2"}, {}, kept=frozenset({"connect-configs"}))

    async def errors(self, config: Mapping[str, str]) -> list[str]:
        return []


class Worker:
    group_id, offset_topic, offset_flush_interval_ms = "g", "connect-offsets", 1000


class Addresses:
    async def check(self, *_: object) -> None: ...


async def test_a_task_config_that_another_worker_wrote_leads_to_none_of_the_workers_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(task_specs, "FirstAddresses", Addresses)
    spec = await specs_of().build("run", TaskId("c", 0), CONFIG, CONFIG, 1)
    assert spec.assigned == (TaskPartition("orders", 0, "orders"),)


def specs_of() -> TaskSpecs:
    worker, targets, store = Worker(), Targets(), OpenStore(None, 5)  # type: ignore[arg-type]

    async def other(_: Target) -> OpenStore:
        return store

    stores = OffsetStores(lambda: store, other)
    return TaskSpecs(_any(worker), lambda config: config, _any(targets), stores)


def _any(value: Any) -> Any:
    return value
