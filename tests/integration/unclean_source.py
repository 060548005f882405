"""A source topic of three brokers whose log loses records in an unclean leader election, and a task that copies it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic, OffsetSpec

from deploy.local import LocalCluster
from mirror_connect.connectors.task_protocol import TaskSpec
from tests.integration.mirror_rig import (
    Running,
    fresh_topic,
    messages,
    produce,
    spec_for,
)
from tests.waiting import state_reached, wait_for_state

BROKERS = {
    "unclean.leader.election.enable": "true",
    "min.insync.replicas": "1",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    "zookeeper.session.timeout.ms": "2000",
}
# Two of the three keep the data; the third is there for the quorum.
LEADER, FOLLOWER = 2, 3
OVER_S = 180.0


class Unclean:
    """A topic of one partition, and what becomes of it. Each value is there once, a number that tells who was leading."""

    def __init__(
        self, clusters: tuple[LocalCluster, LocalCluster], leader: int = LEADER, follower: int = FOLLOWER
    ) -> None:
        self.source, self.target = clusters
        self.leader, self.follower = leader, follower
        self.topic = fresh_topic("unclean")
        self.key = TopicPartition(self.topic, 0)
        new = NewTopic(self.topic, 1, replica_assignment=[[leader, follower]])
        wait_for_state(lambda: self._made(new), "the topic is made")
        self.target.create_topic(f"A.{self.topic}")
        self.connector = fresh_topic("mirror")
        self.numbers = itertools.count()

    def _made(self, new: NewTopic) -> bool:
        try:
            self.source.admin().create_topics([new])[self.topic].result(180)
        except KafkaException as problem:
            code = problem.args[0].code()
            # librdkafka's handle of a bootstrap address goes when the broker's own is known, with what waits there.
            if code not in (KafkaError._DESTROY_BROKER, KafkaError.TOPIC_ALREADY_EXISTS):
                raise
            return bool(code == KafkaError.TOPIC_ALREADY_EXISTS)
        return True

    def spec(self, **consumer: str) -> TaskSpec:
        settings = {name.replace("_", "."): value for name, value in consumer.items()}
        made = spec_for(self.source, self.target, {self.topic: 1}, connector=self.connector, consumer=settings)
        return replace(made, commit_interval_ms=500)

    async def put(self, count: int) -> None:
        rows = [{"value": b"%d" % next(self.numbers), "partition": 0} for _ in range(count)]
        # One batch at a time: one that a leader refuses because it doesn't know yet that it leads keeps its place.
        await asyncio.to_thread(produce, self.source, self.topic, rows, at_once=20, acks=1)

    async def end(self) -> int:
        """Where the log ends; asked until somebody leads."""
        asked = {self.key: OffsetSpec.latest()}
        found: list[int] = []

        def told() -> bool:
            with contextlib.suppress(Exception):
                answer = self.source.admin().list_offsets(asked, request_timeout=5)[self.key]
                found.append(answer.result(5).offset)
            return bool(found)

        await state_reached(told, f"somebody leads {self.topic}", OVER_S, 0.2, in_thread=True)
        return found[0]

    async def until(self, *, leader: int, in_sync: Sequence[int]) -> None:
        def reached() -> bool:
            # A broker that is killed takes requests along that were sent to it.
            with contextlib.suppress(KafkaException):
                listed = self.source.admin().list_topics(self.topic, timeout=20)
                partition = listed.topics[self.topic].partitions.get(0)
                return bool(partition) and (partition.leader, sorted(partition.isrs)) == (leader, sorted(in_sync))
            return False

        await state_reached(reached, f"{leader} leads, in sync: {in_sync}", OVER_S, 0.2, in_thread=True)

    async def alone(self) -> None:
        """The leader goes on without its follower."""
        await self.until(leader=self.leader, in_sync=(self.leader, self.follower))
        await asyncio.to_thread(self.source.brokers[self.follower - 1].kill)
        await self.until(leader=self.leader, in_sync=(self.leader,))

    async def elect_the_follower(self) -> int:
        """The leader dies and the follower leads: where its log ends."""
        await asyncio.to_thread(self.source.brokers[self.leader - 1].kill)
        await asyncio.to_thread(self.source.brokers[self.follower - 1].launch)
        await self.until(leader=self.follower, in_sync=(self.follower,))
        return await self.end()

    async def all_up(self) -> None:
        await asyncio.to_thread(self.source.start)

    def values(self, cluster: LocalCluster) -> list[int]:
        topic = self.topic if cluster is self.source else f"A.{self.topic}"
        return [int(message.value() or b"") for message in messages(cluster, topic)]

    def told(self, at: int, before: int) -> str:
        return (
            f"source partition {self.topic}-0 was truncated at offset {at} (unclean leader election?): "
            f"offsets {at} to {before - 1}, which had been read, are gone from the source ({before - at} offsets); "
            f"reading continues at {at}"
        )

    def verify(self) -> tuple[int, dict[str, Any]]:
        """Exit code, and the only partition of the JSON."""
        files = [
            *("--source", str(self.source.write_client_properties())),
            *("--target", str(self.target.write_client_properties())),
        ]
        done = subprocess.run(
            [
                *(sys.executable, "-m", "mirror_connect.cli", "verify", *files, "--topics", self.topic),
                *("--source-alias", "A", "--json"),
            ],
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.stdout, done.stderr
        (partition,) = json.loads(done.stdout)["partitions"]
        return done.returncode, partition


@contextlib.asynccontextmanager
async def load(unclean: Unclean) -> AsyncIterator[None]:
    """Somebody writes all the time, whoever leads, and doesn't care what becomes of it."""
    producer = Producer({**unclean.source.librdkafka(), "acks": 1, "linger.ms": 2, "message.timeout.ms": 5000})

    async def write() -> None:
        while True:
            with contextlib.suppress(BufferError):
                producer.produce(unclean.topic, b"%d" % next(unclean.numbers), partition=0)
            producer.poll(0)
            await asyncio.sleep(0.002)

    writing = asyncio.create_task(write())
    try:
        yield
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await asyncio.to_thread(producer.flush, 30)


def incidents(task: Running) -> list[str]:
    return [line for line in task.link.event_lines if "truncated" in line]
