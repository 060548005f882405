"""Flows of one partition, and what a fetcher hands over to them."""

from __future__ import annotations

import struct
from collections.abc import Callable

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.record_errors import RecordError, SkippedRecords
from mirror_connect.connectors.record_steps import Steps
from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch
from mirror_connect.kafka_io.records.batch_builder import build
from mirror_connect.kafka_io.records.compression import GZIP, ZSTD, compress
from mirror_connect.kafka_io.records.placed_records import Placed
from mirror_connect.kafka_io.records.record_batch import CorruptBatchError, NewRecord, ProducerBatch, stamp
from mirror_connect.spark_jobs.copy.computed_batch import Computing
from mirror_connect.spark_jobs.copy.dead_letters import FlowLetters
from mirror_connect.spark_jobs.copy.partition_flow import SMALL_BYTES, SMALL_RECORDS, PartitionFlow
from mirror_connect.spark_jobs.copy.rewritten_pieces import InThread
from tests.fakes.encoded_batches import HEADER, with_records

LIMIT = 1_000_000


class Heard:
    """The flow's callbacks, written down."""

    def __init__(self) -> None:
        self.corrupt: list[CorruptBatchError] = []
        self.counters: dict[str, int] = {}
        self.flow: PartitionFlow | None = None
        self.skipped: list[SkippedRecords] = []
        self.failed: list[RecordError] = []
        self.others: list[tuple[int, int]] = []


def flow(
    heard: Heard,
    next_offset: int | None = None,
    *,
    leader_epoch: int = -1,
    read_committed: bool = False,
    check_crcs: bool = True,
    steps: Steps = (),
    tolerant: bool = False,
    in_thread: InThread | None = None,
    on_ready: Callable[[PartitionFlow], None] = lambda _flow: None,
    on_placed: Callable[[Placed, int], None] = lambda _batch, _base_offset: None,
    computing: Computing | None = None,
    letters: FlowLetters | None = None,
) -> PartitionFlow:
    return PartitionFlow(
        TaskPartition("orders", 0, "A.orders"),
        next_offset,
        heard.counters,
        leader_epoch=leader_epoch,
        check_crcs=check_crcs,
        read_committed=read_committed,
        on_corrupt=lambda _flow, error: heard.corrupt.append(error),
        on_refused=lambda _flow, _error: None,
        on_written=lambda _flow: None,
        on_others=lambda _flow, offset, count: heard.others.append((offset, count)),
        steps=steps,
        tolerant=tolerant,
        on_skipped=lambda _flow, records: heard.skipped.append(records),
        on_failed=lambda _flow, error: heard.failed.append(error),
        in_thread=in_thread,
        on_ready=on_ready,
        on_placed=on_placed,
        computing=computing,
        letters=letters,
    )


def batch(base_offset: int, count: int, size: int | None = None) -> bytes:
    """A batch as a source broker holds it; by default a small one if it has ten records at most, else one of usual size."""
    if size is None:
        size = 10 if count <= SMALL_RECORDS else SMALL_BYTES // count
    content = stamp(build([NewRecord(b"k", bytes(size), 1_000 + n) for n in range(count)]), -1, -1, -1)
    return struct.pack(">q", base_offset) + content[8:]


def compressed(offset: int, size: int) -> bytes:
    """A batch of one record of so many zeros, as zstd."""
    made = build([NewRecord(None, bytes(size), 1_000)])
    made.codec, made.records = ZSTD, compress(ZSTD, made.records)
    return struct.pack(">q", offset) + stamp(made, -1, -1, -1)[8:]


def fetched(
    fetch_offset: int, next_offset: int, *parts: bytes, topic_id: bytes | None = None, epoch: int | None = None
) -> CompletedFetch:
    buffer = memoryview(b"".join(parts))
    epochs = [] if epoch is None else [(fetch_offset, epoch)]
    return CompletedFetch(
        TopicPartition("orders", 0), buffer, fetch_offset, next_offset, next_offset, -1, 0, (), topic_id, epochs
    )


def take(taken_from: PartitionFlow, *, latency_bound: bool = False, append_time: bool = False) -> ProducerBatch | None:
    return taken_from.take(LIMIT, latency_bound=latency_bound, append_time=append_time)


def corrupt(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


def unreadable(base_offset: int) -> bytes:
    """Its CRC is right, but its records are no records."""
    content = batch(base_offset, 1)
    return with_records(content, b"\x01" * (len(content) - HEADER.size))


def as_gzip(offset: int, records: bytes) -> bytes:
    return struct.pack(">q", offset) + stamp(ProducerBatch(records, 2, 0, 1, GZIP, 1_000, 1_000), -1, -1, -1)[8:]
