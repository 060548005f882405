"""Reads internal topics of one partition from their beginning, and then tails them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problem, Problems
from mirror_connect.connectors.records.source_offsets import NO_EPOCH
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch
from mirror_connect.kafka_io.consumer.fetcher import Fetcher
from mirror_connect.kafka_io.consumer.record_reading import ReadRecord, read_records
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode
from mirror_connect.kafka_io.records.record_batch import CorruptBatchError

Deliver = Callable[[ReadRecord], None]


class LogPlace(NamedTuple):
    """Up to where a topic was read: the next offset, the topic's id, and the leader epoch of the last record."""

    offset: int
    topic_id: bytes
    leader_epoch: int


_BUFFER: Final = 8 << 20
_POLL_S: Final = 0.02
# Java, too, reads these topics from their beginning, whatever a connector's consumer properties are.
_FIXED: Final = {"auto.offset.reset": "earliest", "fetch.min.bytes": "1"}


class TopicReader:
    """Reads partition 0 of topics of one cluster. `properties`: of a Java consumer; `side`: source or target.

    `committed`: without records of open and aborted transactions. Java reads these topics uncommitted.

    Records come only while `run` is running. `deliver` is called in the event loop, in the log's order, and must not
    block.
    """

    def __init__(
        self,
        cluster: Cluster,
        properties: Mapping[str, str],
        side: str,
        log: Callable[[str], None],
        *,
        committed: bool = False,
    ) -> None:
        self._cluster = cluster
        self._name = f"{side} cluster"
        self._log = log
        self._delivers: dict[str, Deliver] = {}
        # Of topics that were read. None: what was delivered is not all that lies before a place.
        self._places: dict[str, LogPlace | None] = {}
        self._fetcher = Fetcher(
            cluster,
            {**properties, **_FIXED, "isolation.level": "read_committed" if committed else "read_uncommitted"},
            on_records=self._take,
            problems=Problems(lambda line: log(f"Reading topics: {line}")),
            buffer_limit_bytes=_BUFFER,
            side=side,
        )

    async def run(self) -> None:
        """Reads until cancelled. Raises NotAuthorized when the cluster refuses the credentials."""
        await self._fetcher.run()

    @property
    def problems(self) -> list[Problem]:
        """The problems of topics that can't be read at present."""
        states = [self._fetcher.state(partition) for partition in self._fetcher.with_problems()]
        return [state.problem for state in states if state.problem is not None]

    async def tail(self, topic: str, deliver: Deliver, begin: LogPlace | None = None) -> bool:
        """Starts reading a topic, unless it is read already; False if it does not exist. Raises ClusterUnreachable.

        `begin`: what an earlier reader's `place` gave, None for the beginning. If `place` is None afterwards, the log is not
        the same any more.
        """
        if topic in self._delivers:
            return True
        await self._cluster.refresh([topic])
        if self._cluster.topic_error(topic) in (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        ):
            return False
        self._delivers[topic] = deliver
        if begin is None:
            self._fetcher.add(TopicPartition(topic, 0), 0)
        else:
            self._places[topic] = begin
            self._fetcher.add(TopicPartition(topic, 0), *begin)
        return True

    def place(self, topic: str) -> LogPlace | None:
        """Up to where the topic was delivered, for another reader. None if nothing was, or something was not."""
        place, state = self._places.get(topic), self._fetcher.state(TopicPartition(topic, 0))
        if (
            place is None
            or state.topic_id != place.topic_id
            or not state.log_start <= place.offset <= (state.position or 0)
        ):
            return None
        return place

    async def at_end(self, topic: str) -> bool:
        """Waits until the topic is read to its end; False if the right to read it is missing."""
        while True:
            state = self._fetcher.state(TopicPartition(topic, 0))
            if state.position is not None and 0 <= state.high_watermark <= state.position:
                return True
            if state.denied:
                return False
            await asyncio.sleep(_POLL_S)

    def _take(self, fetched: CompletedFetch) -> None:
        topic = fetched.partition.topic
        deliver = self._delivers[topic]
        continues = topic not in self._places or _continues(fetched, self._places[topic])
        self._places[topic] = None
        try:
            for record in read_records(fetched):
                deliver(record)
            if continues and fetched.topic_id is not None:
                epoch = fetched.epochs[-1][1] if fetched.epochs else NO_EPOCH
                self._places[topic] = LogPlace(fetched.next_offset, fetched.topic_id, epoch)
        except CorruptBatchError as error:
            self._log(f"Topic {topic} of the {self._name} is corrupt at {error}; this fetch is skipped")
        finally:
            fetched.release()


def _continues(fetched: CompletedFetch, place: LogPlace | None) -> bool:
    """Not behind a batch that was skipped, after a truncation, in another topic, or where a part was deleted."""
    return place is not None and (fetched.fetch_offset, fetched.topic_id) == place[:2]
