"""What is known of one connector: of its partitions, groups, tasks and problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from mirror_connect.app.metrics.figures import Lag, Latency, Rate
from mirror_connect.app.metrics.group_metrics import GroupMetrics
from mirror_connect.app.metrics.growth import Growth
from mirror_connect.app.metrics.latencies import RecentLatencies
from mirror_connect.app.metrics.partition_metrics import PartitionMetrics
from mirror_connect.app.metrics.shown_problem import PresentProblems, ShownProblem
from mirror_connect.app.metrics.task_metrics import TaskMetrics, added
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.task_measures import BUCKETS, PartitionMeasures, TaskMeasures

_NO_COUNTS: Final = (0,) * BUCKETS


class ConnectorMetrics:
    """See the module. `now` is in seconds of a monotonic clock, `now_ms` in milliseconds since 1970.

    `growth` and `latency_counts` are of all its partitions since the process started, those that it has given up as well.
    """

    def __init__(self, name: str, now: float) -> None:
        self.name = name
        self.tasks: dict[int, TaskMetrics] = {}
        self.partitions: dict[TopicPartition, PartitionMetrics] = {}
        self.groups: dict[str, GroupMetrics] = {}
        self.growth = Growth(now)
        self.latencies = RecentLatencies()
        self.latency_counts: tuple[int, ...] = _NO_COUNTS
        self.problems = PresentProblems()
        self._of_topics: dict[str, RecentLatencies] = {}

    # --- what a task tells ------------------------------------------------------------------------------------------

    def task(self, number: int) -> TaskMetrics:
        """That of a task, new if it has told nothing yet."""
        found = self.tasks.get(number)
        if found is None:
            found = self.tasks[number] = TaskMetrics()
        return found

    def take(self, number: int, measures: TaskMeasures, now: float) -> None:
        """Takes what the present attempt of a task has measured; `TaskMetrics.hear` comes before."""
        task = self.task(number)
        if task.is_repeated(measures):
            return
        if measures.latency_counts:
            before = task.told.latency_counts or _NO_COUNTS
            more = tuple(max(0, new - old) for new, old in zip(measures.latency_counts, before, strict=True))
            self.latency_counts = added(self.latency_counts, more)
            self.latencies.add(more, now)
        most = records = bytes_ = 0
        for row in measures.partitions:
            grown = self._take_partition(row, number, task, now)
            records, bytes_ = records + grown[0], bytes_ + grown[1]
            if row.latency is not None:
                most = max(most, row.latency.most)
        if most:
            self.latencies.add_most(most, now)
        if records or bytes_:
            self.growth.add(records, bytes_, now)
        for each in measures.gone:
            # If the task gets it again, its counts begin anew.
            task.counted.pop(TopicPartition(*each), None)
            gone = self.partitions.get(TopicPartition(*each))
            if gone is not None and gone.task == number:
                gone.task = -1
        for group in measures.groups:
            found = self.groups.get(group.group)
            if found is None:
                found = self.groups[group.group] = GroupMetrics(group)
            found.take(group, number, task.attempt)
        task.told = replace(measures, partitions=(), gone=(), groups=())

    def _take_partition(self, row: PartitionMeasures, number: int, task: TaskMetrics, now: float) -> tuple[int, int]:
        """Returns how many records and bytes are new."""
        key = TopicPartition(row.topic, row.partition)
        known = self.partitions.get(key)
        if known is None:
            known = self.partitions[key] = PartitionMetrics(row, now)
        known.told, known.task, known.attempt = row, number, task.attempt
        records, bytes_ = grown = row.records, row.bytes
        before = task.counted.get(key)
        # Less than before: the task gave it away and has it again, all since its last report.
        if before is not None and before[0] <= records and before[1] <= bytes_:
            grown = records - before[0], bytes_ - before[1]
        if before != (records, bytes_):
            task.counted[key] = (records, bytes_)
        if grown != (0, 0):
            known.growth.add(*grown, now)
        if row.age is not None:
            known.age.add(row.age, now)
        if row.latency is not None:
            known.latency.add(row.latency, now)
            of_topic = self._of_topics.get(row.topic)
            if of_topic is None:
                of_topic = self._of_topics[row.topic] = RecentLatencies()
            of_topic.add_pairs(row.latency_counts, row.latency.most, now)
        return grown

    # --- figures ----------------------------------------------------------------------------------------------------

    def telling(self, now: float) -> dict[int, str]:
        """The tasks that told in the last seconds what they measured, each with its attempt."""
        return {number: task.attempt for number, task in self.tasks.items() if task.measures(now)}

    def known(self, partition: TopicPartition, telling: Mapping[int, str]) -> PartitionMetrics | None:
        """A partition, if the attempt that told of it is one of these, see `telling`. None: nothing is known."""
        found = self.partitions.get(partition)
        return found if found is not None and telling.get(found.task) == found.attempt else None

    def lag(self, partitions: Iterable[TopicPartition], telling: Mapping[int, str], now_ms: int) -> Lag:
        """Of these partitions together; `telling` as in `known`."""
        records, behind, unknown, any_known = 0, 0, 0, False
        # The timestamp of the oldest record that is missing on the target.
        oldest: int | None = None
        # Ten thousand partitions in a few milliseconds: so nothing is called for each of them.
        for key in partitions:
            found = self.partitions.get(key)
            if found is None or telling.get(found.task) != found.attempt:
                unknown += 1
                continue
            row = found.told
            lag = row.lag
            if lag is None:
                unknown += 1
            else:
                any_known = True
                if lag == 0:
                    continue
                records, behind = records + lag, behind + 1
            if row.oldest_ms is not None and (oldest is None or row.oldest_ms < oldest):
                oldest = row.oldest_ms
        at_rest = 0.0 if any_known and not behind else None
        seconds = at_rest if oldest is None else max(0, now_ms - oldest) / 1000
        return Lag(records if any_known else None, seconds, behind, unknown)

    def group(self, name: str, now: float) -> GroupMetrics | None:
        """A group, if the task that has it now tells of it."""
        found = self.groups.get(name)
        if found is None:
            return None
        task = self.tasks.get(found.task)
        return found if task is not None and task.attempt == found.attempt and task.measures(now) else None

    def rate(self, now: float) -> Rate | None:
        """Of all partitions; None if no task tells what it measures."""
        return self.growth.rate(now) if self.telling(now) else None

    def latency_of_topic(self, topic: str, now: float) -> Latency | None:
        """Of the last minute; None without records in it."""
        found = self._of_topics.get(topic)
        return None if found is None else found.of_minute(now)

    # --- problems ---------------------------------------------------------------------------------------------------

    def present_problems(self, now: float) -> list[ShownProblem]:
        """Its own, then those of its tasks, except of tasks that are not heard."""
        found = list(self.problems.shown)
        for number in sorted(self.tasks):
            if self.tasks[number].is_heard(now):
                found += self.tasks[number].problems.shown
        return found

    def more_problems(self, now: float) -> int:
        """How many others there are."""
        return self.problems.more + sum(task.problems.more for task in self.tasks.values() if task.is_heard(now))

    # --- what is forgotten ------------------------------------------------------------------------------------------

    def keep(self, partitions: Iterable[TopicPartition], groups: Iterable[str], tasks: int) -> None:
        """Forgets all other partitions and groups, and tasks from this number on. Its own sums stay."""
        kept = set(partitions)
        self.partitions = {each: known for each, known in self.partitions.items() if each in kept}
        topics = {each.topic for each in kept}
        self._of_topics = {each: known for each, known in self._of_topics.items() if each in topics}
        kept_groups = set(groups)
        self.groups = {each: known for each, known in self.groups.items() if each in kept_groups}
        for number in [each for each in self.tasks if each >= tasks]:
            del self.tasks[number]
