"""How far a copy has come, watched ten times a second: what was on the target when something happened to the copier."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final, Self

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from deploy.local import LocalCluster

EVERY_S: Final = 0.1

Partition = tuple[str, int]


class Progress:
    """End offsets of some partitions of a cluster, from `with` to its end. Times are those of time.monotonic().

    `patient`: the cluster may be away meanwhile, but for the first look and the last.
    """

    def __init__(self, cluster: LocalCluster, partitions: Iterable[Partition], *, patient: bool = False) -> None:
        self._patient = patient
        self._admin = cluster.admin()
        self._asked = {TopicPartition(*each): OffsetSpec.latest() for each in partitions}
        self._samples: list[tuple[float, Mapping[Partition, int]]] = []
        self._turn = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self.look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.look()

    @property
    def ends(self) -> Mapping[Partition, int]:
        """The newest end offsets."""
        return self._samples[-1][1]

    @property
    def total(self) -> int:
        """Records on the target, repeats included."""
        return sum(self.ends.values())

    def written(self, partition: Partition, offset: int) -> float:
        """When a record at this offset was first seen."""
        return next(looked for looked, ends in self._samples if ends[partition] > offset)

    def apart(self, partition: Partition, first: int, last: int) -> float:
        """How many seconds the record at `last` was written after that at `first`, at least."""
        return max(0.0, self.missed(partition, last) - self.written(partition, first))

    def missed(self, partition: Partition, offset: int) -> float:
        """When a record at this offset was last looked for in vain: it was written after that."""
        return max((looked for looked, ends in self._samples if ends[partition] <= offset), default=float("-inf"))

    def at(self, partition: Partition, when: float) -> int:
        """The end offset at the first look after a moment, or at the last look."""
        return next((ends[partition] for looked, ends in self._samples if looked >= when), self.ends[partition])

    def longest_pause(self, partition: Partition, since: float) -> float:
        """The longest time in which nothing came to a partition, from a moment on to the last record that came."""
        moved = [
            after
            for (_, was), (after, ends) in pairwise(self._samples)
            if ends[partition] > was[partition] and after > since
        ]
        return max((after - before for before, after in pairwise([since, *moved])), default=float("inf"))

    def stalled(self, when: float, seconds: float) -> float:
        """For how long nobody answered in the `seconds` before `when`, beyond the time between two looks."""
        looks = [looked for looked, _ in self._samples if when - seconds <= looked <= when]
        return (
            max((after - before for before, after in pairwise([when - seconds, *looks, when])), default=0.0) - EVERY_S
        )

    def still(self, seconds: float) -> bool:
        """Whether nothing has come for so long."""
        now = time.monotonic()
        older = [ends for looked, ends in self._samples if looked <= now - seconds]
        return bool(older) and older[-1] == self.ends

    def look(self, seconds: float = 180) -> Mapping[Partition, int]:
        """The end offsets now."""
        with self._turn:
            asked = self._admin.list_offsets(self._asked, request_timeout=seconds)
            ends = {(each.topic, each.partition): found.result(seconds + 1).offset for each, found in asked.items()}
            if min(ends.values(), default=0) < 0:
                raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
            self._samples.append((time.monotonic(), ends))
        return ends

    def _watch(self) -> None:
        while not self._stop.wait(EVERY_S):
            if not self._patient:
                self.look()
                continue
            # Soon again, so that a broker is seen as soon as it is back.
            with contextlib.suppress(KafkaException, TimeoutError):
                self.look(1)
