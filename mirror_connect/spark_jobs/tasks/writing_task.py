"""The frame of a task that writes records of its own making: heartbeats and checkpoints.

As with the source task the producer id comes first, which fences the former owner, and nothing is written without a lease.
Told to finish, it stops its work, waits for what is in flight, writes its places in connect-offsets, and returns.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, Final

from mirror_connect.connectors.records.heartbeats import ALWAYS_ZERO
from mirror_connect.connectors.records.partitioner import partition_for
from mirror_connect.connectors.task_protocol import RUNNING, TaskSpec
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.copier_settings import notices, producer_settings
from mirror_connect.kafka_io.client.outage import Outage, cluster_away
from mirror_connect.kafka_io.producer.batch_producer import BatchProducer
from mirror_connect.kafka_io.producer.own_records import OwnRecords
from mirror_connect.kafka_io.records.record_batch import NewRecord
from mirror_connect.spark_jobs.copy.standing import told
from mirror_connect.spark_jobs.task_context import WorkerLink
from mirror_connect.spark_jobs.tasks.connecting import until_connected

# Told to finish, everything is over within two seconds: most of it for acknowledgements, the rest for the last places.
SETTLE_S: Final = 1.5
LAST_COMMIT_S: Final = 0.4
PLACES_S: Final = 0.5


class WritingTask:
    """One run. `work` is what the task does until it is told to end; it writes with `write`.

    `places`: the keys in connect-offsets that belong to the records written. Connect keeps one for each source partition,
    with the offset 0 that nobody reads; REST shows them, and a Java worker after us finds them.
    """

    def __init__(self, spec: TaskSpec, link: WorkerLink) -> None:
        self.spec = spec
        self.link = link
        self._target = Cluster(
            spec.target,
            spec.target.get("client.id") or f"connector-producer-{spec.connector}-{spec.task}",
            kind="producer",
        )
        settings = producer_settings(spec.target)
        name = f"target cluster {spec.target_alias}"
        self._away = cluster_away(name, spec.target.get("bootstrap.servers"), spec.run_id)
        self.producer = BatchProducer(
            self._target, settings, spec.transactional_id, link.lease_valid, link.notice, away=self._away
        )
        self._outages: dict[str, Outage] = {}
        # Lines of what the work itself knows to be in trouble.
        self.troubles: Callable[[], Iterable[str]] = tuple
        self._writers: dict[tuple[str, int], OwnRecords] = {}
        self._new_places: dict[bytes, None] = {}
        self._touched: dict[bytes, None] = {}
        self._known: set[bytes] = set()

    async def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """From the first connection to the last place. Raises what the work raises, NotAuthorized, FencedError …"""
        for line in notices({}, self.spec.target):
            self.link.notice(line)
        if not await self._unless_told_to_end(self._start()):
            return
        self.link.state = RUNNING
        self.link.assignment_version = self.spec.assignment_version
        doing = (
            asyncio.create_task(self._keep_standing(), name="standing"),
            asyncio.create_task(work(), name="work"),
            asyncio.create_task(self._keep_places(), name="places"),
        )
        ending = asyncio.create_task(self._until_told_to_end(), name="orders")
        endings: set[asyncio.Future[Any]] = {ending, *doing, self.producer.failed}
        try:
            await asyncio.wait(endings, return_when=asyncio.FIRST_COMPLETED)
            if self.producer.failed.done():
                self.producer.failed.result()
            for ended in doing:
                if ended.done():
                    ended.result()
            if not self.link.abandon_wanted:
                await _cancelled(*doing)
                await self._finish()
        finally:
            await _cancelled(*doing, ending)

    async def close(self) -> None:
        """Ends connections; what is not acknowledged stays so."""
        await self.producer.close()
        await self._target.close()

    async def write(self, topic: str, records: Sequence[NewRecord], places: Sequence[bytes]) -> None:
        """Writes to partition 0 of a topic; returns when the target has them. PartitionRefusedError."""
        await self._writer(topic, 0).write(records)
        self.link.wrote_to(topic)
        counters = self.link.counters
        counters["records"] = counters.get("records", 0) + len(records)
        self._touched.update(dict.fromkeys(places))
        self._new_places.update(dict.fromkeys(place for place in places if place not in self._known))

    def outage(self, what: str) -> Outage:
        """What the status has a line of while it lasts, with this name."""
        if what not in self._outages:
            self._outages[what] = Outage(what, self.spec.run_id)
        return self._outages[what]

    async def connected(self, cluster: Cluster, name: str, bootstrap: str | None) -> None:
        """Tries until the cluster answers; the status has a line of it meanwhile."""
        away = self._outages[name] = cluster_away(name, bootstrap, self.spec.run_id)
        await until_connected(cluster, name, away, self.link, self._tell_standing)

    async def _start(self) -> None:
        bootstrap = self.spec.target.get("bootstrap.servers")
        await self.connected(self._target, f"target cluster {self.spec.target_alias}", bootstrap)
        await self.producer.start()

    async def _finish(self) -> None:
        data = [writer.target for (topic, _), writer in self._writers.items() if topic != self.spec.offsets_topic]
        await self.producer.settle(data, SETTLE_S)
        if self.producer.failed.done():
            self.producer.failed.result()
        if not self.link.abandon_wanted:
            try:
                async with asyncio.timeout(LAST_COMMIT_S):
                    await self._write_places(self._touched)
            except TimeoutError:
                return  # never read: there is nothing to repeat

    async def _keep_places(self) -> None:
        """New ones at once, so that REST shows them; again at every flush of Connect's, as it does it."""
        due = time.monotonic() + self.spec.commit_interval_ms / 1000
        while True:
            await asyncio.sleep(PLACES_S)
            if time.monotonic() >= due:
                due = time.monotonic() + self.spec.commit_interval_ms / 1000
                await self._write_places(self._touched)
            else:
                await self._write_places(self._new_places)

    async def _keep_standing(self) -> None:
        """Beside what waits for a target that is away."""
        while True:
            self._tell_standing()
            await asyncio.sleep(PLACES_S)

    def _tell_standing(self) -> None:
        lines = [each.line for each in (self._away, *self._outages.values())]
        refused = [] if self._away.line else [writer.target.trouble for writer in self._writers.values()]
        refused.append(self.producer.trouble)
        self.link.standing = told({}, (*lines, *refused, *self.troubles()))

    async def _write_places(self, places: dict[bytes, None]) -> None:
        keys = list(places)
        by_partition: dict[int, list[NewRecord]] = {}
        now = int(time.time() * 1000)
        for key in keys:
            number = partition_for(key, self.spec.offsets_partitions)
            by_partition.setdefault(number, []).append(NewRecord(key, ALWAYS_ZERO, now))
        if not keys:
            return
        topic = self.spec.offsets_topic
        await asyncio.gather(*(self._writer(topic, number).write(each) for number, each in by_partition.items()))
        self._known.update(keys)
        for key in keys:
            self._new_places.pop(key, None)
            self._touched.pop(key, None)
        self.link.counters["commits"] = self.link.counters.get("commits", 0) + 1

    def _writer(self, topic: str, partition: int) -> OwnRecords:
        if (topic, partition) not in self._writers:
            self._writers[topic, partition] = OwnRecords(self.producer, topic, partition)
        return self._writers[topic, partition]

    async def _unless_told_to_end(self, work: Coroutine[Any, Any, None]) -> bool:
        """Awaits the work; False when the task was told to end before it was done."""
        doing, told = asyncio.create_task(work), asyncio.create_task(self._until_told_to_end())
        try:
            await asyncio.wait({doing, told}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                doing.result()
            return doing.done()
        finally:
            await _cancelled(doing, told)

    async def _until_told_to_end(self) -> None:
        link = self.link
        while not link.finish_wanted and not link.abandon_wanted:
            link.changed.clear()
            await link.changed.wait()


async def _cancelled(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def every(seconds: float, do: Callable[[], Awaitable[None]]) -> None:
    """At once and then at a steady pace; a round that takes longer than that is followed by the next one directly."""
    due = time.monotonic()
    while True:
        await do()
        due = max(due + seconds, time.monotonic())
        await asyncio.sleep(due - time.monotonic())


async def together(*works: Coroutine[Any, Any, None]) -> None:
    """Runs all of them; the first error ends the others and is raised as it is."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        await _cancelled(*tasks)
