"""Each class of a config has its connector in the worker."""

from __future__ import annotations

from typing import Any

import pytest

from mirror_connect.app.storage.config_records import Entry, connector_entry
from mirror_connect.app.worker_connectors.factory import WorkerConnectorFactory
from mirror_connect.app.worker_connectors.mirror_checkpoint import MirrorCheckpointConnector
from mirror_connect.app.worker_connectors.mirror_heartbeat import MirrorHeartbeatConnector
from mirror_connect.app.worker_connectors.mirror_source import MirrorSourceConnector
from mirror_connect.app.worker_connectors.other_copies import OtherCopies
from tests.fakes.config_topic import viewed, with_tasks
from tests.fakes.connector_context import FakeContext, no_offsets


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("MirrorSourceConnector", MirrorSourceConnector),
        ("org.apache.kafka.connect.mirror.MirrorCheckpointConnector", MirrorCheckpointConnector),
        ("MirrorHeartbeat", MirrorHeartbeatConnector),
    ],
)
async def test_a_class_by_any_of_its_names_has_its_connector(name: str, kind: type[object]) -> None:
    targets: Any = None
    config = {"name": "c", "connector.class": name, "source.cluster.alias": "A"}
    config["source.cluster.bootstrap.servers"] = "a:9092"
    made = WorkerConnectorFactory(targets, no_offsets, viewed().snapshot, OtherCopies())(config, config, FakeContext())
    assert type(made) is kind


CONFIG = {
    "name": "c",
    "connector.class": "MirrorSourceConnector",
    "source.cluster.alias": "A",
    "source.cluster.bootstrap.servers": "a:9092",
}


def former_tasks(now: dict[str, str], *entries: Entry) -> bool:
    targets: Any = None
    context = FakeContext()
    WorkerConnectorFactory(targets, no_offsets, viewed(*entries).snapshot, OtherCopies())(now, now, context)
    return context.former_tasks


@pytest.mark.parametrize(
    ("tasks", "now", "former"),
    [
        pytest.param(1, CONFIG, False, id="started_again"),
        pytest.param(1, {**CONFIG, "topics": "orders"}, True, id="another_config"),
        pytest.param(0, {**CONFIG, "topics": "orders"}, False, id="without_tasks"),
    ],
)
async def test_a_connector_knows_whether_its_tasks_are_those_of_an_earlier_config(
    tasks: int, now: dict[str, str], former: bool
) -> None:
    stored = [{**CONFIG, "task.assigned.partitions": "orders-0"}] * tasks
    assert former_tasks(now, *with_tasks("c", CONFIG, *stored), connector_entry("c", now)) is former


async def test_it_does_not_say_so_where_compaction_has_removed_the_config_of_the_tasks() -> None:
    tasks = with_tasks("c", CONFIG, {**CONFIG, "task.assigned.partitions": "orders-0"})[1:]
    assert former_tasks(CONFIG, *tasks, connector_entry("c", CONFIG)) is False
