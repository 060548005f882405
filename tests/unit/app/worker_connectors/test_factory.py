"""Each class of a config has its connector in the worker."""

from __future__ import annotations

from typing import Any

import pytest

from mirror_connect.app.worker_connectors.factory import WorkerConnectorFactory
from mirror_connect.app.worker_connectors.mirror_checkpoint import MirrorCheckpointConnector
from mirror_connect.app.worker_connectors.mirror_heartbeat import MirrorHeartbeatConnector
from mirror_connect.app.worker_connectors.mirror_source import MirrorSourceConnector
from tests.fakes.config_topic import no_others, viewed
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
    made = WorkerConnectorFactory(targets, no_offsets, viewed().snapshot, no_others())(config, config, FakeContext())
    assert type(made) is kind
