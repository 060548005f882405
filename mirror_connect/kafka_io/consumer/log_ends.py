"""Where the logs of the source's partitions end, as far as the source has told, and when it told that last.

Answers to fetches tell it. In a fetch session a broker names a partition only when something has changed. So each answer
says of all others that their ends are still the same. A broker that throttles us answers without saying anything.

A partition that is not fetched at present has no such answers: it is stalled, or the target is slower and the buffer is
full. Its leader is asked for the end of its log. So the lag of a partition is known as long as its leader answers.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from mirror_connect.connectors.errors import NotAuthorized
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.connection import ConnectionLost, UnsupportedByBroker
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode
from mirror_connect.kafka_io.protocol.log_offsets import LATEST, ListOffsets

if TYPE_CHECKING:
    from mirror_connect.kafka_io.consumer.fetch_queues import FetchQueue

UNKNOWN: Final = -1
# An end that was not told for so long, besides the time that a fetch may wait at the broker, is asked for.
ASK_AFTER_S: Final = 0.2
LOOK_EVERY_S: Final = 0.2
# With more partitions than this, all of that costs more than it is worth: these are the least times then.
MANY: Final = 1_000
ASK_MANY_AFTER_S: Final = 3.0
LOOK_AT_MANY_EVERY_S: Final = 1.0
# An end that was not told for so long is unknown.
UNKNOWN_AFTER_S: Final = 10.0
# Looking at so many takes a millisecond at most.
AT_ONCE: Final = 500
# In one request: the answer is read within about half a millisecond.
MOST_ASKED: Final = 250
_NEVER: Final = -math.inf


class LogEnd:
    """The end of one partition's log. Times are those of time.monotonic().

    `end`: the offset after the last record that may be read: the high watermark, under read_committed the last stable
    offset; UNKNOWN before it was told. `told_at`: when it was told for this partition. `queue`: the fetch queue whose
    answers say that nothing has changed, None if there is none. `reached_at`: when all records up to the end were last known
    to be fetched. `is_known`: whether it was told within UNKNOWN_AFTER_S.
    """

    __slots__ = ("asked_at", "changed", "end", "is_known", "key", "queue", "reached_at", "told_at")

    def __init__(self, key: TopicPartition, changed: dict[TopicPartition, None] | None = None) -> None:
        self.key = key
        self.end = UNKNOWN
        self.told_at = self.reached_at = _NEVER
        self.asked_at = time.monotonic()
        self.queue: FetchQueue | None = None
        self.is_known = False
        self.changed: dict[TopicPartition, None] = {} if changed is None else changed

    @property
    def known_at(self) -> float:
        """The last time at which this was the end."""
        return self.told_at if self.queue is None else max(self.told_at, self.queue.answered_at)

    def told(self, end: int, position: int | None, now: float) -> None:
        """The broker told the end. `position`: the next offset to fetch, before that answer brought any."""
        if end != self.end or not self.is_known:
            if self.end == position:
                self.reached_at = self.known_at
            self.end, self.is_known = end, True
            self.changed[self.key] = None
        self.told_at = now

    def leave(self) -> None:
        """Answers of the queue say nothing more about it. It was the end up to the last of them."""
        self.told_at, self.queue = self.known_at, None

    def forget(self) -> None:
        """The log is another one now: nothing is known of its end."""
        self.end, self.is_known, self.queue = UNKNOWN, False, None
        self.told_at = self.reached_at = _NEVER
        self.changed[self.key] = None


class LogEnds:
    """The ends of the partitions of one task. `changed`: partitions whose end has changed, or became known or unknown.

    `position(partition)`: the next offset to fetch; None if it isn't known or the partition isn't fetched. `wait_s`: how
    long a broker keeps a fetch while there is nothing new.
    """

    def __init__(
        self,
        cluster: Cluster,
        position: Callable[[TopicPartition], int | None],
        *,
        read_committed: bool,
        wait_s: float,
    ) -> None:
        self._cluster = cluster
        self._position = position
        self._read_committed = read_committed
        self._wait_s = wait_s
        self._ends: dict[TopicPartition, LogEnd] = {}
        self._asking: dict[int, asyncio.Task[None]] = {}
        self.changed: dict[TopicPartition, None] = {}

    def of(self, partition: TopicPartition) -> LogEnd:
        """The end of this partition's log. It is kept until `forget`, also while the partition isn't fetched."""
        found = self._ends.get(partition)
        if found is None:
            found = self._ends[partition] = LogEnd(partition, self.changed)
        return found

    def forget(self, partition: TopicPartition) -> None:
        """Another task has the partition now."""
        self._ends.pop(partition, None)
        self.changed.pop(partition, None)

    async def run(self) -> None:
        """Asks for what is not told otherwise, until cancelled. No error makes it raise."""
        try:
            while True:
                await asyncio.sleep(LOOK_EVERY_S if len(self._ends) <= MANY else LOOK_AT_MANY_EVERY_S)
                for _ in self._look(time.monotonic()):
                    await asyncio.sleep(0)
        finally:
            for asking in self._asking.values():
                asking.cancel()
            await asyncio.gather(*self._asking.values(), return_exceptions=True)

    def _look(self, now: float) -> Iterator[None]:
        """Looks at all ends; other work may have its turn at each step."""
        before = now - self._wait_s - (ASK_AFTER_S if len(self._ends) <= MANY else ASK_MANY_AFTER_S)
        wanted: dict[int, list[LogEnd]] = {}
        ends = list(self._ends.values())
        for begin in range(0, len(ends), AT_ONCE):
            # There may be thousands of others, which must cost very little.
            stale = [
                each
                for each in ends[begin : begin + AT_ONCE]
                if not each.is_known
                or (each.told_at < before and (each.queue is None or each.queue.answered_at < before))
            ]
            for each in stale:
                known_at = each.known_at
                # Known again: a broker that was silent may answer that nothing has changed.
                if each.is_known != (each.end != UNKNOWN and known_at >= now - UNKNOWN_AFTER_S):
                    each.is_known = not each.is_known
                    self.changed[each.key] = None
                leader = self._cluster.leader(*each.key) if max(each.asked_at, known_at) < before else None
                if leader is not None:
                    wanted.setdefault(leader.node_id, []).append(each)
            yield
        for node, asked in wanted.items():
            asking = self._asking.get(node)
            if asking is None or asking.done():
                self._asking[node] = asyncio.create_task(self._ask(node, asked))

    async def _ask(self, node: int, ends: list[LogEnd]) -> None:
        for begin in range(0, len(ends), MOST_ASKED):
            now = time.monotonic()
            asked = {}
            for each in ends[begin : begin + MOST_ASKED]:
                leader = self._cluster.leader(*each.key)
                if leader is not None and leader.node_id == node:
                    each.asked_at = now
                    asked[each.key] = (LATEST, leader.epoch)
            try:
                found = await self._cluster.send(node, ListOffsets(asked, read_committed=self._read_committed))
            except (ConnectionLost, NotAuthorized, UnsupportedByBroker):
                return  # the fetcher reports it, and tries again
            for answer in found:
                end = self._ends.get(TopicPartition(answer.topic, answer.partition))
                # A fetch may have told a newer one meanwhile.
                if end is not None and answer.error == ErrorCode.NONE and answer.offset >= 0 and end.known_at < now:
                    end.told(answer.offset, self._position(end.key), time.monotonic())
