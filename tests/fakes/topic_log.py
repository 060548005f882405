"""A topic log in memory: several logs opened on one FakeTopic see each other's records, as workers do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mirror_connect.kafka_io.consumer.topic_tail import LogRecord

Entry = tuple[bytes, bytes | None]


@dataclass
class FakeTopic:
    """The records of a topic, in order. Set `failure` to have every call of every log raise it.

    `now_ms`: their timestamps; without it each one is a millisecond after the one before.
    """

    records: list[LogRecord] = field(default_factory=list)
    failure: Exception | None = None
    now_ms: Callable[[], int] | None = None

    def add(self, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()) -> None:
        number = len(self.records)
        at = 1_700_000_000_000 + number if self.now_ms is None else self.now_ms()
        self.records.append(LogRecord(key, value, 0, number, at, headers))

    def entries(self) -> list[tuple[bytes | None, bytes | None]]:
        return [(record.key, record.value) for record in self.records]


class FakeTopicLog:
    """A TopicLog on a FakeTopic; delivers on the loop, later than the write that caused it."""

    name = "connect-topic"

    def __init__(self, topic: FakeTopic | None = None) -> None:
        self.topic = topic or FakeTopic()
        self._read = 0
        self._on_record: Callable[[LogRecord], None] | None = None
        self._follower: asyncio.Task[None] | None = None

    async def start(self, on_record: Callable[[LogRecord], None]) -> None:
        self._check()
        self._on_record, self._read = on_record, 0
        self._deliver()
        self._follower = asyncio.create_task(self._follow())

    async def read_to_end(self, timeout: float = 30.0) -> None:
        await asyncio.sleep(0)
        self._check()
        self._deliver()

    @property
    def claimed(self) -> bool:
        return True

    async def claim(self) -> None:
        await asyncio.sleep(0)
        self._check()

    def relinquish(self) -> None: ...

    async def append_as_member(self, key: bytes, value: bytes | None) -> None:
        await self.append(key, value)

    async def append(self, key: bytes, value: bytes | None) -> None:
        await self.append_all([(key, value)])

    async def append_all(self, entries: Sequence[Entry]) -> None:
        await asyncio.sleep(0)
        self._check()
        for key, value in entries:
            self.topic.add(key, value)

    async def stop(self) -> None:
        self._on_record = None
        if self._follower is not None:
            self._follower.cancel()

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(0.001)
            self._deliver()

    def _deliver(self) -> None:
        while self._on_record is not None and self._read < len(self.topic.records):
            self._read += 1
            self._on_record(self.topic.records[self._read - 1])

    def _check(self) -> None:
        if self.topic.failure is not None:
            raise self.topic.failure
