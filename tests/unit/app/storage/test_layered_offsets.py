"""A connector with an offset topic of its own: which of two source offsets counts, and where changes are written."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import pytest

from mirror_connect.app.storage.layered_offsets import LayeredOffsets
from mirror_connect.app.storage.offsets import OffsetEntry, OffsetStore, offset_key, offset_value
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.records.source_offsets import source_offset_headers
from mirror_connect.connectors.records.topic_ids import parse_topic_id, topic_id_text
from tests.fakes.topic_log import Entry, FakeTopic, FakeTopicLog

ONE = {"cluster": "A", "partition": 0, "topic": "orders"}
TWO = {"cluster": "A", "partition": 1, "topic": "orders"}
THREE = {"cluster": "A", "partition": 2, "topic": "orders"}
TOPIC_ID = topic_id_text(b"0123456789abcdef")


@dataclass
class Two:
    """The connector's topic and the common one, with what was written to each in order."""

    own: FakeTopic = field(default_factory=FakeTopic)
    common: FakeTopic = field(default_factory=FakeTopic)
    written: list[tuple[str, Entry]] = field(default_factory=list)
    transactions: list[str] = field(default_factory=list)

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[LayeredOffsets]:
        async def in_transaction(transactional_id: str, entries: Sequence[Entry]) -> None:
            self.transactions.append(transactional_id)
            for key, value in entries:
                self.own.add(key, value)

        own, common = (
            OffsetStore(FakeTopicLog(self.own), in_transaction=in_transaction),
            OffsetStore(FakeTopicLog(self.common)),
        )
        await own.start()
        await common.start()
        try:
            yield LayeredOffsets(own, common)
        finally:
            await own.stop()
            await common.stop()


def stored(topic: FakeTopic, partition: dict[str, object], offset: int) -> None:
    topic.add(offset_key("c", partition), offset_value({"offset": offset}))


async def test_the_connectors_own_topic_counts_and_the_common_one_fills_the_gaps() -> None:
    two = Two()
    stored(two.own, ONE, 10)
    stored(two.common, ONE, 5)
    stored(two.common, TWO, 6)
    async with two.opened() as offsets:
        found = await offsets.source_offsets("c", [ONE, TWO, THREE])
        assert found == [{"offset": 10}, {"offset": 6}, None]
        assert sorted(each.offset["offset"] for each in await offsets.entries("c")) == [6, 10]


async def test_an_origin_belongs_to_the_offset_that_counts() -> None:
    two = Two()
    headers = source_offset_headers(parse_topic_id(TOPIC_ID), 7)
    two.common.add(offset_key("c", ONE), offset_value({"offset": 5}), headers)
    stored(two.own, ONE, 10)
    two.common.add(offset_key("c", TWO), offset_value({"offset": 6}), headers)
    async with two.opened() as offsets:
        await offsets.source_offsets("c", [ONE, TWO])
        assert [origin.leader_epoch for origin in offsets.origins("c", [ONE, TWO])] == [-1, 7]


async def test_an_offset_that_is_removed_does_not_come_back_from_the_common_topic() -> None:
    two = Two()
    stored(two.own, ONE, 10)
    stored(two.common, ONE, 5)
    async with two.opened() as offsets:
        await offsets.put("c", [(ONE, None), (TWO, {"offset": 8})])
        assert await offsets.source_offsets("c", [ONE, TWO]) == [None, {"offset": 8}]
    # Both topics have both changes: without the setting the connector continues at the same place.
    assert two.common.entries()[-2:] == [
        (offset_key("c", ONE), None),
        (offset_key("c", TWO), offset_value({"offset": 8})),
    ]


async def test_nothing_is_removed_where_the_common_topic_cannot_be_written() -> None:
    two = Two()
    stored(two.own, ONE, 10)
    async with two.opened() as offsets:
        two.common.failure = ClusterUnreachable("away")
        with pytest.raises(ClusterUnreachable):
            await offsets.put("c", [(ONE, None)])
        assert len(two.own.entries()) == 1


async def test_an_offset_that_is_set_counts_although_the_common_topic_cannot_be_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    two = Two()
    async with two.opened() as offsets:
        two.common.failure = ClusterUnreachable("away")
        with caplog.at_level(logging.WARNING):
            await offsets.put("c", [(ONE, {"offset": 3})])
        two.common.failure = None
        assert await offsets.source_offsets("c", [ONE]) == [{"offset": 3}]
    assert "and not in the common one: away" in caplog.text


async def test_a_reset_empties_both_topics_and_writes_the_connectors_in_a_transaction() -> None:
    two = Two()
    stored(two.own, ONE, 10)
    stored(two.common, TWO, 5)
    async with two.opened() as offsets:
        await offsets.forget("c", "group-c-0")
        assert await offsets.entries("c") == list[OffsetEntry]()
    assert two.transactions == ["group-c-0"]
