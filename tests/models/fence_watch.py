"""What must hold of who writes a task's records and positions: looked at in the moment in which something is written."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from tests.models.watch import BrokenPromiseError


@dataclass
class Writers:
    """The writers of one partition, one after the other: who has written once, and has a successor, never does again."""

    name: str
    present: str = ""
    former: set[str] = field(default_factory=set)

    def wrote(self, writer: str) -> None:
        if writer in self.former:
            raise BrokenPromiseError(f"{self.name}: {writer} wrote behind the first write of its successor")
        if writer != self.present:
            self.former.add(self.present)
            self.present = writer


@dataclass
class Records:
    """The numbered records of one partition: none is left out, and none is repeated but by another producer or epoch."""

    name: str
    end: int = 0
    last: int = -1
    producer: Hashable = None

    def wrote(self, numbers: Sequence[int], producer: Hashable) -> None:
        for number in numbers:
            known = producer == self.producer
            if number > self.end or (known and number != self.last + 1):
                raise BrokenPromiseError(f"{self.name}: record {number} came behind {self.last} of {self.end}")
            self.last, self.producer = number, producer
            self.end = max(self.end, number + 1)
