"""A flow whose records are transformed: every batch is re-encoded, and offsets count as copied where all was dropped."""

from __future__ import annotations

import random

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from mirror_connect.connectors.record_steps import Action, Condition, Step, Steps
from mirror_connect.kafka_io.records.record_batch import ProducerBatch
from mirror_connect.spark_jobs.copy.partition_flow import PartitionFlow
from tests.fakes.encoded_batches import CODECS, HEADER, Plain, encode, some_records, with_records
from tests.fakes.partition_flows import LIMIT, Heard, fetched, flow
from tests.fakes.rewritten_batches import offsets_of, records_of

NO_TOMBSTONES: Steps = (Step(Action.FILTER, Condition.IS_TOMBSTONE),)
NOTHING: Steps = (Step(Action.FILTER),)
ADDED: Steps = (Step(Action.INSERT_HEADER, headers=(b"from",), value=b"A"),)


def take_all(made: PartitionFlow, *, latency_bound: bool = False) -> list[ProducerBatch]:
    found = []
    while (batch := made.take(LIMIT, latency_bound=latency_bound, append_time=False)) is not None:
        found.append(batch)
    return found


@pytest.mark.parametrize("latency_bound", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_many_batches_arrive_transformed_and_in_order(seed: int, *, latency_bound: bool) -> None:
    chance = random.Random(seed)
    records: list[Plain] = []
    batches = []
    for _ in range(30):
        some = some_records(chance.randrange(1 << 30), chance.choice([1, 2, 9, 40]), first=len(records), size=30)
        records += some
        batches.append(encode(some, chance.choice([*CODECS.values(), 0, 0, 0])))
    made = flow(Heard(), 0, steps=(*NO_TOMBSTONES, *ADDED))
    made.put(fetched(0, len(records), *batches))
    wanted = [each._replace(headers=(*each.headers, ("from", b"A"))) for each in records if each.value is not None]
    got: list[Plain] = []
    offsets: list[int] = []
    base = 0
    for batch in take_all(made, latency_bound=latency_bound):
        got += records_of(batch)
        offsets += offsets_of(batch)
        made.acked(batch, base)
        base += batch.count
    assert [each.content for each in got] == [each.content for each in wanted]
    assert offsets == [each.offset for each in wanted]
    assert made.source_offset == len(records) - 1
    assert made.measures.totals.filtered == len(records) - len(wanted)


@pytest.mark.parametrize("magic", [0, 1])
def test_records_of_old_message_sets_count_as_filtered(magic: int) -> None:
    made = flow(Heard(), 0, steps=NOTHING)
    old = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
    for number in range(3):
        old.append(number, timestamp=1, key=None, value=b"v")
    made.put(fetched(0, 3, bytes(old.build())))
    assert (take_all(made), made.measures.totals.filtered) == ([], 3)


def test_a_batch_of_which_nothing_is_left_counts_as_copied() -> None:
    made = flow(Heard(), 0, steps=NOTHING)
    made.put(fetched(0, 20, encode(some_records(1, 10)), encode(some_records(2, 10, first=10))))
    assert take_all(made) == []
    assert made.source_offset == 19


def test_what_follows_a_dropped_batch_waits_for_its_own_acknowledgement() -> None:
    made = flow(Heard(), 0, steps=NO_TOMBSTONES)
    gone = [each._replace(value=None) for each in some_records(1, 10)]
    stays = [each._replace(value=b"v") for each in some_records(2, 10, first=10)]
    made.put(fetched(0, 20, encode(gone), encode(stays)))
    (batch,) = take_all(made)
    assert made.source_offset == 9
    made.acked(batch, 0)
    assert made.source_offset == 19


def test_a_batch_whose_headers_cannot_be_read_stops_the_partition() -> None:
    broken = encode([Plain(0, 0, b"k", b"v", ())])
    heard = Heard()
    made = flow(heard, 0, steps=ADDED)
    # Its last byte is the number of its headers: -1.
    made.put(fetched(0, 1, with_records(broken, broken[HEADER.size : -1] + b"\x01")))
    assert take_all(made) == []
    assert [error.reason for error in heard.corrupt] == ["a record in it has -1 headers"]
    assert made.source_offset == -1
