"""Dead letters of a flow: as the source has them, in their turn, and before the source offset. The model has the rest."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from mirror_connect.connectors.json_steps.fields import MaskField
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.record_errors import OriginalRecord, RecordError
from mirror_connect.connectors.record_steps import Action, JsonStep, Part, Step, Steps
from mirror_connect.connectors.records.partitioner import partition_for
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.kafka_io.records.record_batch import LOG_APPEND_TIME
from mirror_connect.spark_jobs.copy import dead_letters
from mirror_connect.spark_jobs.copy.dead_letters import DeadLetters, FlowLetters
from mirror_connect.spark_jobs.copy.letter_context import as_it_was
from mirror_connect.spark_jobs.copy.partition_flow import PartitionFlow
from mirror_connect.spark_jobs.copy.record_failures import ErrorCounts
from tests.fakes.encoded_batches import CODECS, Plain, decode, encode
from tests.fakes.partition_flows import LIMIT, Heard, fetched, flow
from tests.fakes.producer_rig import Rig, until
from tests.fakes.target_cluster import FakeTarget

ORDERS = TopicPartition("orders", 0)
# The first step changes what the second one can't take: a letter has neither's change.
STEPS: Steps = (
    Step(Action.INSERT_HEADER, headers=(b"seen",), value=b"1"),
    JsonStep("key", Part.KEY, MaskField(("secret",))),
    JsonStep("mask", Part.VALUE, MaskField(("card",))),
)
GOOD = b'{"card": "4111"}'


def plain(offset: int, value: bytes | None, key: bytes | None = b'{"secret": 1}') -> Plain:
    return Plain(offset, 1_000 + offset, key, value, (("a", None), ("a", b"x" * offset)))


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig(FakeTarget())
    await made.producer.start()
    yield made
    await made.producer.close()


def letters_of(rig: Rig) -> DeadLetters:
    return DeadLetters(rig.producer, "letters", as_it_was, ErrorCounts())


def a_flow(letters: FlowLetters) -> PartitionFlow:
    return flow(Heard(), 0, steps=STEPS, tolerant=True, letters=letters)


def written(rig: Rig, partition: int = 0, topic: str = "letters") -> list[Plain]:
    return [each for batch in rig.target.log(topic, partition).batches for each in decode(batch.payload)]


@pytest.mark.parametrize("codec", list(CODECS))
async def test_they_are_as_the_source_has_them(rig: Rig, codec: str) -> None:
    records = [plain(offset, GOOD if offset % 3 else b"%d no JSON" % offset) for offset in range(20)]
    records[9] = plain(9, b"", key=None)
    records[12] = plain(12, b"[]", key=b"no JSON")
    letters = letters_of(rig)
    made = a_flow(letters.of(ORDERS))
    made.put(fetched(0, 20, encode(records, CODECS[codec])))
    batch = made.take(LIMIT, latency_bound=False, append_time=False)
    assert batch is not None
    made.acked(batch, 0)
    await letters.all_acked()
    bad = [each for each in records if each.offset % 3 == 0]
    assert [each[1:] for each in written(rig)] == [each[1:] for each in bad]
    assert letters.counts.letters == len(bad)
    assert made.source_offset == 19


async def test_times_are_those_that_a_consumer_of_the_source_sees(rig: Rig) -> None:
    letters = letters_of(rig)
    made = a_flow(letters.of(ORDERS))
    old = LegacyRecordBatchBuilder(1, 0, 1 << 20)
    old.append(1, 777, b"no JSON", b"x")
    stamped = encode([plain(0, b"x")], attributes=LOG_APPEND_TIME, max_timestamp=9_999)
    made.put(fetched(0, 2, stamped, bytes(old.build())))
    assert made.take(LIMIT, latency_bound=False, append_time=False) is None
    await letters.all_acked()
    assert [(each.timestamp, each.value) for each in written(rig)] == [(9_999, b"x"), (777, b"x")]


async def test_a_letter_waits_for_what_is_before_it_and_the_source_offset_for_the_letter(rig: Rig) -> None:
    letters = letters_of(rig)
    of_flow = letters.of(ORDERS)
    made = a_flow(of_flow)
    made.put(fetched(0, 6, encode([plain(0, GOOD), plain(1, b"x"), plain(2, GOOD)]), encode([plain(3, b"y")])))
    first = made.take(LIMIT, latency_bound=False, append_time=False)
    assert first is not None
    assert made.take(LIMIT, latency_bound=False, append_time=False) is None
    assert not of_flow.sent
    assert made.source_offset == -1
    # Another topic of that name would begin only when these are on the target.
    made.acked(first, 0)
    assert of_flow.sent
    assert made.source_offset == 0
    await letters.all_acked()
    assert [each.value for each in written(rig)] == [b"x", b"y"]
    # What was fetched covers offsets up to 5.
    assert made.source_offset in (3, 5)


async def test_letters_of_records_that_are_read_again_are_not_sent_before(rig: Rig) -> None:
    letters = letters_of(rig)
    of_flow = letters.of(ORDERS)
    made = a_flow(of_flow)
    made.put(fetched(0, 3, encode([plain(0, GOOD), plain(1, b"x"), plain(2, GOOD)])))
    assert made.take(LIMIT, latency_bound=False, append_time=False) is not None
    made.failed(PartitionRefusedError("no", 0))
    assert not of_flow
    assert made.source_offset == -1
    assert made.restart() == 0
    assert not rig.target.log("letters", 0).batches


async def test_a_partition_with_many_is_read_on_when_the_target_has_some(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "PARTITION_BYTES", 2_000)
    ready: list[PartitionFlow] = []
    letters = letters_of(rig)
    made = flow(Heard(), 0, steps=STEPS, tolerant=True, letters=letters.of(ORDERS), on_ready=ready.append)
    bad = [encode([plain(offset, b"x" * 900)]) for offset in range(10)]
    made.put(fetched(0, 10, *bad))
    assert made.take(LIMIT, latency_bound=False, append_time=False) is None
    assert made.next_offset == 3
    assert not made.waiting()
    await until(lambda: ready)
    while made.waiting():
        assert made.take(LIMIT, latency_bound=False, append_time=False) is None
        await letters.all_acked()
    assert len(written(rig)) == 10
    assert made.source_offset == 9


async def test_one_that_the_topic_does_not_take_ends_the_task_and_names_its_record(rig: Rig) -> None:
    rig.target.limit = 2_000
    letters = letters_of(rig)
    made = a_flow(letters.of(ORDERS))
    made.put(fetched(0, 3, encode([plain(0, b"x"), plain(1, b"y" * 5_000), plain(2, b"z")])))
    assert made.take(LIMIT, latency_bound=False, append_time=False) is None
    with pytest.raises(PartitionRefusedError) as raised:
        async with asyncio.timeout(10):
            await letters.failure
    text = str(raised.value)
    assert text.startswith(
        "orders, partition 0, offset 1: the dead letter topic letters refuses the record, which has "
    )
    assert "max.message.bytes of topic letters" in text
    assert letters.counts.failed_letters == 1
    # The source offset never passes it.
    assert made.source_offset < 1


async def test_keys_choose_the_partition_as_kafkas_producer_does(rig: Rig) -> None:
    letters = letters_of(rig)
    letters.know_partitions(4)
    made = a_flow(letters.of(ORDERS))
    records = [plain(offset, b"x", key=b"%d" % offset if offset % 4 else None) for offset in range(12)]
    made.put(fetched(0, 12, encode(records)))
    assert made.take(LIMIT, latency_bound=False, append_time=False) is None
    await letters.all_acked()
    for number in range(4):
        for each in written(rig, number):
            assert each.key is None or partition_for(each.key, 4) == number
    assert sum(len(written(rig, number)) for number in range(4)) == 12


async def test_nothing_of_a_partition_that_was_given_away_is_sent_later(rig: Rig) -> None:
    rig.leased = False
    letters = letters_of(rig)
    of_flow, others = letters.of(ORDERS), letters.of(TopicPartition("orders", 1))
    for each in (of_flow, others):
        each.add([RecordError(7, "mask", "x", original=OriginalRecord(1, json.dumps(each is others).encode()))])
        each.release(8)
    of_flow.drop()
    rig.leased = True
    await letters.all_acked()
    assert letters.bytes == 0
    assert rig.target.log("letters", 0).end == 1
