"""The heartbeat connector's settings against Kafka's own, and its task."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mirror_connect.connectors.mirror.mirror_heartbeat import MirrorHeartbeat, task_configs
from tests.fakes.definitions import infos_of
from tests.paths import FIXTURES

HEARTBEAT = MirrorHeartbeat()
VALID = {"name": "v", "connector.class": "MirrorHeartbeat", "source.cluster.alias": "A"}

RECORDED: dict[str, Any] = json.loads((FIXTURES / "validate-MirrorHeartbeatConnector.json").read_text())


def test_definitions_are_those_of_kafka_in_their_order() -> None:
    expected = RECORDED["definitions"]
    assert [{name: key[name] for name in expected[0]} for key in HEARTBEAT.describe()] == expected


@pytest.mark.parametrize("validation", RECORDED["validations"], ids=lambda validation: validation["about"][:8])
def test_a_validation_answers_as_kafka_does(validation: dict[str, Any]) -> None:
    answer = infos_of(HEARTBEAT, validation["request"])
    fields = ("name", "value", "errors", "visible")
    answer["configs"] = [{name: entry["value"][name] for name in fields} for entry in answer["configs"]]
    assert answer == validation["response"]


def test_a_transformation_is_refused() -> None:
    assert HEARTBEAT.validate({**VALID, "transforms": "a"})["transforms"].errors


@pytest.mark.kafka_test("MirrorHeartBeatConnectorTest.testMirrorHeartbeatConnectorDisabled")
@pytest.mark.kafka_test("MirrorHeartBeatConnectorTest.testReplicationDisabled")
@pytest.mark.parametrize(
    ("config", "tasks"), [({}, 1), ({"enabled": "false"}, 1), ({"emit.heartbeats.enabled": "false"}, 0)], ids=str
)
def test_heartbeats_have_one_task_whatever_enabled_says(config: dict[str, str], tasks: int) -> None:
    settings = HEARTBEAT.settings({**VALID, **config})
    assert len(task_configs(settings.originals, settings)) == tasks


def test_a_heartbeat_task_has_the_config_that_kafka_gives_it() -> None:
    stored = [json.loads(line) for line in (FIXTURES / "worker-connect-configs.jsonl").read_text().splitlines()]
    of_task = next(r for r in stored if bytes.fromhex(r["key_hex"]) == b"task-mm2-heartbeat-0")
    properties = json.loads(bytes.fromhex(of_task["value_hex"]))["properties"]
    connector = {name: value for name, value in properties.items() if name != "task.class"}
    assert task_configs(connector, HEARTBEAT.settings(connector)) == [properties]
