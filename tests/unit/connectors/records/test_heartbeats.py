import json
from typing import Any

import pytest

from mirror_connect.connectors.records.binary import UnreadableRecord
from mirror_connect.connectors.records.heartbeats import ALWAYS_ZERO, Heartbeat, heartbeat_offset_key
from tests.paths import FIXTURES


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FIXTURES / name).read_text().splitlines()]


RECORDS = [record for record in lines("worker-mm2-topics.jsonl") if record["topic"] == "heartbeats"]
OFFSETS = [record for record in lines("worker-connect-offsets.jsonl") if "sourceClusterAlias" in str(record["decoded"])]


@pytest.mark.kafka_test("HeartbeatTest.testSerde")
@pytest.mark.parametrize("record", RECORDS, ids=lambda record: str(record["offset"]))
def test_a_heartbeat_is_written_and_read_as_kafka_wrote_it(record: dict[str, Any]) -> None:
    written = bytes.fromhex(record["key_hex"]), bytes.fromhex(record["value_hex"])
    key, value = record["decoded"]["key"], record["decoded"]["value"]
    decoded = Heartbeat.decode(*written)
    told = Heartbeat(key["sourceClusterAlias"], key["targetClusterAlias"], value["timestamp"])
    assert (decoded.key(), decoded.value(), decoded) == (*written, told)


@pytest.mark.kafka_test("MirrorHeartbeatTaskTest.testPollCreatesRecords")
@pytest.mark.parametrize("record", OFFSETS, ids=lambda record: f"{record['partition']}-{record['offset']}")
def test_a_position_is_stored_as_kafka_stores_it(record: dict[str, Any]) -> None:
    connector, source = record["decoded"]["key"]
    key = heartbeat_offset_key(connector, source["sourceClusterAlias"], source["targetClusterAlias"])
    value = None if record["value_hex"] is None else ALWAYS_ZERO.hex()
    assert (key.hex(), value) == (record["key_hex"], record["value_hex"])


@pytest.mark.parametrize("value", [None, b"", bytes(9), b"\0\1" + bytes(8)])
def test_anything_else_is_refused_with_one_line(value: bytes | None) -> None:
    with pytest.raises(UnreadableRecord, match=r"^value of a heartbeat: [^\n]+$"):
        Heartbeat.decode(Heartbeat("A", "B", 1).key(), value)
