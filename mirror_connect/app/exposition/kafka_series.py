"""Kafka's own metrics of a scrape: what this process measures, under Kafka's names and with its tags."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from mirror_connect.app.exposition import kafka_metrics as kafka
from mirror_connect.app.exposition.kafka_names import KafkaMetric, NameSet, tag_value
from mirror_connect.app.exposition.measured import (
    LEGACY,
    NEW,
    SOURCE,
    MeasuredConnector,
    MeasuredProcess,
    MeasuredWorker,
)
from mirror_connect.app.exposition.page import AT_ONCE, PartitionLabels, Samples, label_text
from mirror_connect.app.exposition.partition_rows import Detail, PartitionRow
from mirror_connect.app.metrics.task_metrics import TaskMetrics
from mirror_connect.connectors.task_measures import SOURCE as SOURCE_SIDE
from mirror_connect.connectors.task_measures import GroupPartition, RequestMeasures, Window

# (labels as text, row)
Row = tuple[str, PartitionRow]
_Sampled = tuple[str, float]


class KafkaSeries:
    """See the module. `names`: whose names; `rows`: of each copying connector, as partition_rows gives them."""

    def __init__(
        self,
        process: MeasuredProcess,
        names: NameSet,
        rows: Sequence[tuple[MeasuredWorker, MeasuredConnector, Sequence[PartitionRow]]],
        detail: Detail,
    ) -> None:
        self._process = process
        self._names = names
        self._rows = rows
        self._detail = detail

    def all(self) -> Iterator[Samples | None]:
        """Each series once, also those without samples. None: a place for a pause."""
        yield from self._of_mirror_maker()
        yield from self._of_worker()
        yield from self._of_connectors()
        yield from self._of_tasks()
        yield from self._of_clients()

    # MirrorMaker.

    def _of_mirror_maker(self) -> Iterator[Samples | None]:
        for form, metrics in ((LEGACY, kafka.SOURCE_LEGACY), (NEW, kafka.SOURCE_NEW)):
            rows: list[Row] = []
            yield from self._label_rows(form, rows)
            if not rows:
                continue
            for metric, values in zip(metrics, _OF_RECORDS, strict=True):
                yield self._samples(metric, values(rows))
        checkpoints = list(self._checkpoints())
        for form, metrics in ((LEGACY, kafka.CHECKPOINT_LEGACY), (NEW, kafka.CHECKPOINT_NEW)):
            found = self._labelled_checkpoints(checkpoints, form, metrics[0])
            for metric, place in zip(metrics, range(4), strict=True):
                yield self._samples(metric, [(labels, values[place]) for labels, values in found.items()])

    def _label_rows(self, form: str, labelled: list[Row]) -> Iterator[None]:
        """Adds each row once with its labels to `labelled`."""
        # Two connectors with one topic and the same aliases: an MBean has room for one of them.
        seen: set[str] = set()
        for _, connector, rows in self._rows:
            if form not in connector.formats:
                continue
            of_tasks: dict[int, PartitionLabels] = {}
            for place, row in enumerate(rows, 1):
                labels = of_tasks.get(row.task)
                if labels is None:
                    labels = of_tasks[row.task] = self._partition_labels(connector, row.task, form)
                text = labels.text(row.remote_topic, row.partition)
                if text not in seen:
                    seen.add(text)
                    labelled.append((text, row))
                if place % AT_ONCE == 0:
                    yield None

    def _partition_labels(self, connector: MeasuredConnector, task: int, form: str) -> PartitionLabels:
        before = [("source", connector.source), ("target", connector.target)]
        if form == NEW:
            before = [("connector", connector.name), ("task", str(task)), *before]
        quoted = partial(tag_value, names=self._names)
        return PartitionLabels([(name, quoted(value)) for name, value in before], quoted)

    def _checkpoints(self) -> Iterator[tuple[MeasuredConnector, int, str, GroupPartition, Window]]:
        for worker, connector in self._connectors():
            if connector.metrics is None:
                continue
            for name in connector.groups:
                group = connector.metrics.group(name, worker.now)
                if group is None:
                    continue
                for each in group.told.partitions:
                    latency = group.latencies.get((each.topic, each.partition))
                    if latency is not None:
                        yield connector, group.task, name, each, latency

    def _labelled_checkpoints(
        self,
        checkpoints: Iterable[tuple[MeasuredConnector, int, str, GroupPartition, Window]],
        form: str,
        metric: KafkaMetric,
    ) -> dict[str, tuple[float, ...]]:
        windows: dict[str, Window] = {}
        for connector, task, group, each, latency in checkpoints:
            if form not in connector.formats:
                continue
            number = _number(each.partition if self._detail is Detail.PARTITION else None)
            tags = [connector.source, connector.target, group, each.remote_topic, *number]
            if form == NEW:
                tags = [connector.name, str(task), *tags]
            labels = self._label(metric, tags)
            windows[labels] = latency.plus(windows.get(labels))
        return {
            labels: (each.total / each.count, each.least, each.most, each.total / each.count)
            for labels, each in windows.items()
        }

    # Connect.

    def _of_worker(self) -> Iterator[Samples]:
        workers = self._process.workers
        yield self._samples(kafka.CONNECTOR_COUNT, [("", sum(map(_run_here, workers)))])
        tasks = sum(len(connector.tasks) for _, connector in self._connectors())
        yield self._samples(kafka.TASK_COUNT, [("", tasks)])
        members = [each for each in workers if each.member is not None]
        for metric, count in _ASSIGNED:
            yield self._samples(metric, [(self._label(metric, [each.member or ""]), count(each)) for each in members])
        known = [each.rebalancing for each in workers if each.rebalancing is not None]
        yield self._samples(kafka.REBALANCING, [("", int(any(known)))] if known else [])
        epochs = [each.epoch for each in workers if each.epoch is not None]
        yield self._samples(kafka.EPOCH, [("", max(epochs))] if epochs else [])
        told = [each.rebalances for each in workers if each.rebalances is not None]
        completed = [("", sum(each.completed for each in told))] if told else []
        yield self._samples(kafka.COMPLETED_REBALANCES, completed)
        recent: Window | None = None
        for each in told:
            recent = recent if each.recent is None else each.recent.plus(recent)
        yield self._samples(kafka.REBALANCE_AVG, [("", recent.total / recent.count)] if recent else [])
        yield self._samples(kafka.REBALANCE_MAX, [("", recent.most)] if recent else [])
        ended = [each.since_ms for each in told if each.since_ms is not None]
        yield self._samples(kafka.SINCE_REBALANCE, [("", min(ended))] if ended else [])
        leaders = dict.fromkeys(each.leader for each in workers if each.leader is not None)
        yield self._samples(kafka.LEADER_NAME, [(self._label(kafka.LEADER_NAME, [each]), 1) for each in leaders])

    def _of_connectors(self) -> Iterator[Samples]:
        connectors = [each for _, each in self._connectors()]
        itself = [each for each in connectors if each.itself]
        yield self._samples(
            kafka.TOTAL_TASKS, [(self._label(kafka.TOTAL_TASKS, [each.name]), len(each.tasks)) for each in connectors]
        )
        for state, metric in kafka.TASKS_BY_STATE.items():
            counts = [(each.name, sum(found == state for found in each.tasks.values())) for each in connectors]
            yield self._samples(metric, [(self._label(metric, [name]), count) for name, count in counts])
        version = self._process.version
        states = [(each.name, str(task), state.lower()) for each in connectors for task, state in each.tasks.items()]
        for metric, texts in (
            (kafka.CONNECTOR_STATUS, [(each.name, (each.state or "").lower()) for each in connectors]),
            (kafka.CONNECTOR_CLASS, [(each.name, each.class_name) for each in itself]),
            (kafka.CONNECTOR_TYPE, [(each.name, SOURCE) for each in itself]),
            (kafka.CONNECTOR_VERSION, [(each.name, version) for each in itself]),
        ):
            rows = [(self._label(metric, [name, told]), 1) for name, told in texts if told]
            if metric is kafka.CONNECTOR_STATUS and self._names is NameSet.JMX:
                # Strimzi's rules for MirrorMaker give this name to the states of tasks, those for Connect to connectors.
                rows += [(self._label(kafka.TASK_STATUS, each), 1) for each in states]
            yield self._samples(metric, rows)
        yield self._samples(kafka.TASK_STATUS, [(self._label(kafka.TASK_STATUS, each), 1) for each in states])

    def _of_tasks(self) -> Iterator[Samples]:
        tasks = [
            (connector, number, task)
            for worker, connector, number, task in self._tasks()
            if connector.kind == SOURCE and task.measures(worker.now)
        ]
        waiting: dict[tuple[str, int], int] = {}
        for _, connector, rows in self._rows:
            for row in rows:
                key = (connector.name, row.task)
                waiting[key] = waiting.get(key, 0) + row.waiting

        def samples(
            metric: KafkaMetric, value: Callable[[MeasuredConnector, int, TaskMetrics], float | None]
        ) -> Samples:
            found = []
            for connector, number, task in tasks:
                known = value(connector, number, task)
                if known is not None:
                    found.append((self._label(metric, [connector.name, str(number)]), known))
            return self._samples(metric, found)

        yield samples(
            kafka.COMMIT_AVG,
            lambda _, __, task: None if (each := task.told.commit) is None else each.total / each.count,
        )
        yield samples(kafka.COMMIT_MAX, lambda _, __, task: None if task.told.commit is None else task.told.commit.most)
        for metric in (kafka.RECORD_ERRORS, kafka.RECORD_FAILURES):
            yield samples(metric, lambda _, __, task: task.skipped + task.total.record_errors)
        yield samples(kafka.RECORDS_SKIPPED, lambda _, __, task: task.skipped + task.total.records_skipped)
        yield samples(kafka.ERRORS_LOGGED, lambda _, __, task: task.total.errors_logged)
        yield samples(kafka.LETTERS, lambda _, __, task: task.total.dead_letters)
        yield samples(kafka.FAILED_LETTERS, lambda _, __, task: task.total.failed_dead_letters)
        yield samples(kafka.LAST_ERROR, lambda _, __, task: task.total.last_error_ms or 0)
        yield samples(kafka.POLLED, lambda _, __, task: sum(task.total.latency_counts) + task.total.filtered)
        yield samples(kafka.WRITTEN, lambda _, __, task: sum(task.total.latency_counts))
        yield samples(kafka.ACTIVE, lambda connector, number, _: waiting.get((connector.name, number), 0))

    # Clients.

    def _lags(self, lags: list[_Sampled]) -> Iterator[None]:
        name, quoted = kafka.RECORDS_LAG.labels(self._names)[0], partial(tag_value, names=self._names)
        for _, connector, rows in self._rows:
            of_tasks: dict[int, PartitionLabels] = {}
            for place, row in enumerate(rows, 1):
                if place % AT_ONCE == 0:
                    yield None
                if row.lag is None:
                    continue
                labels = of_tasks.get(row.task)
                if labels is None:
                    before = [(name, quoted(_consumer(connector, row.task)))]
                    labels = of_tasks[row.task] = PartitionLabels(before, quoted)
                lags.append((labels.text(row.topic, row.partition), row.lag))

    def _of_clients(self) -> Iterator[Samples | None]:
        lags: list[_Sampled] = []
        yield from self._lags(lags)
        yield self._samples(kafka.RECORDS_LAG, lags)
        consumers: dict[str, list[RequestMeasures]] = {}
        producers: dict[str, list[RequestMeasures]] = {}
        buffers: list[tuple[str, TaskMetrics]] = []
        open_: dict[KafkaMetric, list[tuple[str, int]]] = {
            kafka.CONSUMER_CONNECTIONS: [],
            kafka.PRODUCER_CONNECTIONS: [],
        }
        for worker, connector, number, task in self._tasks():
            if not task.measures(worker.now):
                continue
            producer = f"connector-producer-{connector.name}-{number}"
            for request in task.total.requests:
                if request.side != SOURCE_SIDE:
                    producers.setdefault(producer, []).append(request)
                elif connector.kind == SOURCE:
                    consumers.setdefault(_consumer(connector, number), []).append(request)
            if connector.kind == SOURCE:
                open_[kafka.CONSUMER_CONNECTIONS].append((_consumer(connector, number), task.told.connections[0]))
            open_[kafka.PRODUCER_CONNECTIONS].append((producer, task.told.connections[1]))
            if task.told.buffer_bytes:
                buffers.append((producer, task))
        for metrics, clients in ((kafka.CONSUMER, consumers), (kafka.PRODUCER, producers)):
            for metric, place in zip(metrics, ("received", "sent", "requests", "requests"), strict=True):
                sums = [(name, sum(getattr(each, place) for each in told)) for name, told in clients.items()]
                yield self._samples(metric, [(self._label(metric, [name]), total) for name, total in sums])
        for metric, counts in open_.items():
            yield self._samples(metric, [(self._label(metric, [name]), count) for name, count in counts])
        free = [(name, max(0, each.told.buffer_bytes - each.told.buffered_bytes)) for name, each in buffers]
        available = kafka.BUFFER_AVAILABLE
        yield self._samples(available, [(self._label(available, [name]), bytes_) for name, bytes_ in free])

    def _connectors(self) -> Iterator[tuple[MeasuredWorker, MeasuredConnector]]:
        return ((worker, each) for worker in self._process.workers for each in worker.connectors)

    def _tasks(self) -> Iterator[tuple[MeasuredWorker, MeasuredConnector, int, TaskMetrics]]:
        for worker, connector in self._connectors():
            if connector.metrics is not None:
                for number, task in connector.metrics.tasks.items():
                    yield worker, connector, number, task

    def _samples(self, metric: KafkaMetric, rows: Iterable[_Sampled]) -> Samples:
        return Samples(metric.named(self._names), metric.kind_by(self._names), metric.meaning, rows)

    def _label(self, metric: KafkaMetric, values: Sequence[str]) -> str:
        """The labels of a metric with the values of its tags; the text of a text is the last value and is not quoted."""
        names = metric.labels(self._names)
        return label_text(
            (name, tag_value(value, self._names) if place < len(metric.tags) else value)
            # Of a topic there is no partition.
            for place, (name, value) in enumerate(zip(names, values, strict=False))
        )


def _run_here(worker: MeasuredWorker) -> int:
    """How many connectors it runs, and not tasks of theirs alone."""
    return sum(each.itself for each in worker.connectors)


def _consumer(connector: MeasuredConnector, task: int) -> str:
    """The client id of MirrorSourceTask's consumer."""
    return f"{connector.source}->{connector.target}|{connector.bare_name}-{task}|replication-consumer"


def _number(partition: int | None) -> list[str]:
    return [] if partition is None else [str(partition)]


def _each(value: Callable[[PartitionRow], float | None]) -> Callable[[list[Row]], Iterator[_Sampled]]:
    def values(rows: list[Row]) -> Iterator[_Sampled]:
        return ((labels, known) for labels, row in rows if (known := value(row)) is not None)

    return values


def _age(place: int) -> Callable[[list[Row]], Iterator[_Sampled]]:
    return _each(lambda row: None if row.age is None else row.age[place])


def _latency(place: int) -> Callable[[list[Row]], Iterator[_Sampled]]:
    return _each(lambda row: None if row.latency is None else row.latency[place])


_ASSIGNED: Final[tuple[tuple[KafkaMetric, Callable[[MeasuredWorker], int]], ...]] = (
    (kafka.ASSIGNED_CONNECTORS, _run_here),
    (kafka.ASSIGNED_TASKS, lambda worker: sum(len(each.tasks) for each in worker.connectors)),
)
# In the order of kafka_metrics._OF_RECORDS.
_OF_RECORDS: Final = (
    _each(lambda row: row.records),
    _each(lambda row: row.record_rate),
    _each(lambda row: row.bytes),
    _each(lambda row: row.byte_rate),
    *(_age(place) for place in range(4)),
    *(_latency(place) for place in range(4)),
)
