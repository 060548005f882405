"""Reads a compacted topic to its end and then follows it: the worker's only durable state.

Only committed records count: a Java worker with exactly-once writes connect-configs and connect-offsets in transactions, and
aborted records stay in the topic. The end is the high watermark, as in Kafka's own KafkaBasedLog: while another producer's
transaction is open, the last stable offset may be below a committed record.

`TopicLog` is the interface for the stores (tests have one in memory); `KafkaTopicLog` is the real one. Records reach the
store on the event loop, in the order of their partition, each exactly once while the log is open.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.kafka_io.admin.topic_plan import TopicPlan, ensure_topic
from mirror_connect.kafka_io.client.worker_lease import WorkerLease
from mirror_connect.kafka_io.consumer.log_clients import LogClients
from mirror_connect.kafka_io.consumer.topic_tail import LogRecord, TopicTail
from mirror_connect.kafka_io.producer.leader_writer import LeaderWriter

log = logging.getLogger(__name__)

OnRecord = Callable[[LogRecord], None]
Entry = tuple[bytes, bytes | None]

# As long as Kafka's own worker waits for its config topic before a REST call fails.
READ_TIMEOUT: Final = 30.0
_RETRY_PAUSE: Final = 0.25
_STABLE_OFFSETS_S: Final = 2.0
_IDLE_MS: Final = 500
# A leader's write ends with a marker, and its request waits until the log has been read beyond the marker.
_BEHIND_A_MARKER_MS: Final = 100
# Checked so often while it waits: a missing right to read ends the wait.
_DENIED_CHECK_S: Final = 0.5
# Records that come together are passed on for so long before the loop has its turn.
_PIECE_S: Final = 0.001


class TopicLog(Protocol):
    """What a store needs from its topic."""

    @property
    def name(self) -> str:
        """The topic's name."""

    async def start(self, on_record: OnRecord) -> None:
        """Creates or checks the topic, passes its committed records to `on_record`, then keeps reading it.

        It does not wait for open transactions; `read_to_end` does.
        Raises ConfigError (wrong settings or topic), ClusterUnreachable, NotAuthorized; then it can be called again.
        """

    async def read_to_end(self, timeout: float = READ_TIMEOUT) -> None:
        """Returns when all records that were in the topic at the call have been passed on, or were aborted.

        Raises ClusterUnreachable after `timeout` seconds; it names the partitions whose transactions are still open.
        """

    @property
    def claimed(self) -> bool:
        """Whether this worker may append as the leader. True for a topic whose leaders are not fenced."""

    async def claim(self) -> None:
        """Makes this worker the only leader that appends: brokers refuse others from now on, also their open requests.

        Read to the end after it. Needed before the first `append`, and again after one that raised.
        """

    def relinquish(self) -> None:
        """Ends appending as the leader."""

    async def append(self, key: bytes, value: bytes | None) -> None:
        """Writes one record (None: tombstone); returns when all in-sync replicas have it."""

    async def append_all(self, entries: Sequence[Entry]) -> None:
        """Writes records in this order. After LeaseOver none is written, after other ClusterUnreachable some may be.

        If leaders are fenced, it is one transaction: all or none.
        """

    async def append_as_member(self, key: bytes, value: bytes | None) -> None:
        """Writes one record that every member of the group may write at any time."""

    async def stop(self) -> None:
        """Stops following; passes on nothing afterwards."""


def skipped_line(topic_log: TopicLog, record: LogRecord, reason: str) -> str:
    """The line for the log about a record that has no effect."""
    place = f"the record at partition {record.partition}, offset {record.offset}"
    return f"Topic {topic_log.name}: {place} is skipped: {reason}"


class KafkaTopicLog:
    """A TopicLog in Kafka. The logs of one cluster share `clients`, which their maker closes.

    `leader` writes what is appended as the leader; if it is None, `clients` does, within its lease and `lease`.
    """

    def __init__(
        self,
        clients: LogClients,
        plan: TopicPlan,
        leader: LeaderWriter | None = None,
        *,
        lease: WorkerLease | None = None,
    ) -> None:
        self._clients = clients
        self._plan = plan
        self._leader = leader
        self._lease = lease
        self._tail: TopicTail | None = None
        self._partitions = 0
        self._positions: dict[int, int] = {}
        self._moved = asyncio.Event()
        self._on_record: OnRecord = _ignore
        # What the reader has brought and was not passed on yet: records, and the positions behind those before.
        self._brought: deque[LogRecord | Mapping[int, int]] = deque()

    @property
    def name(self) -> str:
        """See TopicLog.name."""
        return self._plan.name

    @property
    def partitions(self) -> int:
        """The topic's number of partitions; 0 before `start`."""
        return self._partitions

    async def start(self, on_record: OnRecord, timeout: float = READ_TIMEOUT) -> None:
        """See TopicLog.start; `timeout` bounds each of its two steps, creation and first reading."""
        self._partitions = await asyncio.to_thread(ensure_topic, self._clients, self._plan, timeout)
        self._on_record = on_record
        self._positions = {}
        loop = asyncio.get_running_loop()

        def deliver(records: Sequence[LogRecord], positions: Mapping[int, int]) -> None:
            loop.call_soon_threadsafe(self._receive, records, positions)

        self._tail = TopicTail(
            self._clients,
            self._plan.name,
            range(self._partitions),
            deliver,
            empty_after_ms=_IDLE_MS if self._leader is None else _BEHIND_A_MARKER_MS,
        )
        try:
            # A killed worker may leave a transaction open for a minute. Callers that need the records behind it read to
            # the end.
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
        # The end is requested after the call began, so every record acknowledged before the call is below it.
        while behind := [p for p, end in ends.items() if self._positions.get(p, 0) < end]:
            self._moved.clear()
            left = deadline - time.monotonic()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(left, _DENIED_CHECK_S))):
                    await self._moved.wait()
                continue
            if self._tail is not None and self._tail.denied is not None:
                raise self._tail.denied
            if left <= _DENIED_CHECK_S:
                raise await self._not_read(behind, ends, timeout)

    async def _not_read(
        self, behind: Sequence[int], ends: Mapping[int, int], timeout: float
    ) -> ClusterUnreachable | NotAuthorized:
        with contextlib.suppress(ClusterUnreachable, NotAuthorized):
            stable = await self._clients.end_offsets(self.name, behind, _STABLE_OFFSETS_S, last_stable=True)
            if held := [f"{p} at offset {stable[p]}" for p in behind if stable[p] < ends[p]]:
                return ClusterUnreachable(
                    f"topic {self.name} was not read to its end in {timeout:g} s: it has an open transaction (partition "
                    f"{', '.join(held)}), which its producer ends, or the broker after the producer's transaction.timeout.ms"
                )
        return self._clients.unreachable(
            f"topic {self.name}: partitions {list(behind)} were not read to their end in {timeout:g} s"
        )

    async def append(self, key: bytes, value: bytes | None) -> None:
        """See TopicLog.append."""
        await self.append_all([(key, value)])

    async def append_all(self, entries: Sequence[Entry]) -> None:
        """See TopicLog.append_all."""
        if not entries:
            return
        if self._lease is not None:
            await self._lease.enough_for_a_message()
        await (self._leader or self._clients).write(self.name, entries)

    async def append_as_member(self, key: bytes, value: bytes | None) -> None:
        """See TopicLog.append_as_member."""
        await self._clients.write(self.name, [(key, value)], leased=False)

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
        tail, self._tail, self._on_record = self._tail, None, _ignore
        self._brought.clear()
        if tail is not None:
            await asyncio.to_thread(tail.stop)

    async def _end_offsets(self, deadline: float, *, to_last_stable: bool) -> Mapping[int, int]:
        while True:
            left = deadline - time.monotonic()
            try:
                return await self._clients.end_offsets(
                    self.name, range(self._partitions), max(left, 1.0), last_stable=to_last_stable
                )
            except ClusterUnreachable:
                # Leaders move and brokers restart; a retry is harmless.
                if deadline - time.monotonic() <= _RETRY_PAUSE:
                    raise
                await asyncio.sleep(_RETRY_PAUSE)

    def _receive(self, records: Sequence[LogRecord], positions: Mapping[int, int]) -> None:
        waits = bool(self._brought)
        self._brought.extend((*records, positions))
        if not waits:
            self._pass_on()

    def _pass_on(self) -> None:
        if self._tail is None:
            self._brought.clear()
        until = time.perf_counter() + _PIECE_S
        while self._brought:
            each = self._brought.popleft()
            if isinstance(each, LogRecord):
                try:
                    self._on_record(each)
                except Exception:
                    # The other records count, and the position must advance, or the worker would wait for ever.
                    log.exception(skipped_line(self, each, "reading it failed unexpectedly"))
            else:
                self._positions.update(each)
                self._moved.set()
            if self._brought and time.perf_counter() > until:
                asyncio.get_running_loop().call_soon(self._pass_on)
                return


def _ignore(_: LogRecord) -> None: ...
