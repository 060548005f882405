"""Rows of several pieces at once: the same as those of each piece alone."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.records.record_batch import ProducerBatch, split_fetch
from mirror_connect.kafka_io.records.record_rewrite import rewrite
from mirror_connect.spark_jobs.compute import arrow_rows
from mirror_connect.spark_jobs.compute.arrow_rows import ReadPiece, Rows
from tests.fakes.encoded_batches import encode, some_records

COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers", "processed_at", "secrets")


def pieces(seed: int) -> list[tuple[ProducerBatch, TopicPartition, int]]:
    """Of some topics and sizes, neighbours of one topic among them."""
    chance = random.Random(seed)
    found = []
    for number in range(chance.randint(1, 12)):
        count = chance.choice([1, 1, 2, 50, 51, 120])
        (view,) = split_fetch(encode(some_records(seed * 100 + number, count, gaps=chance.random() < 0.3)))
        (piece,) = rewrite(view, 0, (), lambda _: None, None)
        found.append((piece, TopicPartition(chance.choice("ab"), chance.randrange(3)), chance.randrange(1 << 50)))
    return found


@pytest.mark.parametrize("seed", range(60))
def test_rows_of_pieces_together_are_those_of_each_alone(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows(COLUMNS, ("PEPPER",), ("value",))
    rows.know({"PEPPER": "größe"})
    read: list[ReadPiece] = [rows.read(*each) for each in pieces(seed)]
    together = rows.of(read, 1_000)
    together.validate(full=True)
    # Each alone, and by the way of many records.
    monkeypatch.setattr(arrow_rows, "_FEW", 0)
    alone, first = [], 1_000
    for each in read:
        alone.append(rows.of([each], first))
        first += each.count
    assert together.equals(pa.Table.from_batches(alone).combine_chunks().to_batches()[0])
    assert together.num_rows == first - 1_000
