"""A group without committed offsets begins where auto.offset.reset leads."""

from __future__ import annotations

import time
from typing import Any

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.client.cluster import Leader
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.consumer.fetch_settings import FetchSettings
from mirror_connect.kafka_io.consumer.start_offsets import start_offsets
from mirror_connect.kafka_io.protocol.log_offsets import EARLIEST, LATEST, ListedOffset, ListOffsets

FIRST, SECOND, LOST = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
LEADERS = {FIRST: 1, SECOND: 2}


class Brokers:
    """The leaders of two partitions; a third one has none. `away`: nodes that don't answer. `silent_at`: a timestamp."""

    def __init__(self) -> None:
        self.away: set[int] = set()
        self.refused: set[TopicPartition] = set()
        self.silent_at: int | None = None
        self.asked: list[int] = []

    async def refresh(self, topics: Any) -> None: ...

    def leader(self, topic: str, partition: int) -> Leader | None:
        node = LEADERS.get(TopicPartition(topic, partition))
        return None if node is None else Leader(node, 4)

    async def send(self, node_id: int, request: ListOffsets) -> list[ListedOffset]:
        if node_id in self.away:
            raise ConnectionLost("away")
        found = []
        for (topic, partition), (timestamp, _) in request.wanted.items():
            self.asked.append(timestamp)
            if timestamp == self.silent_at:
                raise ConnectionLost("away")
            error = 6 if TopicPartition(topic, partition) in self.refused else 0
            # The records of the second partition are older than any timestamp that is asked for.
            at_time = -1 if partition else 50
            offset = {EARLIEST: 10, LATEST: 90}.get(timestamp, at_time)
            found.append(ListedOffset(topic, partition, error, -1, offset, 4))
        return found


async def starts(brokers: Brokers, reset: str) -> dict[TopicPartition, int]:
    settings = FetchSettings.of({"auto.offset.reset": reset})
    return await start_offsets(brokers, [FIRST, SECOND, LOST], settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(("reset", "offset"), [("earliest", 10), ("latest", 90)])
async def test_it_begins_at_an_end_of_the_log(reset: str, offset: int) -> None:
    assert await starts(Brokers(), reset) == {FIRST: offset, SECOND: offset}


async def test_it_begins_so_long_ago_or_at_the_end_if_no_record_is_so_young() -> None:
    brokers = Brokers()
    assert await starts(brokers, "by_duration:PT1H") == {FIRST: 50, SECOND: 90}
    assert abs(brokers.asked[0] / 1000 - (time.time() - 3600)) < 60


async def test_who_does_not_answer_the_second_question_is_asked_again_later() -> None:
    brokers = Brokers()
    brokers.silent_at = LATEST
    assert await starts(brokers, "by_duration:PT1H") == {FIRST: 50}


async def test_none_begins_nowhere() -> None:
    brokers = Brokers()
    assert (await starts(brokers, "none"), brokers.asked) == ({}, [])


async def test_who_does_not_answer_is_asked_again_later() -> None:
    brokers = Brokers()
    brokers.away = {1}
    assert await starts(brokers, "latest") == {SECOND: 90}
    brokers.away, brokers.refused = set(), {SECOND}
    assert await starts(brokers, "latest") == {FIRST: 90}
