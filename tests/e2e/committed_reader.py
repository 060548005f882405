"""A reader of committed records that follows numbered copies while they are made: each number once, one after the other."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Final, Self

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from deploy.local import LocalCluster

Place = tuple[str, int]
POLL_S: Final = 0.2
AT_ONCE: Final = 1000


class CommittedReader:
    """Reads these partitions from their beginning, from `with` to its end.

    `following`: the number that each partition has to bring next. `wrong`: what came in its place, never forgotten.
    `longest_s`: of each partition the longest time since `expect_from_zero` without a new record.
    """

    def __init__(self, cluster: LocalCluster, places: Iterable[Place]) -> None:
        self.following: dict[Place, int] = dict.fromkeys(places, 0)
        self.longest_s: dict[Place, float] = dict.fromkeys(self.following, 0.0)
        self.wrong: list[str] = []
        self._seen_at = dict.fromkeys(self.following, time.monotonic())
        self._consumer = Consumer(
            {
                **cluster.librdkafka(),
                "group.id": "committed-reader",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "check.crcs": True,
                "allow.auto.create.topics": False,
            }
        )
        self._turn = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, name="committed-reader", daemon=True)

    def __enter__(self) -> Self:
        self._consumer.assign([TopicPartition(*place, 0) for place in self.following])
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)
        self._consumer.close()

    def expect_from_zero(self) -> None:
        """Writers begin anew. Call it when everything of those before has come."""
        with self._turn:
            now = time.monotonic()
            for place in self.following:
                self.following[place], self.longest_s[place], self._seen_at[place] = 0, 0.0, now

    def has_all(self, counts: Mapping[Place, int]) -> bool:
        """Whether so many numbers of each partition have come, or something wrong has."""
        with self._turn:
            return bool(self.wrong) or all(self.following[place] >= count for place, count in counts.items())

    def _read(self) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(KafkaException):
                for message in self._consumer.consume(AT_ONCE, POLL_S):
                    if message.error() is None:
                        self._take(message)

    def _take(self, message: Message) -> None:
        place = message.topic() or "", message.partition() or 0
        number = int((message.value() or b"").split(b" ", 1)[0])
        with self._turn:
            expected, now = self.following[place], time.monotonic()
            if number != expected:
                self.wrong.append(f"{place[0]}-{place[1]}, offset {message.offset()}: {number} and not {expected}")
            self.following[place] = number + 1
            self.longest_s[place] = max(self.longest_s[place], now - self._seen_at[place])
            self._seen_at[place] = now
