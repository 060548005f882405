"""Reads internal topics of one partition from their beginning to their end, and follows them from there on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.consumer.fetched import Fetched, SourcePartition
from mirror_connect.kafka_io.consumer.fetcher import Fetcher
from mirror_connect.kafka_io.consumer.record_reading import ReadRecord, read_records
from mirror_connect.kafka_io.protocol import wire_codec as codes
from mirror_connect.kafka_io.records.record_batch import CorruptBatchError

Deliver = Callable[[ReadRecord], None]

_BUFFER: Final = 8 << 20
_LOOK_S: Final = 0.02
# Java reads these topics uncommitted too, and from their beginning whatever a connector's consumer is told.
_FIXED: Final = {"auto.offset.reset": "earliest", "isolation.level": "read_uncommitted", "fetch.min.bytes": "1"}


class TopicReader:
    """Topics of one cluster, partition 0 of each. `properties`: those of a Java consumer; `side`: source or target.

    `run` has to be under way for anything to come. `deliver` is called in the event loop, in the log's order, and must
    not block.
    """

    def __init__(
        self, cluster: Cluster, properties: Mapping[str, str], side: str, notice: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._name = f"{side} cluster"
        self._notice = notice
        self._delivers: dict[str, Deliver] = {}
        self._fetcher = Fetcher(
            cluster,
            {**properties, **_FIXED},
            on_records=self._take,
            on_notice=lambda line: notice(f"Reading topics: {line}"),
            buffer_limit_bytes=_BUFFER,
            side=side,
        )

    async def run(self) -> None:
        """Reads until cancelled. Raises NotAuthorized when the cluster refuses the credentials."""
        await self._fetcher.run()

    @property
    def troubles(self) -> list[str]:
        """A line for the status of each topic that can't be read at present."""
        return [self._fetcher.state(partition).error for partition in self._fetcher.in_trouble()]

    async def follow(self, topic: str, deliver: Deliver) -> bool:
        """Begins to read a topic, unless it is read already; False if it doesn't exist. ClusterUnreachable."""
        if topic in self._delivers:
            return True
        await self._cluster.refresh([topic])
        if self._cluster.topic_error(topic) in (codes.UNKNOWN_TOPIC_OR_PARTITION, codes.INVALID_TOPIC):
            return False
        self._delivers[topic] = deliver
        self._fetcher.add(SourcePartition(topic, 0), 0)
        return True

    async def at_end(self, topic: str) -> bool:
        """Waits until all has been delivered that was there after this reader began; False if it may not be read."""
        while True:
            state = self._fetcher.state(SourcePartition(topic, 0))
            if state.position is not None and 0 <= state.high_watermark <= state.position:
                return True
            if state.denied:
                return False
            await asyncio.sleep(_LOOK_S)

    def _take(self, fetched: Fetched) -> None:
        deliver = self._delivers[fetched.partition.topic]
        try:
            for record in read_records(fetched):
                deliver(record)
        except CorruptBatchError as error:
            self._notice(
                f"Topic {fetched.partition.topic} of the {self._name} is corrupt at {error}; it is passed over"
            )
        finally:
            fetched.release()
