"""The partitions of one cluster, read for a comparison: by the source task's own fetcher, within fixed ends."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, Literal, TypeVar

from mirror_connect.cli.verify.rate import Rate
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.kafka_io import wire_codec as codes
from mirror_connect.kafka_io.cluster import Cluster, Leader
from mirror_connect.kafka_io.connection import ConnectionLost
from mirror_connect.kafka_io.wire import Fetch, FetchPartition, ListOffsets
from mirror_connect.kafka_io.wire_codec import error_name
from mirror_connect.spark_jobs.fetch_state import LEADERSHIP_ERRORS
from mirror_connect.spark_jobs.fetched import Fetched, SourcePartition, whole_batches
from mirror_connect.spark_jobs.fetcher import Fetcher
from mirror_connect.spark_jobs.record_batch import BatchReader

Place = Literal["source", "target"]
Key = tuple[str, int]
T = TypeVar("T")

_BUFFER: Final = 32 << 20
# Only what is there already is read; a partition that is added needn't wait behind a fetch that waits for news.
_FIXED: Final = {"fetch.max.wait.ms": "10", "fetch.min.bytes": "1"}
LOOK_BYTES: Final = 1 << 20
# A partition that can't be read gets so long to recover, as a restarted broker needs it.
PATIENCE_S: Final = 30.0
_RETRY_S: Final = 0.5


class CannotCompareError(Exception):
    """A partition, or everything, can't be compared; the text is one line that says why."""


class ClusterReader:
    """One cluster. `committed`: only what readers of committed records see. `on_notice`: lines for people."""

    def __init__(
        self,
        place: Place,
        properties: Mapping[str, str],
        *,
        committed: bool,
        rate: Rate,
        on_notice: Callable[[str], None],
        patience_s: float = PATIENCE_S,
    ) -> None:
        isolation = "read_committed" if committed else "read_uncommitted"
        self.place = place
        self.committed = committed
        self.rate = rate
        self._patience_s = patience_s
        self._cluster = Cluster(properties, client_id="mirror-connect-verify")
        self._logs: dict[SourcePartition, PartitionLog] = {}
        self.fetcher = Fetcher(
            self._cluster,
            {**properties, "auto.offset.reset": "earliest", "isolation.level": isolation, **_FIXED},
            on_records=self._take,
            on_notice=on_notice,
            buffer_limit_bytes=_BUFFER,
            side=place,
        )

    async def open(self, topics: Iterable[str]) -> None:
        """Connects and learns the leaders. ClusterUnreachable, NotAuthorized."""
        await self._cluster.connect()
        await self._cluster.refresh(topics)

    async def close(self) -> None:
        """Closes the connections."""
        await self._cluster.close()

    async def topic_ids(self, topics: Iterable[str]) -> dict[str, bytes | None]:
        """The id of each topic as the cluster tells it now, and where its leaders are; None where there is none.

        ClusterUnreachable, NotAuthorized.
        """
        wanted = sorted(set(topics))
        if wanted:
            await self._cluster.refresh(wanted)
        return {topic: self._cluster.topic_id(topic) for topic in wanted}

    def has(self, key: Key) -> bool:
        """Whether the partition existed when its topic was last asked for."""
        return key[1] < (self._cluster.partition_count(key[0]) or 0)

    async def offsets(self, wanted: Mapping[Key, int], *, open_too: bool = False) -> dict[Key, int | None]:
        """The offset at a timestamp (ms), EARLIEST or LATEST of each partition; None where no record is as late.

        LATEST is what readers see: up to the first open transaction if they read committed records and don't ask for what
        is `open_too`. CannotCompareError.
        """
        found: dict[Key, int | None] = {}
        committed = self.committed and not open_too

        async def ask() -> bool:
            by_node: dict[int, dict[Key, tuple[int, int]]] = {}
            for key, timestamp in wanted.items():
                if key not in found:
                    leader = self._leader(key)
                    by_node.setdefault(leader.node_id, {})[key] = timestamp, leader.epoch
            for node, asked in by_node.items():
                for each in await self._cluster.send(node, ListOffsets(asked, read_committed=committed)):
                    if each.error == codes.NONE:
                        found[each.topic, each.partition] = None if each.offset < 0 else each.offset
                    elif each.error not in LEADERSHIP_ERRORS:
                        raise CannotCompareError(self._refused(each.topic, each.partition, each.error))
            return len(found) == len(wanted)

        await self._patiently({topic for topic, _ in wanted}, ask)
        return found

    async def look(
        self, key: SourcePartition, offset: int, *, hidden_too: bool = True, most: int = LOOK_BYTES
    ) -> Fetched | None:
        """About `most` bytes from `offset` on; None at the end, and where there is nothing any more. CannotCompareError.

        `hidden_too`: where an open transaction hides what is there, the end is here.
        """
        answers: list[Fetched | None] = []

        async def ask() -> bool:
            leader = self._leader(key)
            wanted = FetchPartition(*key, offset, most, leader.epoch)
            request = Fetch([wanted], 100, 1, most, read_committed=self.committed)
            # Not on the connection of fetches, where it would wait behind one that waits for news.
            answer = await self._cluster.send(leader.node_id, request)
            part = answer.partitions[0]
            if part.error in LEADERSHIP_ERRORS:
                return False
            if part.error not in (codes.NONE, codes.OFFSET_OUT_OF_RANGE):
                raise CannotCompareError(self._refused(*key, part.error))
            size, following, _ = whole_batches(part.records)
            if not size and not hidden_too and 0 <= part.last_stable_offset <= offset < part.high_watermark:
                raise CannotCompareError(
                    f"{self.place} partition {key}: an open transaction hides what is there from offset {offset} on"
                )
            whole = Fetched(key, part.records[:size], offset, following, -1, -1, -1, part.aborted)
            answers.append(whole if size else None)
            return True

        await self._patiently({key.topic}, ask)
        return answers[0]

    def log(self, key: SourcePartition, start: int, end: int) -> PartitionLog:
        """The log of a partition from `start` to `end`; to be closed."""
        log = PartitionLog(self, key, start, end)
        self.attend(key, log)
        return log

    def attend(self, key: SourcePartition, log: PartitionLog) -> None:
        """What is fetched of the partition goes to this log."""
        self._logs[key] = log

    def forget(self, key: SourcePartition) -> None:
        """The partition is read no further."""
        self._logs.pop(key, None)
        self.fetcher.remove(key)

    def _take(self, fetched: Fetched) -> None:
        log = self._logs.get(fetched.partition)
        if log is None:
            fetched.release()
        else:
            log.put(fetched)

    def _leader(self, key: Key) -> Leader:
        leader = self._cluster.leader(*key)
        if leader is None:
            raise ConnectionLost(f"partition {key[0]}-{key[1]} of the {self.place} has no leader")
        return leader

    def _refused(self, topic: str, partition: int, error: int) -> str:
        return f"{self.place} partition {topic}-{partition} can't be read: {error_name(error)}"

    async def _patiently(self, topics: Iterable[str], ask: Callable[[], Awaitable[bool]]) -> None:
        """Asks until the answer is whole; leaders may move, brokers restart."""
        until = time.monotonic() + self._patience_s
        why = "leaders are changing"
        while True:
            try:
                if await ask():
                    return
            except ConnectionLost as error:
                why = str(error)
            if time.monotonic() > until:
                raise CannotCompareError(f"the {self.place} cluster does not answer: {why}")
            await asyncio.sleep(_RETRY_S)
            try:
                await self._cluster.refresh(topics)
            except ClusterUnreachable as error:
                why = str(error)


class PartitionLog:
    """The Log (side.py) of one partition, from `start` to before `end`."""

    def __init__(self, reader: ClusterReader, key: SourcePartition, start: int, end: int) -> None:
        self._reader = reader
        self._key = key
        self._end = end
        self._position = start
        self._queue: deque[Fetched] = deque()
        self._news = asyncio.Event()
        self._stuck_at: int | None = None
        self._reading = False

    async def read(self) -> Fetched | None:
        """See Log. CannotCompareError when the partition can't be read for a while."""
        if self._stuck_at is not None:
            raise CannotCompareError(
                f"{self._reader.place} partition {self._key} can't be read beyond offset {self._stuck_at}: "
                "its next batch is damaged"
            )
        if self._position >= self._end:
            self._leave()
            return None
        if not self._reading:
            self._reading = True
            self._reader.fetcher.add(self._key, self._position)
        fetched = await self._next()
        if fetched is None:
            self._leave()
            return None
        if fetched.fetch_offset < self._position:
            at = fetched.fetch_offset
            fetched.release()
            self._leave()
            raise CannotCompareError(
                f"{self._reader.place} partition {self._key}: its log was truncated at offset {at} meanwhile"
            )
        await self._reader.rate.take(len(fetched.buffer))
        if fetched.next_offset <= fetched.fetch_offset:
            self._stuck_at = fetched.fetch_offset
        self._position = max(self._position, fetched.next_offset)
        return fetched if fetched.next_offset <= self._end else _cut(fetched, self._end)

    async def seek(self, offset: int) -> None:
        """See Log."""
        self._leave()
        self._reader.attend(self._key, self)
        self._position, self._stuck_at = offset, None

    async def look(self, offset: int) -> Fetched | None:
        """See Log."""
        return await self._reader.look(self._key, offset)

    async def offset_at(self, timestamp: int) -> int | None:
        """See Log."""
        return (await self._reader.offsets({self._key: timestamp}))[self._key]

    def put(self, fetched: Fetched) -> None:
        """More from the fetcher, in order."""
        self._queue.append(fetched)
        self._news.set()

    def close(self) -> None:
        """Stops reading; what is waiting is given back."""
        self._leave()

    async def _next(self) -> Fetched | None:
        trouble_since: float | None = None
        quiet_since = time.monotonic()
        while not self._queue:
            self._news.clear()
            try:
                async with asyncio.timeout(1.0):
                    await self._news.wait()
            except TimeoutError:
                if self._queue:
                    break  # it came in the very moment in which the wait ended
                state = self._reader.fetcher.state(self._key)
                if state.position is not None and state.position >= self._end:
                    return None  # what was left is gone
                now = time.monotonic()
                trouble_since = (trouble_since or now) if state.error else None
                if state.failed or (trouble_since is not None and now - trouble_since > PATIENCE_S):
                    raise CannotCompareError(state.error) from None
                if now - quiet_since > 2 * PATIENCE_S:
                    raise CannotCompareError(
                        f"{self._reader.place} partition {self._key}: nothing came for {2 * PATIENCE_S:.0f} s"
                    ) from None
        return self._queue.popleft()

    def _leave(self) -> None:
        self._reading = False
        self._reader.forget(self._key)
        for fetched in self._queue:
            fetched.release()
        self._queue.clear()


def _cut(fetched: Fetched, end: int) -> Fetched:
    """Without the batches from `end` on."""
    reader = BatchReader(fetched.buffer)
    size = 0
    while (view := reader.next()) is not None and view.base_offset < end:
        size = reader.at
    return Fetched(
        fetched.partition,
        fetched.buffer[:size],
        fetched.fetch_offset,
        end,
        fetched.high_watermark,
        fetched.last_stable_offset,
        fetched.log_start,
        fetched.aborted,
        _released=lambda _size: fetched.release(),
    )
