"""What is known of one consumer group of a checkpoint connector, whichever task has it."""

from __future__ import annotations

from mirror_connect.connectors.task_measures import GroupMeasures, Window


class GroupMetrics:
    """See the module. `told`: the last about it, from `attempt` of `task`. `latency`: of the last checkpoints with one.

    `latencies`: the same by topic and partition.
    """

    __slots__ = ("attempt", "latencies", "latency", "task", "told")

    def __init__(self, told: GroupMeasures) -> None:
        self.told = told
        self.task = -1
        self.attempt = ""
        self.latency: Window | None = None
        self.latencies: dict[tuple[str, int], Window] = {}

    def take(self, told: GroupMeasures, task: int, attempt: str) -> None:
        """The newest."""
        self.told, self.task, self.attempt = told, task, attempt
        latest: Window | None = None
        # Those of partitions that the group has given up are forgotten.
        before, self.latencies = self.latencies, {}
        for partition in told.partitions:
            key = (partition.topic, partition.partition)
            if partition.latency is not None:
                latest = partition.latency.plus(latest)
            if (known := partition.latency or before.get(key)) is not None:
                self.latencies[key] = known
        self.latency = latest or self.latency

    @property
    def read_again(self) -> int | None:
        """Over all partitions with a translation; None without any."""
        return _sum_of_known([each.read_again for each in self.told.partitions])

    @property
    def skipped(self) -> int | None:
        """Over all partitions with a translation; None without any."""
        return _sum_of_known([each.skipped for each in self.told.partitions])

    @property
    def untranslated(self) -> int:
        """How many partitions have no translation."""
        return sum(each.read_again is None for each in self.told.partitions)

    @property
    def latency_ms(self) -> float | None:
        """The mean of the last checkpoints, from their time to the target's acknowledgement; None before the first."""
        return None if self.latency is None else self.latency.total / self.latency.count


def _sum_of_known(values: list[int | None]) -> int | None:
    known = [each for each in values if each is not None]
    return sum(known) if known else None
