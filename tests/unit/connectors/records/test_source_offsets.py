import json
from typing import Any

import pytest

from mirror_connect.connectors.records.internal_json import encode
from mirror_connect.connectors.records.partitioner import partition_for
from mirror_connect.connectors.records.source_offsets import (
    SourceOffsetKey,
    parse_offsets_key,
    parse_source_offset_key,
    parse_source_offset_value,
    source_offset_key,
    source_offset_value,
)
from tests.paths import FIXTURES

LINES = (FIXTURES / "worker-connect-offsets.jsonl").read_text().splitlines()
RECORDS = [json.loads(line) for line in LINES]
OF_SOURCE = [record for record in RECORDS if "cluster" in record["decoded"]["key"][1]]


def name(record: dict[str, Any]) -> str:
    return f"{record['partition']}-{record['offset']}"


@pytest.mark.parametrize("record", OF_SOURCE, ids=name)
def test_a_key_is_written_and_read_as_kafka_wrote_it(record: dict[str, Any]) -> None:
    connector, source = record["decoded"]["key"]
    written = source_offset_key(connector, source["cluster"], source["topic"], source["partition"])
    key = SourceOffsetKey(connector, source["cluster"], source["topic"], source["partition"])
    assert (written.hex(), parse_source_offset_key(written)) == (record["key_hex"], key)


@pytest.mark.parametrize("record", OF_SOURCE, ids=name)
def test_a_value_is_written_and_read_as_kafka_wrote_it(record: dict[str, Any]) -> None:
    value = bytes.fromhex(record["value_hex"]) if record["value_hex"] is not None else None
    offset = parse_source_offset_value(value)
    assert (None if offset is None else source_offset_value(offset)) == value


@pytest.mark.parametrize("record", RECORDS, ids=name)
def test_a_key_lies_in_the_partition_where_kafka_put_it(record: dict[str, Any]) -> None:
    assert partition_for(bytes.fromhex(record["key_hex"]), 25) == record["partition"]


@pytest.mark.parametrize("record", RECORDS, ids=name)
def test_keys_of_all_connectors_are_read_and_written_back(record: dict[str, Any]) -> None:
    parsed = parse_offsets_key(bytes.fromhex(record["key_hex"]))
    assert parsed is not None
    assert encode(list(parsed)).hex() == record["key_hex"]


def test_members_of_a_key_are_read_in_any_order() -> None:
    key = b'["c",{"topic":"t","partition":1,"cluster":"A"}]'
    assert parse_source_offset_key(key) == SourceOffsetKey("c", "A", "t", 1)


@pytest.mark.parametrize(
    "key",
    [
        None,
        b"",
        b"x",
        b"[]",
        b'["c"]',
        b'["c",{}]',
        b'[1,{"cluster":"A","topic":"t","partition":1}]',
        b'["c",{"cluster":"A","topic":"t","partition":true}]',
        b'["c",{"cluster":"A","topic":"t","partition":-1}]',
    ],
)
def test_other_keys_are_no_positions(key: bytes | None) -> None:
    assert parse_source_offset_key(key) is None


@pytest.mark.parametrize("value", [None, b"", b"{}", b"null", b'{"offset":"1"}', b'{"offset":null}', b"[1]"])
def test_other_values_hold_no_position(value: bytes | None) -> None:
    assert parse_source_offset_value(value) is None


def test_names_beyond_ascii_are_written_raw() -> None:
    assert source_offset_key("é", 'a"b', "t", 0) == '["é",{"cluster":"a\\"b","partition":0,"topic":"t"}]'.encode()
