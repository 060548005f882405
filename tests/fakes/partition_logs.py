"""A partition's log in memory, as the comparison reads it; and streams of records made into batches in many ways."""

from __future__ import annotations

import random
from collections.abc import Sequence

from aiokafka.record.default_records import DefaultRecordBatch

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.consumer.batch_heads import BatchHead, heads
from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch, whole_batches
from mirror_connect.kafka_io.consumer.record_reader import FoundRecord
from mirror_connect.kafka_io.records.aborted import AbortedFilter
from mirror_connect.kafka_io.records.record_batch import BatchReader
from mirror_connect.verify.batch_side import BatchSide
from mirror_connect.verify.cluster_logs import Piece
from mirror_connect.verify.comparer import Comparer
from mirror_connect.verify.findings import Findings
from mirror_connect.verify.record_side import RecordSide
from mirror_connect.verify.side import Side
from tests.fakes.encoded_batches import HEADER, Plain, decode, encode

LENGTH_AT = 8


class MemoryLog:
    """Batches as a broker would hand them over, `at_once` of them for each read."""

    def __init__(
        self, batches: Sequence[bytes], *, at_once: int = 3, aborted: Sequence[tuple[int, int]] = (), start: int = 0
    ) -> None:
        self.batches = list(batches)
        self.at_once = at_once
        self.aborted = tuple(aborted)
        self.offset = start
        self.reads = 0
        self.fetches = 0

    @property
    def end(self) -> int:
        return _last(self.batches[-1]) + 1 if self.batches else 0

    async def read(self) -> CompletedFetch | None:
        chunk = self._from(self.offset, self.at_once)
        if chunk is not None:
            self.reads += 1
            self.offset = chunk.next_offset
        return chunk

    async def seek(self, offset: int) -> None:
        self.offset = offset

    async def fetch(self, offset: int) -> CompletedFetch | None:
        self.fetches += 1
        return self._from(offset, 50)

    async def offset_at(self, timestamp: int) -> int | None:
        for batch in self.batches:
            for record in decode(batch):
                if record.timestamp >= timestamp:
                    return record.offset
        return None

    def _from(self, offset: int, count: int) -> CompletedFetch | None:
        chosen = [batch for batch in self.batches if _last(batch) >= offset][:count]
        if not chosen:
            return None
        buffer = memoryview(b"".join(chosen))
        return CompletedFetch(
            TopicPartition("t", 0), buffer, offset, whole_batches(buffer)[1], self.end, self.end, 0, self.aborted
        )


class MemoryRecords:
    """The same log as librdkafka shows it: records alone, and the headers of batches where they are asked for."""

    def __init__(self, log: MemoryLog, *, committed: bool) -> None:
        self._log = log
        self._committed = committed
        self.asked: list[tuple[int, int]] = []

    async def read(self) -> Piece | None:
        at = self._log.offset
        chunk = await self._log.read()
        return None if chunk is None else self._shown(chunk, at)

    async def seek(self, offset: int) -> None:
        await self._log.seek(offset)

    async def records_at(self, offset: int) -> Sequence[FoundRecord]:
        chunk = await self._log.fetch(offset)
        return [] if chunk is None else self._shown(chunk, offset).records

    async def offset_at(self, timestamp: int) -> int | None:
        return await self._log.offset_at(timestamp)

    async def heads(self, first: int, last: int) -> list[BatchHead]:
        self.asked.append((first, last))
        found = heads(b"".join(self._log.batches), {producer for producer, _ in self._log.aborted})
        return [head for head in found if head.last >= first and head.first <= last]

    def _shown(self, chunk: CompletedFetch, offset: int) -> Piece:
        records: list[FoundRecord] = []
        damaged: list[tuple[int, str]] = []
        append_time = False
        aborted = AbortedFilter(chunk.aborted) if self._committed else None
        reader = BatchReader(chunk.buffer)
        while (view := reader.next()) is not None:
            if (aborted is not None and aborted.drops(view)) or view.is_control or not view.count:
                continue
            if not DefaultRecordBatch(bytes(view.data)).validate_crc():
                damaged.append((view.base_offset, "its checksum is wrong"))
                continue
            append_time |= view.log_append_time
            records += [(r.offset, r.timestamp, r[2:]) for r in decode(bytes(view.data)) if r.offset >= offset]
        size = sum(len(key or b"") + len(value or b"") for _, _, (key, value, _) in records)
        return Piece(records, chunk.next_offset, size, append_time, damaged, chunk.next_offset >= self._log.end)


def _last(batch: bytes) -> int:
    fields = HEADER.unpack_from(batch)
    return fields[0] + fields[6]


def numbered(records: Sequence[Plain], first: int = 0) -> list[Plain]:
    """The records with the offsets of a log without gaps."""
    return [record._replace(offset=first + number) for number, record in enumerate(records)]


def packed(records: Sequence[Plain], *, seed: int = 0, size: int = 10, codec: int = 0, **header: int) -> list[bytes]:
    """Batches of 1 to `size` records; offsets as the records have them."""
    rng = random.Random(seed)
    batches, at = [], 0
    while at < len(records):
        count = rng.randint(1, size)
        batches.append(encode(records[at : at + count], codec, **header))
        at += count
    return batches


async def compare(
    source: Sequence[bytes] | MemoryLog,
    target: Sequence[bytes] | MemoryLog,
    *,
    until: int | None = None,
    source_committed: bool = False,
    most_listed: int = 1000,
    holes: tuple[int, int] = (0, 0),
    start: tuple[int, int] = (0, 0),
    by_records: bool = False,
) -> Findings:
    """What the comparison finds; `until` is the source's end by default. `by_records`: as librdkafka shows the logs."""
    ours = source if isinstance(source, MemoryLog) else MemoryLog(source)
    theirs = target if isinstance(target, MemoryLog) else MemoryLog(target)
    findings = Findings(most_listed)
    damage: list[tuple[int, str]] = []

    def damaged(offset: int, reason: str) -> None:
        damage.append((offset, reason))

    left: Side
    right: Side
    if by_records:
        shown = MemoryRecords(ours, committed=source_committed)
        left = RecordSide(shown, damaged, expected=start[0], holes=holes[0])
        right = RecordSide(
            MemoryRecords(theirs, committed=True), damaged, expected=start[1], holes=holes[1], producers=True
        )
    else:
        left = BatchSide(ours, damaged, expected=start[0], holes=holes[0], committed=source_committed)
        right = BatchSide(theirs, damaged, expected=start[1], holes=holes[1], committed=True)
    await Comparer(
        left,
        right,
        findings,
        until=ours.end if until is None else until,
        start=start[0],
    ).run()
    findings.notes += [f"damaged at {offset}: {reason}" for offset, reason in damage]
    return findings
