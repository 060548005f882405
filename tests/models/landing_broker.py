"""The broker of the landing's model: it knows in which term of which process each record and position was sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tests.fakes.encoded_batches import Plain
from tests.models.fence_broker import TARGET, Broker, position_in
from tests.models.fence_watch import Writers
from tests.models.fence_workers import Machines

# Records a second of each partition. The slow ones may have been written to by nobody for a while when they move.
RATES: Final = (2.0, 0.4, 1.0)
PARTITIONS: Final = len(RATES)


class LandingBroker(Broker):
    """Records tell in which term of which process they were sent, so that one may have a partition, lose and regain it.

    Of positions the process is known alone. `terms`: in which term each process has a partition now.
    """

    def __init__(self, *, fences: bool, allowed: Callable[[str], bool] | None) -> None:
        super().__init__(fences=fences, allowed=allowed, partitions=PARTITIONS)
        self.terms: dict[tuple[str, int], str] = {}
        self._committers = [Writers(f"position of partition {partition}") for partition in range(PARTITIONS)]

    def _written(self, task: str, where: tuple[str, int], records: Sequence[Plain], producer: tuple[int, int]) -> None:
        if where[0] == TARGET:
            term = (records[0].key or b"").decode()
            self.writers[where].wrote(term)
            self.records[where[1]].wrote([int(record.value or b"") for record in records], (term, producer))
            return
        for record in records:
            partition, offset = position_in(record)
            self._committers[partition].wrote(self.terms[task, partition])
            self._position(partition, offset)


class LandingMachines(Machines):
    """`taken_on`: how many times a process took a partition on."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.taken_on = 0
