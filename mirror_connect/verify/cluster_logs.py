"""Reads the partitions of one cluster by librdkafka, within fixed ends. It uses no code of the copier.

librdkafka hides some offsets. Only where that matters, the headers of the batches are read (consumer/batch_heads.py).
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, TypeVar

from mirror_connect.connectors.errors import NotAuthorized
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.rights import user_at
from mirror_connect.kafka_io.consumer.batch_heads import BatchHead, BatchHeads, HeadsUnknown
from mirror_connect.kafka_io.consumer.record_reader import (
    Found,
    FoundRecord,
    ListedOffset,
    RecordReader,
    RecordReaders,
    TemporaryReadError,
)
from mirror_connect.verify.clusters import EARLIEST, LATEST, ClusterRole
from mirror_connect.verify.errors import CannotCompareError
from mirror_connect.verify.rate import Rate

T = TypeVar("T")

# How long a partition that can't be read may take to recover: a restarted broker needs that.
PATIENCE_S: Final = 30.0
_RETRY_S: Final = 0.5
_ANSWER_S: Final = 10.0
# For each of the four comparisons at once: a reader of each side, and one that reads elsewhere.
_THREADS: Final = 12
_AT_ONCE_BYTES: Final = 1 << 20
_HEADS_BYTES: Final = 4 << 20
# Bytes of a record beside its key, value and headers: offset, timestamp, lengths.
_OVERHEAD: Final = 8


class Piece(NamedTuple):
    """Records in order. All offsets below `end` are read. `damaged`: (offset, reason) of skipped batches.

    `at_end`: the log had no more at the moment.
    """

    records: Sequence[FoundRecord]
    end: int
    size: int
    log_append_time: bool
    damaged: Sequence[tuple[int, str]]
    at_end: bool


class ClusterLogs:
    """The logs of one cluster. `committed`: only what readers of committed records see."""

    def __init__(
        self,
        role: ClusterRole,
        properties: Mapping[str, str],
        *,
        committed: bool,
        rate: Rate,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.role: ClusterRole = role
        self.committed = committed
        self.rate = rate
        self.patience_s = patience_s
        client_id = "mirror-connect-verify"
        self._readers = RecordReaders(
            properties, user_at(role), committed=committed, client_id=client_id, statistics=rate.limited
        )
        self._heads = BatchHeads(properties, client_id)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"verify-{role}")
        self._leaders: dict[TopicPartition, tuple[str, int]] = {}
        # Bytes of content and bytes received, by the statistics so far.
        self._content = self._received = 0

    async def close(self) -> None:
        """Closes the connections."""
        await self._heads.close()
        await self.blocking(self._readers.close)
        self._threads.shutdown(wait=False)

    async def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The offset at a timestamp (ms), EARLIEST or LATEST of each partition; None if no record is as late.

        For readers of committed records LATEST is before the first open transaction. CannotCompareError, NotAuthorized.
        """
        found, why = await self.listed_offsets(wanted)
        if len(found) < len(wanted):
            raise CannotCompareError(f"the {self.role} cluster does not answer: {why}")
        return {key: end.offset for key, end in found.items()}

    async def listed_offsets(
        self, wanted: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, ListedOffset], str]:
        """The same with leader epochs; and why some are missing after `patience_s`. NotAuthorized."""
        found: dict[TopicPartition, ListedOffset] = {}
        until = time.monotonic() + self.patience_s
        while True:
            left = {key: at for key, at in wanted.items() if key not in found}
            answer, why = await self.blocking(self._ask, left)
            found.update(answer)
            if len(found) == len(wanted) or time.monotonic() > until:
                return found, why
            await asyncio.sleep(_RETRY_S)

    async def ends(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, ListedOffset]:
        """LATEST of each partition, with the epoch of its leader. CannotCompareError, NotAuthorized."""
        wanted = dict.fromkeys(keys, LATEST)
        found, why = await self.listed_offsets(wanted)
        if len(found) < len(wanted):
            raise CannotCompareError(f"the {self.role} cluster does not answer: {why}")
        return found

    async def epoch_end(self, key: TopicPartition, epoch: int) -> int | None:
        """The end offset of the last leader epoch up to this one; None if the leader knows none. CannotCompareError."""
        until = time.monotonic() + self.patience_s
        reader = await self.take()
        try:
            while True:
                # The leader may have changed: ask the present one.
                try:
                    broker = await self.blocking(reader.leader, *key, _ANSWER_S)
                    return await self._heads.epoch_end(broker, key, epoch)
                except (TemporaryReadError, HeadsUnknown) as error:
                    if time.monotonic() > until:
                        raise CannotCompareError(
                            f"no broker answers where leader epoch {epoch} ended: {error}"
                        ) from None
                    await asyncio.sleep(_RETRY_S)
        finally:
            await self.give_back(reader)

    async def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """The present ids of topics; brokers before 2.8 have none."""
        names = sorted(set(topics))
        return await self.blocking(self._ids, names) if names else {}

    def log(self, key: TopicPartition, start: int, end: int) -> RecordLog:
        """The log of a partition from `start` to before `end`. The caller closes it."""
        return RecordLog(self, key, start, end)

    async def blocking(self, call: Callable[..., T], *arguments: object) -> T:
        """Runs a blocking call in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)

    async def take(self) -> RecordReader:
        """A free reader."""
        return await self.blocking(self._readers.take)

    async def give_back(self, reader: RecordReader) -> None:
        """Makes the reader free again."""
        await self.blocking(self._readers.give_back, reader)

    async def charge(self, reader: RecordReader, before: int, found: Found) -> None:
        """Waits until the rate allows what was read. `before`: bytes the reader had received before that."""
        content = found.size + _OVERHEAD * len(found.records)
        self._content += content
        self._received += max(0, reader.received - before)
        # Compression makes received bytes fewer than their contents. Until the share is known, contents count.
        share = self._received / self._content if self._received and self._content else 1.0
        await self.rate.take(int(content * share))

    async def heads(
        self,
        reader: RecordReader,
        key: TopicPartition,
        first: int,
        last: int,
        *,
        enough: Callable[[BatchHead], bool] | None = None,
    ) -> list[BatchHead]:
        """The headers of the batches with offsets from `first` to `last`, or only up to the first that is `enough`.

        CannotCompareError if no broker returns them for a while.
        """
        found: list[BatchHead] = []
        at, until = first, time.monotonic() + self.patience_s
        while at <= last:
            try:
                if key not in self._leaders:
                    self._leaders[key] = await self.blocking(reader.leader, *key, _ANSWER_S)
                broker = self._leaders[key]
                most = min(_HEADS_BYTES, max(1 << 16, (last - at) << 10))
                shown, size = await self._heads.read(broker, key, at, most, committed=self.committed)
            except (TemporaryReadError, HeadsUnknown) as error:
                self._leaders.pop(key, None)
                if time.monotonic() > until:
                    raise CannotCompareError(
                        f"{self.role} partition {key}: no broker shows the batch at offset {at}: {error}"
                    ) from None
                await asyncio.sleep(_RETRY_S)
                continue
            if shown is None:
                # Retention may have moved the log's beginning.
                begins = (await self.offsets({key: EARLIEST}))[key] or 0
                if begins <= at:
                    break
                at = begins
                continue
            heads = [head for head in shown if head.last >= at and head.first <= last]
            if not heads:
                break  # no batch up to the end
            await self.rate.take(size)
            found += heads
            at, until = heads[-1].last + 1, time.monotonic() + self.patience_s
            if enough is not None and any(map(enough, heads)):
                break
        return found

    def _ask(self, wanted: Mapping[TopicPartition, int]) -> tuple[dict[TopicPartition, ListedOffset], str]:
        try:
            return self._readers.asker.offsets(wanted, committed=self.committed, timeout=_ANSWER_S)
        except NotAuthorized as error:
            raise NotAuthorized(f"{self.role}: {error}") from None

    def _ids(self, names: Sequence[str]) -> dict[str, str]:
        return self._readers.asker.topic_ids(names, _ANSWER_S)


class RecordLog:
    """One partition, from `start` to before `end`. CannotCompareError if it stays unreadable for a while; NotAuthorized."""

    def __init__(self, cluster: ClusterLogs, key: TopicPartition, start: int, end: int) -> None:
        self.key = key
        self.committed = cluster.committed
        self._cluster = cluster
        self._end = end
        self._position = start
        self._reader: RecordReader | None = None
        self._second_reader: RecordReader | None = None
        self._reading = False

    async def read(self) -> Piece | None:
        """The next records; None at the end of the range. A piece may have no records."""
        if self._position >= self._end:
            await self._rest()
            return None
        if self._reader is None:
            self._reader = await self._cluster.take()
        if not self._reading:
            self._reading = True
            await self._cluster.blocking(self._reader.begin, *self.key, self._position)
        piece = await self._read(self._reader, self._position)
        self._position = piece.end
        if piece.at_end and piece.end < self._end and await self._last() < self._end:
            # The log ends before the range: the comparison reports it.
            self._end = piece.end
        if piece.end > self._end:
            records = piece.records[: bisect_left(piece.records, self._end, key=_offset)]
            piece = piece._replace(records=records, end=self._end)
        return piece

    async def seek(self, offset: int) -> None:
        """Continues at this offset."""
        self._reading = False
        self._position = offset

    async def records_at(self, offset: int) -> Sequence[FoundRecord]:
        """About a megabyte of records from `offset` on. The position stays."""
        if self._second_reader is None:
            self._second_reader = await self._cluster.take()
        await self._cluster.blocking(self._second_reader.begin, *self.key, offset)
        found: list[FoundRecord] = []
        size, at = 0, offset
        while size < _AT_ONCE_BYTES and at < self._end:
            piece = await self._read(self._second_reader, at)
            found += piece.records
            size += piece.size
            if piece.at_end or piece.end <= at:
                break
            at = piece.end
        return found

    async def offset_at(self, timestamp: int) -> int | None:
        """The first offset whose record has this timestamp (ms) or a later one."""
        return (await self._cluster.offsets({self.key: timestamp}))[self.key]

    async def heads(
        self, first: int, last: int, *, enough: Callable[[BatchHead], bool] | None = None
    ) -> list[BatchHead]:
        """The headers of the batches that hold these offsets."""
        if self._second_reader is None:
            self._second_reader = await self._cluster.take()
        return await self._cluster.heads(self._second_reader, self.key, first, last, enough=enough)

    async def close(self) -> None:
        """Makes the readers free again."""
        for reader in (self._reader, self._second_reader):
            if reader is not None:
                await self._cluster.give_back(reader)
        self._reader = self._second_reader = None

    async def _read(self, reader: RecordReader, position: int) -> Piece:
        """The next at `position`: records, damage, or the log's end."""
        began, why = time.monotonic(), ""
        while True:
            before = reader.received
            try:
                found = await self._cluster.blocking(reader.read)
            except NotAuthorized as error:
                raise NotAuthorized(f"{self._cluster.role}: {error}") from None
            if found.records or found.damaged or found.end is not None:
                return await self._piece(reader, before, position, found)
            if found.refused:
                raise CannotCompareError(f"{self._cluster.role} partition {self.key} can't be read: {found.refused}")
            if found.lost and (offset := await self._found_again(reader, position)) is not None:
                return Piece((), offset, 0, log_append_time=False, damaged=(), at_end=True)
            why = found.problem or why
            if time.monotonic() - began > (self._cluster.patience_s if why else 2 * self._cluster.patience_s):
                what = why or f"nothing came for {2 * self._cluster.patience_s:.0f} s"
                raise CannotCompareError(f"{self._cluster.role} partition {self.key} can't be read: {what}")

    async def _piece(self, reader: RecordReader, before: int, position: int, found: Found) -> Piece:
        await self._cluster.charge(reader, before, found)
        if found.damaged:
            return await self._damaged(reader, *found.damaged[0], found)
        end = found.records[-1][0] + 1 if found.records else position
        if found.end is not None:
            end = max(end, found.end)
        return Piece(found.records, end, found.size, found.log_append_time, (), found.end is not None)

    async def _damaged(self, reader: RecordReader, offset: int, reason: str, found: Found) -> Piece:
        """The records before a damaged batch. Continues after it, where librdkafka might not."""
        heads = await self._cluster.heads(reader, self.key, offset, offset)
        if not heads:
            raise CannotCompareError(
                f"{self._cluster.role} partition {self.key} can't be read beyond offset {offset}: {reason}"
            )
        end = max(offset, heads[0].last) + 1
        await self._cluster.blocking(reader.begin, *self.key, end)
        records = found.records[: bisect_left(found.records, offset, key=_offset)]
        damaged = ((offset, reason),) if offset < self._end else ()
        return Piece(records, end, found.size, found.log_append_time, damaged, at_end=False)

    async def _found_again(self, reader: RecordReader, position: int) -> int | None:
        """Continues after the log lost this position. Returns the log's end if the log is shorter now, else None."""
        first = (await self._cluster.offsets({self.key: EARLIEST}))[self.key] or 0
        last = await self._last()
        if last < position:
            return last
        if first > position:
            await self._cluster.blocking(reader.begin, *self.key, first)
        else:
            await self._cluster.blocking(reader.begin, *self.key, position)
        return None

    async def _last(self) -> int:
        return (await self._cluster.offsets({self.key: LATEST}))[self.key] or 0

    async def _rest(self) -> None:
        if self._reading and self._reader is not None:
            self._reading = False
            await self._cluster.blocking(self._reader.rest)


def _offset(record: FoundRecord) -> int:
    return record[0]
