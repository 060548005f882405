"""Each class of a config has its connector in the worker."""

from __future__ import annotations

from typing import Any, cast

import pytest

from mirror_connect.app.storage.config_records import commit_entry, connector_entry, task_entry
from mirror_connect.app.storage.config_view import ConfigView
from mirror_connect.app.worker_connectors.factory import WorkerConnectorFactory
from mirror_connect.app.worker_connectors.mirror_checkpoint import MirrorCheckpointConnector
from mirror_connect.app.worker_connectors.mirror_heartbeat import MirrorHeartbeatConnector
from mirror_connect.app.worker_connectors.mirror_source import MirrorSourceConnector
from mirror_connect.app.worker_connectors.other_copies import OtherCopies
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
    made = WorkerConnectorFactory(targets, no_offsets, ConfigView().snapshot, OtherCopies())(
        config, config, FakeContext()
    )
    assert type(made) is kind


CONFIG = {
    "name": "c",
    "connector.class": "MirrorSourceConnector",
    "source.cluster.alias": "A",
    "source.cluster.bootstrap.servers": "a:9092",
}


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
    view, targets, context = ConfigView(), cast("Any", None), FakeContext()
    stored = [task_entry("c", each, {**CONFIG, "task.assigned.partitions": "orders-0"}) for each in range(tasks)]
    for key, value in (connector_entry("c", CONFIG), *stored, commit_entry("c", tasks), connector_entry("c", now)):
        view.apply(key, value)
    WorkerConnectorFactory(targets, no_offsets, view.snapshot, OtherCopies())(now, now, context)
    assert context.former_tasks is former
