"""The offset topic against what MirrorMaker 2 on Kafka Connect 4.3.1 left (tests/fixtures/worker-connect-offsets)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mirror_connect.app.storage.offsets import OffsetEntry, OffsetStore, offset_key, offset_value
from mirror_connect.connectors.acls import Resource
from mirror_connect.connectors.records.copied_acls import acl_partition
from mirror_connect.connectors.records.source_offsets import source_offset_headers
from tests.fakes.topic_log import FakeTopic, FakeTopicLog
from tests.paths import FIXTURES

FIXTURE = FIXTURES / "worker-connect-offsets.jsonl"
LINES: list[dict[str, Any]] = [json.loads(line) for line in FIXTURE.read_text().splitlines()]


def orders(partition: int) -> dict[str, Any]:
    return {"cluster": "A", "partition": partition, "topic": "orders"}


async def store_after(lines: list[dict[str, Any]]) -> OffsetStore:
    topic = FakeTopic()
    for line in lines:
        topic.add(bytes.fromhex(line["key_hex"]), bytes.fromhex(line["value_hex"]) if line["value_hex"] else None)
    store = OffsetStore(FakeTopicLog(topic))
    await store.start()
    return store


@pytest.mark.parametrize("line", [pytest.param(x, id=f"{x['partition']}-{x['offset']}") for x in LINES])
def test_keys_and_values_are_written_as_kafka_wrote_them(line: dict[str, Any]) -> None:
    connector, partition = json.loads(bytes.fromhex(line["key_hex"]))
    assert offset_key(connector, partition).hex() == line["key_hex"]
    if line["value_hex"] is not None:
        value = bytes.fromhex(line["value_hex"])
        assert offset_value(json.loads(value)) == value


async def test_positions_that_mirrormaker_left_are_found_in_the_order_asked_for() -> None:
    first_tombstone = next(n for n, line in enumerate(LINES) if line["value_hex"] is None and line["partition"] == 12)
    until_then = [line for line in LINES[:first_tombstone] if line["value_hex"] is not None]
    store = await store_after(until_then)
    assert await store.source_offsets("mm2-source", [orders(2), orders(7)]) == [{"offset": 3}, None]


async def test_reset_positions_are_gone_and_those_written_after_it_count() -> None:
    store = await store_after(LINES)
    assert await store.source_offsets("mm2-source", [orders(0), orders(1), orders(2)]) == [{"offset": 4}, None, None]


async def test_key_spelled_in_another_order_is_another_key() -> None:
    store = await store_after(LINES)
    assert await store.source_offsets("mm2-source", [{"topic": "orders", "partition": 0, "cluster": "A"}]) == [None]


async def test_listing_parses_keys_and_shows_one_connector_only() -> None:
    store = await store_after(LINES)
    assert OffsetEntry({"cluster": "S", "partition": 0, "topic": "exp-gap"}, {"offset": 9}) in await store.entries(
        "mm2-alt"
    )
    assert len(await store.entries("mm2-alt")) == 1


async def test_alterations_are_read_back_and_none_forgets() -> None:
    store = await store_after([])
    await store.put("a", [(orders(0), {"offset": 5}), (orders(1), {"offset": 6})])
    await store.put("a", [(orders(0), None)])
    assert await store.source_offsets("a", [orders(0), orders(1)]) == [None, {"offset": 6}]


async def test_the_topic_of_a_position_is_known_until_one_is_written_without_it() -> None:
    topic = FakeTopic()
    store = OffsetStore(FakeTopicLog(topic))
    await store.start()
    topic.add(offset_key("a", orders(0)), b'{"offset":41}', source_offset_headers(b"i" * 16, 7))
    topic.add(offset_key("a", orders(1)), b'{"offset":42}')
    found = [await store.source_offsets("a", [orders(0), orders(1)]), store.origins("a", [orders(0), orders(1)])]
    await store.put("a", [(orders(0), {"offset": 5})])
    found.append(store.origins("a", [orders(0)]))
    assert found == [[{"offset": 41}, {"offset": 42}], [(b"i" * 16, 7), (None, -1)], [(None, -1)]]


async def test_position_written_by_another_client_before_the_call_is_seen() -> None:
    topic = FakeTopic()
    store = OffsetStore(FakeTopicLog(topic))
    await store.start()
    topic.add(offset_key("a", orders(0)), b'{"offset":41}')
    assert await store.source_offsets("a", [orders(0)]) == [{"offset": 41}]


async def test_what_was_copied_of_acls_is_no_position_and_is_forgotten_with_them() -> None:
    store = await store_after(LINES)
    noted = OffsetEntry(acl_partition(Resource("LITERAL", "A.orders")), {"bindings": "[]"})
    before = await store.entries("mm2-source")
    await store.put("mm2-source", [(noted.partition, noted.offset)])
    kept = (await store.entries("mm2-source"), await store.notes("mm2-source"), await store.notes("other"))
    await store.forget("mm2-source")
    assert kept == (before, [noted], [])
    assert await store.notes("mm2-source") == []
