"""What is known of one connector: of its partitions, groups, tasks and problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from mirror_connect.app.metrics.figures import Lag, Rate
from mirror_connect.app.metrics.group_metrics import GroupMetrics
from mirror_connect.app.metrics.growth import Growth
from mirror_connect.app.metrics.latencies import RecentLatencies
from mirror_connect.app.metrics.partition_metrics import PartitionMetrics
from mirror_connect.app.metrics.shown_problem import PresentProblems, ShownProblem
from mirror_connect.app.metrics.task_metrics import NOTHING, TaskMetrics, added, both
from mirror_connect.app.metrics.verification_metrics import VerificationMetrics
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.task_measures import BUCKETS, PartitionMeasures, TaskMeasures

NO_COUNTS: Final = (0,) * BUCKETS


class ConnectorMetrics:
    """See the module. `now` is in seconds of a monotonic clock, `now_ms` in milliseconds since 1970.

    `growth` and `latency_counts` are of all its partitions since the process started, those that it has given up as well.
    """

    def __init__(self, name: str, now: float) -> None:
        self.name = name
        self.tasks: dict[int, TaskMetrics] = {}
        # The keys are TopicPartitions; a tuple with the same members finds them, and is made faster.
        self.partitions: dict[tuple[str, int], PartitionMetrics] = {}
        self.groups: dict[str, GroupMetrics] = {}
        self.growth = Growth(now)
        self.latencies = RecentLatencies()
        self.latency_counts: tuple[int, ...] = NO_COUNTS
        self.problems = PresentProblems()
        self.verification = VerificationMetrics()
        # What tasks have counted that are not there any more.
        self._former = NOTHING
        self._formerly_given_up = 0
        self._of_topics: dict[str, RecentLatencies] = {}
        self._kept: tuple[object, tuple[int, ...]] = (None, ())

    # What a task tells.

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
            before = task.told.latency_counts or NO_COUNTS
            more = tuple(max(0, new - old) for new, old in zip(measures.latency_counts, before, strict=True))
            self.latency_counts = added(self.latency_counts, more)
            self.latencies.add(more, now)
        self._take_partitions(measures.partitions, number, task, now)
        for each in measures.gone:
            # If the task gets it again, its counts begin anew.
            task.counted.pop(each, None)
            gone = self.partitions.get(each)
            if gone is not None and gone.task == number:
                gone.task = -1
        for group in measures.groups:
            found = self.groups.get(group.group)
            if found is None:
                found = self.groups[group.group] = GroupMetrics(group)
            found.take(group, number, task.attempt)
        # A link at rest commits nothing: the time of the last commit stays, as in Kafka's metrics for a while.
        commit = measures.commit or task.told.commit
        task.told = replace(measures, partitions=(), gone=(), groups=(), commit=commit)

    def _take_partitions(self, rows: Sequence[PartitionMeasures], number: int, task: TaskMetrics, now: float) -> None:
        attempt, counted = task.attempt, task.counted
        all_records = all_bytes = most = 0
        for row in rows:
            topic, partition, *_, records, bytes_, age, latency, counts = row
            key = row[:2]
            known = self.partitions.get(key)
            if known is None:
                known = self.partitions[TopicPartition(topic, partition)] = PartitionMetrics(row, now)
            known.told, known.task, known.attempt = row, number, attempt
            before = counted.get(key)
            more_records, more_bytes = records, bytes_
            # Less than before: the task gave it away and has it again, all since its last report.
            if before is not None and before[0] <= records and before[1] <= bytes_:
                more_records, more_bytes = records - before[0], bytes_ - before[1]
            if more_records or more_bytes:
                counted[key] = (records, bytes_)
                known.growth.add(more_records, more_bytes, now)
                all_records, all_bytes = all_records + more_records, all_bytes + more_bytes
            if age is not None:
                known.age.add(age, now)
            if latency is not None:
                known.latency.add(latency, now)
                of_topic = self._of_topics.get(topic)
                if of_topic is None:
                    of_topic = self._of_topics[topic] = RecentLatencies()
                of_topic.add_pairs(counts, latency.most, now)
                most = max(most, latency.most)
        if most:
            self.latencies.add_most(most, now)
        if all_records or all_bytes:
            self.growth.add(all_records, all_bytes, now)

    # Figures.

    def telling(self, now: float) -> dict[int, str]:
        """The tasks that told in the last seconds what they measured, each with its attempt."""
        return {number: task.attempt for number, task in self.tasks.items() if task.measures(now)}

    @property
    def filtered(self) -> int:
        """Records that transformations have dropped, since the process started."""
        return sum(each.filtered for each in self.totals)

    @property
    def skipped(self) -> int:
        """Records that were left out since the process started: Kafka's total-records-skipped, of all tasks."""
        given_up = self._formerly_given_up + sum(task.skipped for task in self.tasks.values())
        return given_up + sum(each.records_skipped for each in self.totals)

    @property
    def totals(self) -> list[TaskMeasures]:
        """The cumulative counts of each task, and of those that are not there any more: their sums never go back."""
        return [self._former, *(task.total for task in self.tasks.values())]

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

    def latencies_of_topic(self, topic: str, now: float) -> tuple[Sequence[int], int] | None:
        """Of the last minute: records by bucket, and the largest latency, 0 if it is not known; None without records."""
        found = self._of_topics.get(topic)
        if found is None:
            return None
        counts, most = found.counted(now)
        return (counts, most) if any(counts) else None

    # Problems.

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

    # What is forgotten.

    def keeps(self, what: object, tasks: int) -> bool:
        """Whether it has forgotten all but this already, and nothing has come since."""
        now = (what, (tasks, len(self.partitions), len(self.groups), len(self.tasks)))
        (kept, counts), self._kept = self._kept, now
        return kept is what and counts == now[1]

    def keep(self, partitions: Iterable[TopicPartition], groups: Iterable[str], tasks: int) -> None:
        """Forgets all other partitions and groups, and tasks from this number on. Its own sums stay."""
        kept = set(partitions)
        self.partitions = {each: known for each, known in self.partitions.items() if each in kept}
        topics = {each.topic for each in kept}
        self._of_topics = {each: known for each, known in self._of_topics.items() if each in topics}
        kept_groups = set(groups)
        self.groups = {each: known for each, known in self.groups.items() if each in kept_groups}
        for number in [each for each in self.tasks if each >= tasks]:
            gone = self.tasks.pop(number)
            self._former = both(self._former, gone.total)
            self._formerly_given_up += gone.skipped
