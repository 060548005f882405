"""Sampling verification of a link between clusters in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch
from mirror_connect.verify import baseline, sampling
from mirror_connect.verify.clusters import EARLIEST, LATEST
from mirror_connect.verify.errors import CannotCompareError
from mirror_connect.verify.findings import Fault
from mirror_connect.verify.link import Link, Positions, described_link
from mirror_connect.verify.plan import Topics
from mirror_connect.verify.rate import Rate
from mirror_connect.verify.reading import FETCH_BYTES
from mirror_connect.verify.sampling import SamplingOptions, SamplingVerifier
from mirror_connect.verify.sampling_report import SamplingWatcher
from tests.fakes.encoded_batches import some_records
from tests.fakes.partition_logs import packed
from tests.fakes.peeked_logs import MemoryPeek

BATCHES = packed(some_records(1, 400, size=20))


WHOLE = SamplingOptions(cpu_share=None)


class MemoryCluster:
    """Both clusters' readers, by their role; `logs` are shared by the tests with the follower."""

    logs: dict[str, dict[TopicPartition, MemoryPeek]]
    ids: dict[tuple[str, str], bytes]
    away: dict[str, bool]
    # Done at each question for ends; how many offsets an open transaction hides at the target's.
    asked: Callable[[], None]
    hidden: int

    def __init__(self, role: str, _properties: object, *, committed: bool, rate: Rate, **_: Any) -> None:
        self.role = role
        self.committed = committed
        self.rate = rate

    async def open(self, _topics: Iterable[str]) -> None:
        pass

    async def close(self) -> None:
        pass

    def has(self, key: TopicPartition) -> bool:
        return key in self.logs[self.role]

    async def topic_ids(self, topics: Iterable[str]) -> dict[str, bytes | None]:
        return {topic: self.ids.get((self.role, topic)) for topic in topics}

    async def offsets(
        self, wanted: Mapping[TopicPartition, int], *, open_too: bool = False
    ) -> dict[TopicPartition, int | None]:
        found: dict[TopicPartition, int | None] = {}
        MemoryCluster.asked()
        for key, what in wanted.items():
            log = self.logs[self.role][key]
            if what == EARLIEST:
                found[key] = log.gone
            else:
                found[key] = log.log.end if what == LATEST else await log.offset_at(what)
            if what == LATEST and self.role == "target" and not open_too:
                found[key] = max(0, (found[key] or 0) - self.hidden)
        return found

    async def fetch(
        self, key: TopicPartition, offset: int, *, hidden_too: bool = True, most: int = FETCH_BYTES
    ) -> CompletedFetch | None:
        del hidden_too, most
        if self.away[self.role]:
            raise CannotCompareError(f"the {self.role} cluster does not answer")
        return await self.logs[self.role][tuple(key)].fetch(offset)


class Rig(SamplingWatcher):
    """A link of topics `a` and `b`, copied as `A.a` and `A.b`; the test sets the source offsets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sampling, "ClusterReader", MemoryCluster)
        monkeypatch.setattr(sampling, "_ROUND_S", (0.0, 0.0))
        monkeypatch.setattr(sampling, "_REST_S", 0.0)
        monkeypatch.setattr(sampling, "_TOPICS_EVERY_S", 0.0)
        MemoryCluster.logs = {
            "source": {(topic, 0): MemoryPeek("source", BATCHES, at_once=50) for topic in "ab"},
            "target": {(f"A.{topic}", 0): MemoryPeek("target", BATCHES, at_once=50) for topic in "ab"},
        }
        monkeypatch.setattr(baseline, "topics_of", _topics)
        MemoryCluster.asked = staticmethod(lambda: None)
        MemoryCluster.hidden = 0
        MemoryCluster.ids = {}
        MemoryCluster.away = {"source": False, "target": False}
        self.positions: Positions | Exception | None = {("a", 0): -1, ("b", 0): -1}
        self.faults: list[tuple[TopicPartition, Fault]] = []
        self.notices: list[str] = []
        self.used = 0.0
        self.rounds = 0

    def follower(self, options: SamplingOptions = WHOLE, of: Link | None = None) -> SamplingVerifier:
        return SamplingVerifier(of or link(), self._tell, options, self, own=lambda: self.used, doubt_s=0.0)

    async def _tell(self) -> Positions | None:
        self.rounds += 1
        if isinstance(self.positions, Exception):
            raise self.positions
        return None if self.positions is None else {TopicPartition(*key): at for key, at in self.positions.items()}

    def fault(self, key: TopicPartition, fault: Fault) -> None:
        self.faults.append((key, fault))

    def notice(self, line: str) -> None:
        self.notices.append(line)

    async def while_running(
        self, follower: SamplingVerifier, *stages: tuple[Callable[[], None], Callable[[], bool]]
    ) -> None:
        """Does each stage's deed and waits for what it leads to."""
        task = asyncio.ensure_future(follower.run())
        try:
            async with asyncio.timeout(60):
                for deed, consequence in stages:
                    deed()
                    while not consequence():
                        if task.done():
                            task.result()
                        await asyncio.sleep(0)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def at(self, **offsets: int) -> Callable[[], None]:
        def move() -> None:
            self.positions = {(topic, 0): offset for topic, offset in offsets.items()}

        return move

    def some_rounds(self) -> Callable[[], bool]:
        """A consequence: three more rounds."""
        begun: list[int] = []

        def passed() -> bool:
            begun.append(self.rounds)
            return self.rounds >= begun[0] + 3

        return passed


async def _topics(_link: Link) -> Topics:
    ours, theirs = ({topic: 1 for topic, _ in MemoryCluster.logs[role]} for role in ("source", "target"))
    return Topics(ours, theirs, [])


def link() -> Link:
    cluster = {"bootstrap.servers": "nowhere:1"}
    return described_link(source=cluster, target=cluster, settings={"topics": "[ab]", "source.cluster.alias": "A"})


def compared(follower: SamplingVerifier, count: int) -> Callable[[], bool]:
    return lambda: follower.report.total("compared") >= count
