"""Batches as they are rewritten, read back by aiokafka."""

from __future__ import annotations

import pytest

from mirror_connect.kafka_io.records import varint
from mirror_connect.kafka_io.records.record_batch import (
    BatchView,
    ProducerBatch,
    split_fetch,
    stamp,
    verify,
)
from mirror_connect.kafka_io.records.record_rewrite import rewrite
from tests.fakes.encoded_batches import CODECS, Plain, decode

LOG_APPEND_TIME, DELETE_HORIZON = 0x08, 0x40

every_codec = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS.keys())

seeds = pytest.mark.parametrize("seed", range(6))


def only(batch: bytes) -> BatchView:
    (view,) = split_fetch(batch)
    verify(view)
    return view


def rewritten(batch: bytes, from_offset: int) -> ProducerBatch:
    (producer_batch,) = rewrite(only(batch), from_offset)
    return producer_batch


def records_of(producer_batch: ProducerBatch) -> list[Plain]:
    """As a target's consumer gets them; dense from offset 0, or the target would refuse the batch."""
    records = decode(stamp(producer_batch, 1, 0, 0))
    assert [record.offset for record in records] == list(range(producer_batch.count))
    return records


def offsets_of(producer_batch: ProducerBatch) -> list[int]:
    runs = producer_batch.upstream_offsets or ((producer_batch.first_offset, producer_batch.count),)
    return [offset for first, count in runs for offset in range(first, first + count)]


def encoded_record(
    length: int | None = None, timestamp: int = 0, offset: int = 0, rest: bytes = b"\x01\x01\x00"
) -> bytes:
    body = b"\x00" + varint.encode(timestamp) + varint.encode(offset) + rest
    return varint.encode(len(body) if length is None else length) + body
