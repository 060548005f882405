"""Reads the records of topics: first which offsets there are, then the records of each slice.

The ends are those of the moment in which a query is planned. So it ends, also while records come in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch
from mirror_connect.kafka_io.records.record_batch import CorruptBatchError
from mirror_connect.query.bounds import Bounds
from mirror_connect.query.cluster_log import ClusterLog
from mirror_connect.query.errors import QueryError
from mirror_connect.query.link import QueryLink
from mirror_connect.query.record_columns import MOST_RECORDS, RecordColumns, records_of
from mirror_connect.query.slices import MOST_OFFSETS, Slice, slices_of

if TYPE_CHECKING:
    import pyarrow as pa

    from mirror_connect.connectors.partitions import TopicPartition

    Extents = dict[TopicPartition, tuple[int, int]]


class Witness(Protocol):
    """Is told how a query goes on, in several processes at once."""

    def read(self, size: int) -> None:
        """So many bytes were read."""

    def failed(self, line: str) -> None:
        """Why the query fails."""


@dataclass(frozen=True, slots=True)
class Scan:
    """Which records. `role`: source or target; `slack_ms`: see `_narrowed`."""

    role: str
    topics: tuple[str, ...]
    bounds: Bounds
    slice_offsets: int = MOST_OFFSETS
    slack_ms: int | None = None


async def planned(link: QueryLink, scan: Scan) -> list[Slice]:
    """The slices to read. QueryError."""
    async with ClusterLog(link, scan.role) as log:
        keys = [key for key in await log.partitions(scan.topics) if scan.bounds.takes(key.partition)]
        return slices_of(await _narrowed(log, await log.extents(keys), scan), scan.slice_offsets)


async def _narrowed(log: ClusterLog, extents: Extents, scan: Scan) -> Extents:
    """The offsets within the bounds.

    Before the first record that is as late as `from_ms`, all are earlier. But one after it may be earlier again, if
    producers set the times. So `until_ms` ends no log, unless the user says by how much records may be out
    of order (`slack_ms`).
    """
    bounds = scan.bounds
    found = {
        key: (max(first, bounds.first or 0), end if bounds.end is None else min(end, bounds.end))
        for key, (first, end) in extents.items()
    }
    if bounds.from_ms is not None:
        begins = await log.offsets(dict.fromkeys(found, max(0, bounds.from_ms)))
        for key, (first, end) in found.items():
            begin = begins[key]
            found[key] = (end if begin is None else max(first, begin), end)
    if bounds.until_ms is not None and scan.slack_ms is not None:
        ends = await log.offsets(dict.fromkeys(found, max(0, bounds.until_ms + scan.slack_ms)))
        for key, (first, end) in found.items():
            last = ends[key]
            found[key] = (first, end if last is None else min(end, last))
    return found


def read_slice(
    link: QueryLink, scan: Scan, part: Slice, schema: pa.Schema, witness: Witness | None = None
) -> Iterator[pa.RecordBatch]:
    """The records of a slice, in batches for Spark. QueryError."""
    bounds = scan.bounds
    columns = RecordColumns(part.topic, part.partition, schema)
    committed = link.committed(scan.role)
    for fetched in fetches(link, scan.role, part, witness):
        first = max(part.first, fetched.fetch_offset)
        try:
            for kind, records in records_of(
                fetched, first, part.end, bounds.from_ms, bounds.until_ms, committed=committed
            ):
                for begin in range(0, len(records), MOST_RECORDS):
                    columns.add(records[begin : begin + MOST_RECORDS], kind)
                    if columns.full and (batch := columns.take()) is not None:
                        yield batch
        except CorruptBatchError as error:
            raise QueryError(
                f"partition {part.key} of the {scan.role} cluster is damaged at {error}: "
                "leave these offsets out, by a condition on the column offset"
            ) from None
    if (batch := columns.take()) is not None:
        yield batch


def fetches(link: QueryLink, role: str, part: Slice, witness: Witness | None) -> Iterator[CompletedFetch]:
    """What fetches bring of a slice; the witness is told their size. QueryError.

    The next one is on its way while the caller works on the one before.
    """
    with asyncio.Runner() as runner:
        log = ClusterLog(link, role)
        loop = runner.get_loop()
        try:
            runner.run(log.__aenter__())
            runner.run(log.partitions([part.topic]))
            coming: asyncio.Task[CompletedFetch | None] | None = loop.create_task(
                log.fetch(part.key, part.first, part.end)
            )
            while coming is not None:
                fetched = loop.run_until_complete(coming)
                if fetched is None:
                    return
                if witness is not None:
                    witness.read(len(fetched.buffer))
                coming = None
                if fetched.next_offset < part.end:
                    coming = loop.create_task(log.fetch(part.key, fetched.next_offset, part.end))
                    # It is sent. The loop stands still until the caller asks for it.
                    loop.run_until_complete(asyncio.sleep(0))
                yield fetched
        finally:
            runner.run(log.__aexit__(None, None, None))


def observed(work: Callable[[], Iterator[pa.RecordBatch]], witness: Witness | None) -> Iterator[pa.RecordBatch]:
    """What `work` yields. A QueryError is told to the witness, because Spark hides it in a trace."""
    try:
        yield from work()
    except QueryError as error:
        if witness is not None:
            witness.failed(str(error))
        raise
