"""A compacted topic read to its end and then followed: the worker's only memory.

Committed records alone are believed: a Java worker with exactly-once writes connect-configs and connect-offsets in
transactions, and what it aborted is still in the topic. The end is the high watermark, as for Kafka's own KafkaBasedLog:
the last stable offset may lie below a record that was committed, while another producer's transaction is open.

`TopicLog` is what the stores need (tests have one in memory); `KafkaTopicLog` is the real one. Records reach the store
on the event loop, in the order of their partition, each exactly once while the log is open.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.kafka_io.admin.topic_plan import TopicPlan, ensure_topic
from mirror_connect.kafka_io.consumer.topic_log_io import Follower, LogClients, LogRecord
from mirror_connect.kafka_io.producer.leader_writer import LeaderWriter

log = logging.getLogger(__name__)

OnRecord = Callable[[LogRecord], None]
Entry = tuple[bytes, bytes | None]

# As long as Kafka's own worker waits for its config topic before it gives a REST call up.
READ_TIMEOUT: Final = 30.0
_RETRY_PAUSE: Final = 0.25
_LOOK_S: Final = 2.0
_IDLE_MS: Final = 500
# What a leader writes ends with a marker, and who asked for it waits until the log has been read to behind that.
_BEHIND_A_MARKER_MS: Final = 100
# A missing right to read doesn't heal while it is waited for.
_DENIED_LOOK_S: Final = 0.5


class TopicLog(Protocol):
    """What a store needs of its topic."""

    async def start(self, on_record: OnRecord) -> None:
        """Create or check the topic, hand over what is committed in it, then go on following it.

        It does not wait for a transaction that is open; `read_to_end` does.
        Raises ConfigError (wrong settings or topic), ClusterUnreachable, NotAuthorized; it can be called again then.
        """

    async def read_to_end(self, timeout: float = READ_TIMEOUT) -> None:
        """Return when all that was in the topic at the time of the call has been handed over, or was aborted.

        Raises ClusterUnreachable after `timeout` seconds; it names the partitions whose transactions are still open.
        """

    @property
    def claimed(self) -> bool:
        """Whether this worker may append as the leader. True for a topic of which no leader is fenced."""

    async def claim(self) -> None:
        """Become the one leader that appends: others are refused from now on, whatever they have under way.

        Read to the end after it. Needed before the first `append`, and again when one has raised.
        """

    def relinquish(self) -> None:
        """Append no more as the leader."""

    async def append(self, key: bytes, value: bytes | None) -> None:
        """Write one record (None: tombstone); returns when all in-sync replicas have it."""

    async def append_all(self, entries: Sequence[Entry]) -> None:
        """Write records in this order. LeaseOver: none was; after another ClusterUnreachable any of them may have been.

        Where the leader is fenced it is one transaction: all or none.
        """

    async def append_as_member(self, key: bytes, value: bytes | None) -> None:
        """Write one record that every member of the group may write at any time."""

    async def stop(self) -> None:
        """Stop following; nothing is handed over afterwards."""


class KafkaTopicLog:
    """A TopicLog in Kafka. `clients` is shared by the logs of one cluster and closed by whoever made it.

    `leader`: writes what is appended as the leader; None: `clients` does, within its lease.
    """

    def __init__(self, clients: LogClients, plan: TopicPlan, leader: LeaderWriter | None = None) -> None:
        self._clients = clients
        self._plan = plan
        self._leader = leader
        self._follower: Follower | None = None
        self._partitions = 0
        self._positions: dict[int, int] = {}
        self._moved = asyncio.Event()
        self._on_record: OnRecord = _ignore

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._plan.name

    @property
    def partitions(self) -> int:
        """How many partitions the topic has; 0 before `start`."""
        return self._partitions

    async def start(self, on_record: OnRecord, timeout: float = READ_TIMEOUT) -> None:
        """See TopicLog.start; `timeout` bounds each of its two steps, creation and first reading."""
        self._partitions = await asyncio.to_thread(ensure_topic, self._clients, self._plan, timeout)
        self._on_record = on_record
        self._positions = {}
        loop = asyncio.get_running_loop()

        def deliver(records: Sequence[LogRecord], positions: Mapping[int, int]) -> None:
            loop.call_soon_threadsafe(self._receive, records, positions)

        self._follower = Follower(
            self._clients,
            self._plan.name,
            range(self._partitions),
            deliver,
            empty_after_ms=_IDLE_MS if self._leader is None else _BEHIND_A_MARKER_MS,
        )
        try:
            # A transaction that a killed worker left open lasts a minute: who needs what lies behind it reads to the end.
            await self._read(timeout, to_last_stable=True)
        except BaseException:
            await self.stop()
            raise

    async def read_to_end(self, timeout: float = READ_TIMEOUT) -> None:
        """See TopicLog.read_to_end."""
        await self._read(timeout)

    async def _read(self, timeout: float, *, to_last_stable: bool = False) -> None:
        deadline = time.monotonic() + timeout
        ends = await self._end_offsets(deadline, to_last_stable=to_last_stable)
        # The end is asked for after the call began: a record acknowledged before it is below it, whoever wrote it.
        while behind := [p for p, end in ends.items() if self._positions.get(p, 0) < end]:
            self._moved.clear()
            left = deadline - time.monotonic()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(left, _DENIED_LOOK_S))):
                    await self._moved.wait()
                continue
            if self._follower is not None and self._follower.denied is not None:
                raise self._follower.denied
            if left <= _DENIED_LOOK_S:
                raise await self._not_read(behind, ends, timeout)

    async def _not_read(
        self, behind: Sequence[int], ends: Mapping[int, int], timeout: float
    ) -> ClusterUnreachable | NotAuthorized:
        with contextlib.suppress(ClusterUnreachable, NotAuthorized):
            stable = await self._clients.end_offsets(self.topic, behind, _LOOK_S, last_stable=True)
            if held := [f"{p} at offset {stable[p]}" for p in behind if stable[p] < ends[p]]:
                return ClusterUnreachable(
                    f"topic {self.topic} was not read to its end in {timeout:g} s: it has an open transaction (partition "
                    f"{', '.join(held)}), which its producer ends, or the broker after the producer's transaction.timeout.ms"
                )
        return self._clients.unreachable(
            f"topic {self.topic}: partitions {list(behind)} were not read to their end in {timeout:g} s"
        )

    async def append(self, key: bytes, value: bytes | None) -> None:
        """See TopicLog.append."""
        await self.append_all([(key, value)])

    async def append_all(self, entries: Sequence[Entry]) -> None:
        """See TopicLog.append_all."""
        if entries:
            await (self._leader or self._clients).write(self.topic, entries)

    async def append_as_member(self, key: bytes, value: bytes | None) -> None:
        """See TopicLog.append_as_member."""
        await self._clients.write(self.topic, [(key, value)], leased=False)

    @property
    def claimed(self) -> bool:
        """See TopicLog.claimed."""
        return self._leader is None or self._leader.claimed

    async def claim(self) -> None:
        """See TopicLog.claim."""
        if self._leader is not None:
            await self._leader.claim()

    def relinquish(self) -> None:
        """See TopicLog.relinquish."""
        if self._leader is not None:
            self._leader.relinquish()

    async def stop(self) -> None:
        """See TopicLog.stop."""
        self.relinquish()
        follower, self._follower, self._on_record = self._follower, None, _ignore
        if follower is not None:
            await asyncio.to_thread(follower.stop)

    async def _end_offsets(self, deadline: float, *, to_last_stable: bool) -> Mapping[int, int]:
        while True:
            left = deadline - time.monotonic()
            try:
                return await self._clients.end_offsets(
                    self.topic, range(self._partitions), max(left, 1.0), last_stable=to_last_stable
                )
            except ClusterUnreachable:
                # Leaders move and brokers restart; asking again is harmless.
                if deadline - time.monotonic() <= _RETRY_PAUSE:
                    raise
                await asyncio.sleep(_RETRY_PAUSE)

    def _receive(self, records: Sequence[LogRecord], positions: Mapping[int, int]) -> None:
        if self._follower is None:
            return
        for record in records:
            try:
                self._on_record(record)
            except Exception:
                # The others of its delivery count, and the position has to move on: else the worker would wait for ever.
                log.exception(
                    "Topic %s: the record at partition %d, offset %d is passed over: reading it failed, which is a mistake "
                    "of ours",
                    self.topic,
                    record.partition,
                    record.offset,
                )
        self._positions.update(positions)
        self._moved.set()


def _ignore(_: LogRecord) -> None: ...
