"""Partitions that the target doesn't take at present, with more to copy than the task may hold: the others go on."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Callable

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.kafka_io.consumer.fetch_state import PartitionFetchState
from mirror_connect.kafka_io.producer import sender
from mirror_connect.kafka_io.protocol.fetch import Fetch, FetchedPartition, FetchPartition, FetchResponse
from mirror_connect.kafka_io.records.batch_builder import build
from mirror_connect.kafka_io.records.record_batch import NewRecord, stamp
from mirror_connect.spark_jobs.tasks import source_commits, source_parts
from tests.fakes.encoded_batches import decode
from tests.fakes.simulated_time import run_simulated
from tests.fakes.source_task import SourceTaskWorld
from tests.fakes.whole_cluster import FakeCluster

NOT_ENOUGH_REPLICAS = 19
BACKLOG = 30
VALUE = random.Random(1).randbytes(20_000)
BUFFER = 1 << 20


async def fetch_in_turn(cluster: FakeCluster, node: int, purpose: str, request: Fetch) -> FetchResponse:
    """As a broker: whole batches, the first of an answer however large, and who had records is asked last next time."""
    if request.session_epoch == 0:
        cluster.sessions[node, purpose] = {}
    session = cluster.sessions[node, purpose]
    for topic, partition, _ in request.forgotten:
        session.pop((topic, partition), None)
    session.update({(wanted.topic, wanted.partition): wanted for wanted in request.partitions})
    for _ in range(max(1, request.max_wait_ms // 2)):
        parts: list[FetchedPartition] = []
        room = request.max_bytes
        for key, wanted in list(session.items()):
            found = whole_batches_of(cluster, key, wanted, room, first=not parts)
            if found or key not in cluster._told:
                cluster._told.add(key)
                log = cluster.logs[key]
                parts.append(FetchedPartition(*key, 0, log.end, -1, log.start, (), -1, memoryview(found)))
                room -= len(found)
            if found:
                session[key] = session.pop(key)
        if parts:
            break
        await asyncio.sleep(0.002)
    return FetchResponse(0, 0, 99, parts, 50 + sum(len(part.records) for part in parts))


def whole_batches_of(
    cluster: FakeCluster, key: tuple[str, int], wanted: FetchPartition, room: int, *, first: bool
) -> bytes:
    found = b""
    for base, count, data in cluster.logs[key].batches:
        if base + count > wanted.offset:
            if len(found) + len(data) > min(room, wanted.max_bytes) and not (first and not found):
                break
            found += data
    return found


class World(SourceTaskWorld):
    """`orders` has partitions of many records that the target doesn't take until `heal`; it takes those of `parcels`."""

    def __init__(self, stalled: int, *, missing: bool) -> None:
        super().__init__()
        self.stalled = stalled
        self._healing: list[Callable[[], None]] = []
        self.source.topic("orders", stalled)
        self.source.topic("parcels")
        self.target.topic("A.parcels")
        if missing:
            self._healing.append(lambda: self.target.topic("A.orders", stalled) and None)
        else:
            self.target.topic("A.orders", stalled)
        for partition in range(stalled):
            for number in range(BACKLOG):
                self.append("orders", partition, number, VALUE)
            if not missing:
                self._refuse(partition)
        self.assigned = [TaskPartition("orders", n, "A.orders") for n in range(stalled)]
        self.assigned.append(TaskPartition("parcels", 0, "A.parcels"))

    def _refuse(self, partition: int) -> None:
        log = self.target.producers.log("A.orders", partition)
        append = log.append
        log.append = lambda _payload, _limit: (NOT_ENOUGH_REPLICAS, -1)  # type: ignore[method-assign]
        self._healing.append(lambda: setattr(log, "append", append))

    def heal(self) -> None:
        for healing in self._healing:
            healing()

    def append(self, topic: str, partition: int, number: int, value: bytes) -> None:
        log = self.source.logs[topic, partition]
        payload = stamp(build([NewRecord(b"%d" % number, value, 0)]), -1, -1, -1)
        log.batches.append((log.end, 1, struct.pack(">q", log.end) + payload[8:]))

    def copied(self, topic: str, partition: int = 0) -> list[int]:
        """The numbers of the records."""
        batches = self.target.logs[topic, partition].batches
        return [int(record.key or b"") for _, _, data in batches for record in decode(data)]


@pytest.mark.parametrize("stalled", [1, 2, 3, 12])
@pytest.mark.parametrize("missing", [False, True], ids=["refused", "without_a_topic"])
def test_others_go_on_beside_partitions_that_are_not_taken_and_these_are_copied_once_later(
    monkeypatch: pytest.MonkeyPatch, stalled: int, missing: bool
) -> None:
    run_simulated(others_go_on(monkeypatch, stalled, missing=missing))


async def others_go_on(monkeypatch: pytest.MonkeyPatch, stalled: int, *, missing: bool) -> None:
    world = World(stalled, missing=missing)
    world.patch(monkeypatch)
    monkeypatch.setattr(FakeCluster, "_fetch", fetch_in_turn)
    monkeypatch.setattr(source_parts, "FETCH_BUFFER", BUFFER)
    monkeypatch.setattr(sender, "STALLED_S", 0.1)
    async with world.running(world.spec_of(world.assigned, {"emit.offset-syncs.enabled": "false"})):
        await asyncio.sleep(1.0)
        async with asyncio.timeout(60):
            for number in range(BACKLOG):
                world.append("parcels", 0, number, VALUE)
                await world.until(lambda copied=number + 1: len(world.copied("A.parcels")) == copied)  # type: ignore[misc]
            await world.until(lambda: len(world.link.problem_lines) == stalled)
        world.heal()
        await world.until(
            lambda: all(len(world.copied("A.orders", partition)) >= BACKLOG for partition in range(stalled))
        )
        await world.until(lambda: world.link.problem_lines == ())
    for partition in range(stalled):
        assert world.copied("A.orders", partition) == list(range(BACKLOG))


@pytest.mark.parametrize("missing", [False, True], ids=["refused", "without_a_leader"])
def test_the_end_of_an_epoch_does_not_wait_for_a_partition_that_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, missing: bool
) -> None:
    run_simulated(epoch_ends(monkeypatch, missing=missing))


async def epoch_ends(monkeypatch: pytest.MonkeyPatch, *, missing: bool) -> None:
    world = World(2, missing=missing)
    if missing:
        world.target.logs["A.orders", 7] = world.target.topic("A.parcels")  # the topic is there, its leaders are not
    world.patch(monkeypatch)
    monkeypatch.setattr(FakeCluster, "_fetch", fetch_in_turn)
    monkeypatch.setattr(sender, "STALLED_S", 0.1)
    async with world.running(world.spec_of(world.assigned, {"emit.offset-syncs.enabled": "false"})):
        world.append("parcels", 0, 0, VALUE)
        await world.until(lambda: world.copied("A.parcels") == [0])
        await asyncio.sleep(0.5)
        world.link.end_epoch()
        async with asyncio.timeout(source_commits.EPOCH_SETTLE_S / 3):
            await world.task
        assert world.link.committed


def test_a_size_that_has_become_too_large_is_not_asked_for_again() -> None:
    work = PartitionFetchState(TopicPartition("orders", 0), 0)
    assert work.wanted(0, 1000).max_bytes == 1000
    assert work.wanted(0, 500).max_bytes == 500
    assert work.wanted(0, 1000).max_bytes == 500
