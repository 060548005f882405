"""The series mirror_connect_… of a scrape: what this product measures, with names and labels of own_series.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from mirror_connect.app.exposition import own_series as own
from mirror_connect.app.exposition.kafka_names import Kind
from mirror_connect.app.exposition.measured import MeasuredConnector, MeasuredProcess, MeasuredWorker
from mirror_connect.app.exposition.own_series import OwnSeries
from mirror_connect.app.exposition.page import (
    AT_ONCE,
    Histograms,
    PartitionLabels,
    Samples,
    Series,
    Summaries,
    label_text,
)
from mirror_connect.app.exposition.partition_rows import PartitionRow
from mirror_connect.app.metrics.group_metrics import GroupMetrics
from mirror_connect.app.metrics.task_metrics import TaskMetrics
from mirror_connect.connectors.task_measures import LATENCY_BUCKETS_MS, RequestMeasures, TaskMeasures
from mirror_connect.connectors.verified_records import VerifiedRecords

STATES: Final = ("RUNNING", "PAUSED", "STOPPED", "FAILED", "UNASSIGNED", "RESTARTING")
_BOUNDS_S: Final = tuple(bound / 1000 for bound in LATENCY_BUCKETS_MS)
_Sampled = tuple[str, float]


class OwnReading:
    """See the module. `rows`: of each copying connector, as partition_rows gives them."""

    def __init__(
        self,
        process: MeasuredProcess,
        rows: Sequence[tuple[MeasuredWorker, MeasuredConnector, Sequence[PartitionRow]]],
    ) -> None:
        self._process = process
        self._rows = rows

    def all(self) -> Iterator[Series | None]:
        """Each series once. None: a place for a pause."""
        yield from self._of_process()
        yield from self._of_states()
        yield from self._of_tasks()
        yield from self._of_partitions()
        yield from self._of_work()
        yield from self._of_groups()
        yield from self._of_lookups()
        yield from self._of_verification()
        yield from self._of_problems()

    def _of_process(self) -> Iterator[Series]:
        yield _samples(own.BUILD, [((self._process.version,), 1)])
        workers = self._process.workers
        yield _samples(own.LEADS, [((each.flow,), int(each.leads)) for each in workers])
        yield _samples(own.LEASE, [((each.flow,), each.lease_s) for each in workers if each.lease_s is not None])
        spark = self._process.spark
        if spark is None:
            return
        yield _samples(own.UP, [((), int(spark.up))])
        yield _samples(own.SLOTS, [] if spark.slots is None else [((), spark.slots)])
        yield _samples(own.SLOTS_WANTED, [((), spark.wanted)])
        yield _samples(own.PROCESS_MEMORY, [((kind,), each.memory) for kind, each in spark.processes.items()])
        yield _samples(own.PROCESS_CPU, [((kind,), each.cpu_s) for kind, each in spark.processes.items()])
        if (jvm := spark.jvm) is not None:
            memory = [(label_text([("area", area)]), used) for area, used in jvm.memory.items()]
            yield Samples("jvm_memory_used_bytes", Kind.GAUGE, "Memory of Spark's JVM in use.", memory)
            threads = [] if jvm.threads is None else [("", jvm.threads)]
            yield Samples("jvm_threads_current", Kind.GAUGE, "Threads of Spark's JVM.", threads)
            yield Summaries(
                "jvm_gc_collection_seconds",
                "Garbage collections of Spark's JVM.",
                [(label_text([("gc", name)]), *each) for name, each in jvm.collections.items()],
            )

    def _of_states(self) -> Iterator[Samples]:
        connectors = [(_of(each), each) for _, each in self._connectors()]
        yield _samples(
            own.CONNECTOR_STATE,
            [
                ((*of, state), int(each.state == state))
                for of, each in connectors
                if each.state is not None
                for state in STATES
            ],
        )
        yield _samples(
            own.CONNECTOR_TASKS, [row for worker in self._process.workers for row in worker.wanted_tasks.items()]
        )
        yield _samples(
            own.TASK_STATE,
            [
                ((*of, str(task), state), int(found == state))
                for of, each in connectors
                for task, found in each.tasks.items()
                for state in STATES
            ],
        )

    def _of_tasks(self) -> Iterator[Samples]:
        heard = [
            ((*_of(connector), str(number)), worker.now - task.heard)
            for worker, connector, number, task in self._tasks()
            if task.heard_ms is not None and connector.tasks.get(number) == "RUNNING"
        ]
        yield _samples(own.TASK_SILENT, [(labels, max(0.0, silent)) for labels, silent in heard])
        told = [((*_of(connector), str(number)), task) for _, connector, number, task in self._tasks()]
        yield _samples(own.TASK_STARTS, [(labels, task.attempts) for labels, task in told])
        yield _samples(own.TASK_EPOCHS, [(labels, task.epochs) for labels, task in told])
        yield _samples(own.TASK_RESTARTS, [(labels, task.restarts) for labels, task in told])
        known = [
            ((*_of(connector), str(number)), worker, task)
            for worker, connector, number, task in self._tasks()
            if task.measures(worker.now)
        ]
        yield _samples(
            own.TASK_LEASE,
            [(labels, task.told.lease_ms / 1000) for labels, _, task in known if task.told.lease_ms is not None],
        )
        yield _samples(
            own.POSITION_AGE,
            [
                (labels, max(0, worker.now_ms - task.told.committed_ms) / 1000)
                for labels, worker, task in known
                if task.told.committed_ms is not None
            ],
        )
        copying = [(labels, task) for labels, _, task in known if task.told.buffer_bytes]
        yield _samples(own.COMMITS, [(labels, task.total.commits) for labels, task in copying])
        yield _samples(own.FAILED_COMMITS, [(labels, task.total.failed_commits) for labels, task in copying])
        yield _samples(own.BUFFERED, [(labels, task.told.buffered_bytes) for labels, task in copying])
        yield _samples(own.BUFFER, [(labels, task.told.buffer_bytes) for labels, task in copying])

    def _of_partitions(self) -> Iterator[Samples | None]:
        labelled: list[tuple[str, PartitionRow]] = []
        counts: list[tuple[tuple[str, ...], float]] = []
        for _, connector, rows in self._rows:
            of = _of(connector)
            labels = PartitionLabels(zip(own.RECORDS.labels, of, strict=False))
            for place, row in enumerate(rows, 1):
                labelled.append((labels.text(row.topic, row.partition), row))
                if place % AT_ONCE == 0:
                    yield None
            behind, at_rest = sum(row.behind for row in rows), sum(row.at_rest for row in rows)
            unknown = len(connector.partitions) - behind - at_rest
            told = {"behind": behind, "at_rest": at_rest, "unknown": unknown}
            counts += [((*of, state), count) for state, count in told.items()]
        for series, value in _OF_PARTITIONS:
            rows_of = ((labels, known) for labels, row in labelled if (known := value(row)) is not None)
            yield Samples(series.name, series.kind, series.meaning, rows_of)
        yield _samples(own.PARTITIONS, counts)

    def _of_work(self) -> Iterator[Samples | Histograms]:
        totals: list[tuple[tuple[str, ...], list[TaskMeasures], Sequence[int]]] = []
        for _, connector in self._connectors():
            if connector.metrics is not None:
                totals.append((_of(connector), connector.metrics.totals, connector.metrics.latency_counts))
        yield Histograms(
            own.LATENCY.name,
            own.LATENCY.meaning,
            _BOUNDS_S,
            [
                (_labels(own.LATENCY, of), counts, sum(each.latency_total_ms for each in told) / 1000)
                for of, told, counts in totals
                if any(counts)
            ],
        )
        actions = [
            ((*of, action), count, size)
            for of, told, _ in totals
            for action, (count, size) in _summed_batches(told).items()
        ]
        yield _samples(own.BATCHES, [(labels, count) for labels, count, _ in actions])
        yield _samples(own.BATCH_BYTES, [(labels, size) for labels, _, size in actions])
        yield _samples(
            own.FILTERED, [(of, sum(each.filtered for each in told)) for of, told, counts in totals if counts]
        )
        yield _samples(
            own.SAVED,
            [
                (of, sum(each.saved_bytes for each in told))
                for of, told, _ in totals
                if any(each.sampled[0] for each in told)
            ],
        )
        requests: dict[tuple[str, ...], list[RequestMeasures]] = {}
        for of, told, _ in totals:
            for each in told:
                for request in each.requests:
                    requests.setdefault((*of, request.side, request.kind), []).append(request)
        for series, value in _OF_REQUESTS:
            yield _samples(series, [(labels, sum(value(each) for each in some)) for labels, some in requests.items()])

    def _of_groups(self) -> Iterator[Samples]:
        groups: list[tuple[tuple[str, ...], GroupMetrics]] = []
        for worker, connector in self._connectors():
            for name in connector.groups:
                found = None if connector.metrics is None else connector.metrics.group(name, worker.now)
                if found is not None:
                    groups.append(((*_of(connector), name), found))
        for series, value in _OF_GROUPS:
            yield _samples(series, [(of, known) for of, each in groups if (known := value(each)) is not None])

    def _of_lookups(self) -> Iterator[Samples]:
        found = [((*_of(each), name), age) for _, each in self._connectors() for name, age in each.lookups.items()]
        yield _samples(own.LOOKUP_AGE, found)

    def _of_verification(self) -> Iterator[Samples]:
        found = [
            (_of(connector), connector.metrics.verification.total, worker.now - told)
            for worker, connector in self._connectors()
            if connector.metrics is not None and (told := connector.metrics.verification.told) is not None
        ]
        for series, value in _OF_VERIFICATION:
            yield _samples(series, [(of, value(verified)) for of, verified, _ in found])
        yield _samples(
            own.VERIFY_FINDINGS,
            [((*of, kind), count) for of, verified, _ in found for kind, count in verified.findings.items()],
        )
        yield _samples(own.VERIFY_AGE, [(of, max(0.0, age)) for of, _, age in found])

    def _of_problems(self) -> Iterator[Samples]:
        counts: list[tuple[tuple[str, ...], float]] = []
        found: list[tuple[tuple[str, ...], float]] = []
        for worker, connector in self._connectors():
            if connector.metrics is None:
                continue
            of, problems = _of(connector), connector.metrics.present_problems(worker.now)
            counts.append((of, len(problems) + connector.metrics.more_problems(worker.now)))
            since: dict[tuple[str, ...], float] = {}
            for each in problems:
                task = "" if each.task is None else str(each.task)
                since.setdefault((*of, task, each.code.value, each.subject), each.since_ms / 1000)
            found += since.items()
        yield _samples(own.PROBLEMS, counts)
        yield _samples(own.PROBLEM, found)

    def _connectors(self) -> Iterator[tuple[MeasuredWorker, MeasuredConnector]]:
        return ((worker, each) for worker in self._process.workers for each in worker.connectors)

    def _tasks(self) -> Iterator[tuple[MeasuredWorker, MeasuredConnector, int, TaskMetrics]]:
        for worker, connector in self._connectors():
            if connector.metrics is not None:
                for number, task in connector.metrics.tasks.items():
                    yield worker, connector, number, task


def _of(connector: MeasuredConnector) -> tuple[str, str, str]:
    return connector.source, connector.target, connector.name


def _samples(series: OwnSeries, rows: Iterable[tuple[Sequence[str], float]]) -> Samples:
    return Samples(
        series.name, series.kind, series.meaning, ((_labels(series, values), value) for values, value in rows)
    )


def _labels(series: OwnSeries, values: Sequence[str]) -> str:
    return label_text(zip(series.labels, values, strict=True))


def _summed_batches(told: Iterable[TaskMeasures]) -> dict[str, tuple[int, int]]:
    summed: dict[str, tuple[int, int]] = {}
    for each in told:
        for action, (count, size) in each.batches.items():
            before = summed.get(action, (0, 0))
            summed[action] = (before[0] + count, before[1] + size)
    return summed


_OF_PARTITIONS: Final[tuple[tuple[OwnSeries, Callable[[PartitionRow], float | None]], ...]] = (
    (own.LAG_RECORDS, lambda row: row.lag),
    (own.LAG_SECONDS, lambda row: row.lag_s),
    (own.RECORDS, lambda row: row.records),
    (own.BYTES, lambda row: row.bytes),
)
_OF_REQUESTS: Final[tuple[tuple[OwnSeries, Callable[[RequestMeasures], float]], ...]] = (
    (own.REQUESTS, lambda each: each.requests),
    (own.REQUEST_ERRORS, lambda each: each.errors),
    (own.REQUEST_TIME, lambda each: each.total_ms / 1000),
    (own.REQUEST_SENT, lambda each: each.sent),
    (own.REQUEST_RECEIVED, lambda each: each.received),
    (own.THROTTLED, lambda each: each.throttled_ms / 1000),
)
_OF_VERIFICATION: Final[tuple[tuple[OwnSeries, Callable[[VerifiedRecords], float]], ...]] = (
    (own.VERIFY_COPIED, lambda each: each.copied),
    (own.VERIFY_COMPARED, lambda each: each.compared),
    (own.VERIFY_COUNTED, lambda each: each.counted),
)
_OF_GROUPS: Final[tuple[tuple[OwnSeries, Callable[[GroupMetrics], float | None]], ...]] = (
    (own.READ_AGAIN, lambda each: each.read_again),
    (own.SKIPPED, lambda each: each.skipped),
    (own.UNTRANSLATED, lambda each: each.untranslated),
    (own.SYNCED, lambda each: None if each.told.synced_ms is None else each.told.synced_ms / 1000),
)
