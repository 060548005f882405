"""What the tests of a running source task share: producing, reading back by librdkafka, and the task itself."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import struct
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from confluent_kafka import Message, Producer

from deploy.local import LocalCluster
from mirror_connect.connectors.records.source_offsets import (
    parse_source_offset_headers,
    parse_source_offset_key,
    parse_source_offset_value,
)
from mirror_connect.connectors.records.topic_ids import topic_id_text
from mirror_connect.connectors.task_protocol import TaskPartition, TaskSpec
from mirror_connect.spark_jobs.tasks.mirror_source import run_source_task
from mirror_connect.spark_jobs.tasks.registry import TaskFunction
from tests import brokers
from tests.fakes.source_spec import OFFSETS as OFFSETS_TOPIC
from tests.fakes.source_spec import WITHOUT_SYNCS, source_spec
from tests.fakes.worker_link import FakeWorkerLink, Stored
from tests.waiting import PROLONGED

OFFSETS_PARTITIONS = 5
_names = itertools.count()
_HEADER = struct.Struct(">qiibIhiqqqhii")


class Record(NamedTuple):
    """A record as librdkafka gives it."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: tuple[int, int]


def fresh_topic(prefix: str = "t") -> str:
    """A name no other test uses."""
    return f"{prefix}-{next(_names)}-{uuid.uuid4().hex[:6]}"


def produce(
    cluster: LocalCluster,
    topic: str,
    records: Sequence[Mapping[str, Any]],
    *,
    at_once: int | None = None,
    **settings: Any,
) -> None:
    """Produces keyword arguments of Producer.produce, and waits for the acknowledgements.

    `at_once`: it waits after so many records. With one batch out at a time, records keep their order. librdkafka's
    max.in.flight of 1 does not keep it: the batch behind a refused one goes before that one goes again.
    """
    refused: list[str] = []
    told = {"delivery.report.only.error": True, "on_delivery": lambda error, _: refused.append(error.str())}
    producer = Producer({**cluster.librdkafka(), "linger.ms": 5, **told, **settings})
    for number, record in enumerate(records, 1):
        while True:
            try:
                producer.produce(topic, **record)
                break
            except BufferError:
                producer.poll(0.05)
        if at_once and number % at_once == 0:
            assert producer.flush(60) == 0
    assert (producer.flush(60), refused[:3]) == (0, [])


def read(cluster: LocalCluster, topic: str, *, isolation: str = "read_uncommitted") -> list[Record]:
    """Every record of a topic in partition order, from the beginning to the present end."""
    return [_record(message) for message in messages(cluster, topic, isolation=isolation)]


def messages(cluster: LocalCluster, topic: str, *, isolation: str = "read_uncommitted") -> Iterator[Message]:
    """The same as librdkafka's messages."""
    for partition in sorted(cluster.admin().list_topics(topic, timeout=60).topics[topic].partitions):
        yield from brokers.messages(cluster, topic, partition, isolation=isolation)


def _record(message: Message) -> Record:
    headers = tuple((name, value) for name, value in message.headers() or ())
    return Record(message.partition(), message.key(), message.value(), headers, message.timestamp())


def batches(cluster: LocalCluster, topic: str, partition: int) -> list[tuple[int, int, bytes]]:
    """(attributes, record count, everything behind the header) of each batch, from the broker's own segment files."""
    while True:
        # While the cleaner swaps a file in, the file that was listed is gone.
        with contextlib.suppress(FileNotFoundError):
            return _present_batches(cluster, topic, partition)


def _present_batches(cluster: LocalCluster, topic: str, partition: int) -> list[tuple[int, int, bytes]]:
    found = []
    for segment in sorted(cluster.partition_directory(topic, partition).glob("*.log")):
        content, at = segment.read_bytes(), 0
        while at + _HEADER.size <= len(content):
            fields = _HEADER.unpack_from(content, at)
            length = fields[1] + 12
            if length <= 12:
                break
            found.append((fields[5], fields[12], content[at + _HEADER.size : at + length]))
            at += length
    return found


def stored_offsets(
    cluster: LocalCluster, connector: str, offsets_topic: str = OFFSETS_TOPIC
) -> dict[tuple[str, int], int]:
    """What connect-offsets says of a connector: (topic, partition) → last replicated offset."""
    return {key: offset for key, (offset, _) in positions_with_ids(cluster, connector, offsets_topic).items()}


def positions_with_ids(
    cluster: LocalCluster, connector: str, offsets_topic: str = OFFSETS_TOPIC
) -> dict[tuple[str, int], tuple[int, str | None]]:
    """The same, with the id of the topic that each is of, as Kafka's tools print it."""
    found = positions_with_origins(cluster, connector, offsets_topic)
    return {key: (offset, topic_id) for key, (offset, topic_id, _) in found.items()}


def positions_with_origins(
    cluster: LocalCluster, connector: str, offsets_topic: str = OFFSETS_TOPIC
) -> dict[tuple[str, int], tuple[int, str | None, int]]:
    """The same, with the leader epoch of each position's record besides, -1 where none is told."""
    found: dict[tuple[str, int], tuple[int, str | None, int]] = {}
    for message in messages(cluster, offsets_topic, isolation="read_committed"):
        key, offset = parse_source_offset_key(message.key()), parse_source_offset_value(message.value())
        if key is not None and key.connector == connector and offset is not None:
            topic_id, epoch = parse_source_offset_headers(message.headers() or ())
            found[key.topic, key.partition] = (offset, None if topic_id is None else topic_id_text(topic_id), epoch)
    return found


def spec_for(
    source: LocalCluster,
    target: LocalCluster,
    topics: Mapping[str, int],
    *,
    connector: str | None = None,
    consumer: Mapping[str, str] | None = None,
    producer: Mapping[str, str] | None = None,
    config: Mapping[str, str] | None = None,
) -> TaskSpec:
    """One task for all partitions of these topics (name → partitions), to `A.<topic>`.

    `config`: of the connector, for what the task reads there itself; without it no offset syncs are written.
    """
    name = connector or fresh_topic("mirror")
    return source_spec(
        {**source.client_properties(), **(consumer or {})},
        {**target.client_properties(), **(producer or {})},
        assigned(topics),
        config=WITHOUT_SYNCS if config is None else config,
        connector=name,
        run_id=uuid.uuid4().hex,
        offsets_partitions=OFFSETS_PARTITIONS,
        target_consumer=target.client_properties(),
    )


def assigned(topics: Mapping[str, int]) -> tuple[TaskPartition, ...]:
    """All partitions of these topics."""
    return tuple(TaskPartition(t, p, f"A.{t}") for t, count in topics.items() for p in range(count))


class Running:
    """A task under way: its link, and how it ended."""

    def __init__(self, spec: TaskSpec, link: FakeWorkerLink, task: asyncio.Future[None]) -> None:
        self.spec = spec
        self.link = link
        self.task = task

    async def copied(self, records: int, seconds: float = 180.0) -> None:
        """Waits until the task has had so many records acknowledged, and goes on for as long as more are."""
        acknowledged = -1
        async with asyncio.timeout(seconds * PROLONGED), asyncio.timeout(seconds) as patience:
            while acknowledged < records:
                if (now := self.link.counters.get("records", 0)) != acknowledged:
                    acknowledged = now
                    patience.reschedule(asyncio.get_running_loop().time() + seconds)
                self.check_running()
                await asyncio.sleep(0.01)

    async def until(self, condition: Callable[[], bool], seconds: float = 180.0) -> None:
        """Waits for a condition; a task that ended meanwhile raises what it raised."""
        async with asyncio.timeout(seconds):
            while not condition():
                self.check_running()
                await asyncio.sleep(0.01)

    def check_running(self) -> None:
        """Raises what a task that ended meanwhile raised, or that it has returned."""
        if self.task.done():
            self.task.result()
            raise AssertionError("the task has returned")

    async def finish(self) -> None:
        """Told to finish, it commits and returns."""
        self.link.finish()
        await asyncio.wait_for(self.task, 180)

    def assign(self, topics: Mapping[str, int]) -> None:
        """Another assignment, under the next version."""
        self.spec = replace(self.spec, assigned=assigned(topics), assignment_version=self.spec.assignment_version + 1)
        self.link.assign(self.spec)


@contextlib.asynccontextmanager
async def running(
    spec: TaskSpec, target: LocalCluster | None = None, function: TaskFunction = run_source_task
) -> AsyncIterator[Running]:
    """Runs the task in this loop; with `target`, its positions are those of connect-offsets there."""

    def stored(topic: str, partition: int) -> Stored:
        if target is None:
            return None
        return positions_with_origins(target, spec.connector, spec.offsets_topic).get((topic, partition))

    link = FakeWorkerLink(spec, stored)
    task = asyncio.ensure_future(function(spec, link))
    try:
        yield Running(spec, link, task)
    finally:
        if not task.done():
            link.abandon()
            await asyncio.wait({task}, timeout=60)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
