"""A source task with partitions that can't continue: what its status shows, and that the others continue."""

from __future__ import annotations

import asyncio
import json
from contextlib import AbstractAsyncContextManager
from types import SimpleNamespace
from typing import cast

import pytest

from mirror_connect.connectors import problems
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problems
from mirror_connect.connectors.record_errors import OriginalRecord, RecordError
from mirror_connect.connectors.task_protocol import RUNNING, TaskPartition
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.producer import sender
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.kafka_io.records import record_rewrite
from mirror_connect.kafka_io.records.record_batch import LOG_APPEND_TIME
from mirror_connect.spark_jobs.copy import dead_letters, stalled_partitions
from mirror_connect.spark_jobs.copy.dead_letters import DeadLetters, FlowLetters
from mirror_connect.spark_jobs.copy.stalled_partitions import StalledPartitions
from mirror_connect.spark_jobs.tasks import connecting
from tests.fakes.encoded_batches import Plain, encode
from tests.fakes.partition_flows import Heard, batch, fetched, flow
from tests.fakes.source_task import OFFSETS, SourceTaskWorld

SMALL, LARGE = (b"k", b"v"), (b"k", b"v" * 40)
LIMIT = 100


class World(SourceTaskWorld):
    """`orders` and `parcels` on the source; the target takes batches up to LIMIT bytes."""

    def __init__(self) -> None:
        super().__init__()
        for topic in ("orders", "parcels"):
            self.source.topic(topic)
            self.target.topic(f"A.{topic}")
        self.target.producers.limit = LIMIT

    def copying(self, *topics: str, **config: str) -> AbstractAsyncContextManager[None]:
        given = {name.replace("_", "."): value for name, value in config.items()}
        assigned = [TaskPartition(topic, 0, f"A.{topic}") for topic in topics]
        # Short values of positions fit into a batch, whatever its limit is.
        return self.running(self.spec_of(assigned, {"emit.offset-syncs.enabled": "false", **given}))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    made.patch(monkeypatch)
    monkeypatch.setattr(connecting, "CONNECT_WAIT_S", 0.01)
    monkeypatch.setattr(problems, "SHOWN_AFTER_S", 0.0)
    monkeypatch.setattr(stalled_partitions, "RETRY_S", 0.01)
    monkeypatch.setattr(stalled_partitions, "RETRY_MAX_S", 0.02)
    # The topic of positions takes anything.
    log = made.target.producers.log("connect-offsets", 0)
    append = log.append
    monkeypatch.setattr(log, "append", lambda payload, _limit: append(payload, 1 << 20), raising=False)
    return made


async def test_a_refused_record_stops_its_partition_alone_and_the_status_says_what_to_set(world: World) -> None:
    world.source.put("orders", SMALL, LARGE, SMALL)
    async with world.copying("orders", "parcels"):
        await world.until(lambda: bool(world.link.problem_lines))
        world.source.put("parcels", SMALL, SMALL)
        await world.until(lambda: len(world.target.records("A.parcels")) == 2)
        (line,) = world.link.problem_lines
        assert line.startswith("orders-0 is stalled at offset 1: ")
        assert "raise max.message.bytes of topic A.orders" in line


async def test_a_refused_record_is_copied_once_when_the_target_takes_it_and_nothing_around_it_twice(
    world: World,
) -> None:
    records = [SMALL, SMALL, LARGE, SMALL, LARGE, SMALL]
    world.source.put("orders", *records)
    async with world.copying("orders", "parcels"):
        await world.until(lambda: bool(world.link.problem_lines))
        world.target.producers.limit = 1 << 20
        await world.until(
            lambda: world.link.problem_lines == () and len(world.target.records("A.orders")) >= len(records)
        )
        world.source.put("orders", SMALL)
        await world.until(lambda: len(world.target.records("A.orders")) > len(records))
    assert world.target.records("A.orders") == [*records, SMALL]


async def test_a_refusal_is_logged_once_however_often_it_is_tried(world: World) -> None:
    world.source.put("orders", LARGE)
    async with world.copying("orders", "parcels"):
        await world.until(lambda: bool(world.link.problem_lines))
        tried = len(world.target.producers.requests)
        await world.until(lambda: len(world.target.producers.requests) > tried + 3)
    assert len([line for line in world.link.log_lines if "is stalled" in line]) == 1


async def test_the_line_of_a_refused_record_says_what_the_target_takes_and_how_to_give_the_record_up(
    world: World,
) -> None:
    world.source.put("orders", LARGE)
    async with world.copying("orders", "parcels"):
        await world.until(lambda: bool(world.link.problem_lines))
        (line,) = world.link.problem_lines
    assert "max.message.bytes of topic A.orders on the target, now 100 " in line
    assert line.endswith("or give the record up with on.oversize.record=skip")


async def test_a_refused_record_is_skipped_if_that_is_asked_for_and_the_log_names_it(world: World) -> None:
    world.source.put("orders", SMALL, LARGE, SMALL)
    async with world.copying("orders", on_oversize_record="skip"):
        await world.until(lambda: len(world.target.records("A.orders")) == 2)
        (line,) = world.link.event_lines
        assert world.link.problem_lines == ()
    assert line.startswith("orders-0: the record at offset 1 is skipped: it has ")
    assert "more than topic A.orders on the target takes (max.message.bytes=100)" in line
    assert line.endswith("reading continues at 2")


async def test_every_refused_record_is_skipped_and_counted_and_all_others_are_copied_once(world: World) -> None:
    records = [(b"%d" % number, b"v" * (40 if number % 3 else 1)) for number in range(30)]
    world.source.put("orders", *records)
    async with world.copying("orders", on_oversize_record="skip"):
        await world.until(lambda: world.link.counters.get("skipped", 0) == 20)
        world.source.put("orders", (b"last", b"v"))
        await world.until(lambda: (b"last", b"v") in world.target.records("A.orders"))
    assert world.target.records("A.orders") == [*records[::3], (b"last", b"v")]


async def test_the_position_of_a_partition_whose_last_record_was_skipped_is_behind_it(world: World) -> None:
    world.source.put("orders", SMALL, LARGE)
    async with world.copying("orders", on_oversize_record="skip"):
        await world.until(lambda: world.link.counters.get("skipped", 0) == 1)
        world.link.finish()
        await world.task
    assert world.target.records("connect-offsets")[-1][1] == b'{"offset":1}'


async def test_a_task_of_which_every_partition_is_refused_fails_with_their_lines(world: World) -> None:
    for topic in ("orders", "parcels"):
        world.source.put(topic, LARGE)
    async with world.copying("orders", "parcels"):
        with pytest.raises(PartitionRefusedError) as failed:
            await world.until(lambda: False)
    assert [line.split(" ")[0] for line in str(failed.value).splitlines()] == ["orders-0", "parcels-0", "All"]


async def test_a_partition_that_its_source_does_not_have_is_in_the_status_until_it_is_there(world: World) -> None:
    async with world.copying("orders", "letters"):
        await world.until(lambda: bool(world.link.problem_lines))
        assert "letters-0 does not exist on the source cluster" in world.link.problem_lines[0]
        world.target.topic("A.letters")
        world.source.topic("letters")
        world.source.put("letters", SMALL)
        await world.until(lambda: world.link.problem_lines == () and len(world.target.records("A.letters")) == 1)


def damage(world: World, number: int) -> None:
    """Changes a byte of a batch's records on the source."""
    batches = world.source.logs["orders", 0].batches
    base, count, content = batches[number]
    batches[number] = (base, count, content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])


@pytest.fixture
def damaged(world: World) -> World:
    """Five records, of which the third is corrupt."""
    world.source.put("orders", *[(b"%d" % number, b"v") for number in range(5)])
    damage(world, 2)
    return world


async def test_a_corrupt_batch_is_waited_for_and_the_status_says_how_to_give_it_up(damaged: World) -> None:
    async with damaged.copying("orders"):
        await damaged.until(lambda: bool(damaged.link.problem_lines))
        assert damaged.link.problem_lines[0].endswith("To give its records up, set on.corrupt.batch=skip")
    assert [key for key, _ in damaged.target.records("A.orders")] == [b"0", b"1"]


async def test_a_corrupt_batch_is_skipped_if_that_is_asked_for_and_its_offsets_are_told(damaged: World) -> None:
    async with damaged.copying("orders", on_corrupt_batch="skip"):
        await damaged.until(lambda: len(damaged.target.records("A.orders")) == 4 and damaged.link.problem_lines == ())
    assert [key for key, _ in damaged.target.records("A.orders")] == [b"0", b"1", b"3", b"4"]
    (line,) = damaged.link.event_lines
    assert line.startswith("orders-0: 1 offset skipped at offset 2, their batch is corrupt")
    assert line.endswith("reading continues at 3")


async def test_a_batch_that_is_corrupt_in_a_later_piece_is_told_once_however_often_it_is_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_rewrite, "REWRITTEN_RECORDS", 3)
    # Nine records of ten are there: the first two pieces can be copied, the third can't.
    records = [Plain(number, 0, b"%d" % number, b"v", ()) for number in range(9)]
    batch = encode(records, attributes=LOG_APPEND_TIME, count=10, last_delta=9)
    log = world.source.logs["orders", 0]
    log.batches.append((0, 10, batch))
    async with world.copying("orders", "parcels"):
        await world.until(lambda: bool(world.link.problem_lines) and len(world.target.records("A.orders")) == 6)
        fetches = world.source.fetched
        await world.until(lambda: world.source.fetched > fetches + 5)
        (line,) = world.link.problem_lines
        log.batches[0] = (0, 10, encode([*records, Plain(9, 0, b"9", b"v", ())], attributes=LOG_APPEND_TIME))
        await world.until(lambda: world.link.problem_lines == () and len(world.target.records("A.orders")) == 10)
    assert line.startswith("orders-0 is stalled at offset 6: its batch is corrupt")
    assert [each for each in world.link.log_lines if each.startswith("orders-0 ")] == [
        line,
        "orders-0 continues after offset 6",
    ]


async def test_what_a_refused_record_decides_waits_for_the_targets_limit_and_nothing_takes_it_up_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The corrupt batch behind it is seen first, and looked at again and again.
    records = [LARGE, *[(b"%d" % number, b"v") for number in range(1, 5)]]
    world.source.put("orders", *records)
    whole = list(world.source.logs["orders", 0].batches)
    damage(world, 1)
    asked, answer = asyncio.Event(), asyncio.Event()
    largest = stalled_partitions.largest_message

    async def slowly(target: Cluster, topic: str) -> int | None:
        asked.set()
        await answer.wait()
        return await largest(target, topic)

    monkeypatch.setattr(stalled_partitions, "largest_message", slowly)
    async with world.copying("orders", "parcels", on_oversize_record="skip"):
        await world.until(asked.is_set)
        world.source.logs["orders", 0].batches[:] = whole
        world.target.producers.limit = 1 << 20
        await asyncio.sleep(0.3)  # ten times as long as it takes to look again
        answer.set()
        await world.until(lambda: len(world.target.records("A.orders")) >= 4)
        world.source.put("orders", SMALL)
        await world.until(lambda: SMALL in world.target.records("A.orders"))
    assert world.target.records("A.orders") == [*records[1:], SMALL]
    assert (world.link.counters["skipped"], len(world.link.event_lines)) == (1, 1)


async def test_a_missing_right_to_the_transactional_id_is_a_line_while_records_are_copied(world: World) -> None:
    world.target.producers.transactional_id_error = 53
    world.source.put("orders", SMALL)
    async with world.copying("orders"):
        await world.until(lambda: bool(world.link.problem_lines) and len(world.target.records("A.orders")) == 1)
        (line,) = world.link.problem_lines
    assert line.startswith("Not authorized to use the transactional id ")
    assert "grant WRITE and DESCRIBE on transactional id " in line
    assert line in world.link.log_lines


@pytest.mark.parametrize("side", ["source", "target"])
async def test_a_cluster_that_is_away_is_a_line_with_its_address_until_it_is_back(world: World, side: str) -> None:
    broker = world.source if side == "source" else world.target
    world.source.put("orders", SMALL)
    async with world.copying("orders"):
        await world.until(lambda: len(world.target.records("A.orders")) == 1)
        broker.away = True
        world.source.put("orders", SMALL)
        await world.until(lambda: any(f"The {side} cluster" in line for line in world.link.problem_lines))
        (line,) = world.link.problem_lines
        broker.away = False
        await world.until(lambda: world.link.problem_lines == () and len(world.target.records("A.orders")) == 2)
    name, bootstrap = ("A", "a") if side == "source" else ("B", "b")
    assert line.startswith(f"The {side} cluster {name} (bootstrap.servers {bootstrap}) can't be reached since ")
    assert line.endswith(": no broker answers at fake:1; it is tried again until it answers")


@pytest.mark.parametrize("side", ["source", "target"])
async def test_a_cluster_that_is_away_at_the_start_is_a_line_until_it_is_there(world: World, side: str) -> None:
    broker = world.source if side == "source" else world.target
    broker.away = True
    world.source.put("orders", SMALL)
    async with world.copying("orders"):
        await world.until(lambda: bool(world.link.problem_lines) and world.link.state == RUNNING)
        (line,) = world.link.problem_lines
        broker.away = False
        await world.until(lambda: world.link.problem_lines == () and len(world.target.records("A.orders")) == 1)
    assert line.startswith(f"The {side} cluster ")


LETTERS = {
    "emit.offset-syncs.enabled": "false",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "transforms": "mask",
    "transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Value",
    "transforms.mask.fields": "card",
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": "letters",
}
GOOD, MASKED, BAD = (b"k", b'{"card":"4"}'), (b"k", b'{"card":""}'), (b"k", b"no JSON")


def positions(world: World) -> dict[str, int]:
    """The committed source offset of each topic."""
    return {json.loads(key)[1]["topic"]: json.loads(value)["offset"] for key, value in world.target.records(OFFSETS)}


@pytest.mark.parametrize("partition_bytes", [1, 1 << 20])
async def test_a_dead_letter_topic_that_is_not_there_holds_back_its_partitions_alone(
    partition_bytes: int, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "STALLED_S", 0.05)
    monkeypatch.setattr(dead_letters, "PARTITION_BYTES", partition_bytes)
    world.target.producers.limit = 1 << 20
    world.source.put("orders", GOOD, BAD, GOOD)
    assigned = [TaskPartition(topic, 0, f"A.{topic}") for topic in ("orders", "parcels")]
    async with world.running(world.spec_of(assigned, LETTERS)):
        await world.until(lambda: any("letters" in line for line in world.link.problem_lines))
        for _ in range(3):
            world.source.put("orders", GOOD, BAD)
            world.source.put("parcels", GOOD)
            await asyncio.sleep(0.05)
        await world.until(lambda: len(world.target.records("A.parcels")) == 3)
        assert positions(world)["orders"] == 0
        world.target.topic("letters")
        await world.until(lambda: len(world.target.records("letters")) == 4)
        await world.until(lambda: positions(world) == {"orders": 8, "parcels": 2})
        await world.until(lambda: world.link.problem_lines == ())
    assert world.target.records("A.orders") == [MASKED] * 5
    assert world.target.records("letters") == [BAD] * 4


def test_what_waits_for_dead_letters_is_given_back_and_fetched_again_when_they_are_written() -> None:
    source = TopicPartition("orders", 0)
    removed, added = [], []
    fetcher = SimpleNamespace(remove=removed.append, add=lambda *place: added.append(place[:2]))
    writer = SimpleNamespace(full=lambda _: True, send=lambda _group, _errors: None, stalled=True)
    letters = FlowLetters(cast("DeadLetters", writer), source)
    made = flow(Heard(), 0, letters=letters)
    some = fetched(0, 10, batch(0, 10))
    made.put(some)
    stalled = StalledPartitions(
        {source: made},
        {},
        fetcher,  # type: ignore[arg-type]
        SimpleNamespace(troubled=True),  # type: ignore[arg-type]
        SimpleNamespace(),  # type: ignore[arg-type]
        problems=Problems(print),
        target=cast("Cluster", None),
        target_unreachable="B",
        skips_corrupt=False,
        skips_oversize=False,
        letters=cast("DeadLetters", writer),
    )
    # A partition without letters goes on.
    stalled.give_back()
    assert (removed, made.stopped) == ([], False)
    letters.add([RecordError(0, "mask", "no JSON", original=OriginalRecord(1, b"x"))])
    letters.release(1)
    stalled.give_back()
    assert (removed, made.stopped) == ([source], True)
    stalled.acknowledged(made)
    assert (added, made.stopped) == ([(source, 0)], False)
