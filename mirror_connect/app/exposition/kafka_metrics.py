"""The metrics of Kafka Connect, MirrorMaker 2 and Kafka's clients that this worker has, with Kafka's names.

What is not known here is left out, as Kafka's own ways of counting records in batches that nobody unpacks.
"""

from __future__ import annotations

from typing import Final

from mirror_connect.app.exposition.kafka_names import (
    CHECKPOINT_GROUP,
    CONNECT,
    MIRROR,
    PLUGINS_GROUP,
    SOURCE_GROUP,
    KafkaMetric,
    Kind,
)

_LEGACY: Final = ("source", "target", "topic", "partition")
_LEGACY_GROUP: Final = ("source", "target", "group", "topic", "partition")
_NEW: Final = ("connector", "task", "source", "target", "topic", "partition")
_NEW_GROUP: Final = ("connector", "task", "source", "target", "group", "topic", "partition")
_TASK: Final = ("connector", "task")
_CLIENT: Final = ("client-id",)

_STATISTICS: Final = (("", "the latest"), ("-min", "the smallest"), ("-max", "the largest"), ("-avg", "the mean"))
# The four of a window, in this order: latest, smallest, largest, mean.
_OF_RECORDS: Final = (
    ("record-count", "Records that the target has acknowledged."),
    ("record-rate", "Records that the target has acknowledged, each second of the last 15."),
    ("byte-count", "Bytes that the target has acknowledged, with the headers of batches."),
    ("byte-rate", "Bytes that the target has acknowledged, each second of the last 15."),
    *(
        (f"record-age-ms{ending}", f"Age of records when they were fetched, in ms: {what} of the last minute.")
        for ending, what in _STATISTICS
    ),
    *(
        (
            f"replication-latency-ms{ending}",
            f"Age of records when the target had them, in ms: {what} of the last minute.",
        )
        for ending, what in _STATISTICS
    ),
)
_OF_CHECKPOINTS: Final = tuple(
    (f"checkpoint-latency-ms{ending}", f"Age of checkpoints when the target had them, in ms: {what}, of the last ones.")
    for ending, what in _STATISTICS
)


def _gauge(domain: str, group: str, tags: tuple[str, ...], name: str, meaning: str) -> KafkaMetric:
    return KafkaMetric(domain, group, name, tags, Kind.GAUGE, meaning)


def _counter(domain: str, group: str, tags: tuple[str, ...], name: str, meaning: str) -> KafkaMetric:
    return KafkaMetric(domain, group, name, tags, Kind.COUNTER, meaning)


def _text(domain: str, group: str, tags: tuple[str, ...], name: str, meaning: str) -> KafkaMetric:
    return KafkaMetric(domain, group, name, tags, Kind.TEXT, meaning)


# Of source connectors; `topic` is the remote topic.
SOURCE_LEGACY: Final = tuple(_gauge(MIRROR, SOURCE_GROUP, _LEGACY, *each) for each in _OF_RECORDS)
SOURCE_NEW: Final = tuple(_gauge(CONNECT, PLUGINS_GROUP, _NEW, *each) for each in _OF_RECORDS)
CHECKPOINT_LEGACY: Final = tuple(_gauge(MIRROR, CHECKPOINT_GROUP, _LEGACY_GROUP, *each) for each in _OF_CHECKPOINTS)
CHECKPOINT_NEW: Final = tuple(_gauge(CONNECT, PLUGINS_GROUP, _NEW_GROUP, *each) for each in _OF_CHECKPOINTS)

_WORKER: Final = "connect-worker-metrics"
CONNECTOR_COUNT: Final = _gauge(CONNECT, _WORKER, (), "connector-count", "Connectors that this worker runs.")
TASK_COUNT: Final = _gauge(CONNECT, _WORKER, (), "task-count", "Tasks that this worker runs.")
TOTAL_TASKS: Final = _gauge(CONNECT, _WORKER, ("connector",), "connector-total-task-count", "Tasks of a connector.")
# By the state's name in the status topic. A task that is destroyed is none of its connector any more.
TASKS_BY_STATE: Final = {
    state.upper(): _gauge(
        CONNECT, _WORKER, ("connector",), f"connector-{state}-task-count", f"Tasks of a connector that are {state}."
    )
    for state in ("running", "paused", "failed", "unassigned", "restarting", "destroyed")
}

_COORDINATOR: Final = "connect-coordinator-metrics"
ASSIGNED_CONNECTORS: Final = _gauge(
    CONNECT, _COORDINATOR, _CLIENT, "assigned-connectors", "Connectors that are assigned to this worker."
)
ASSIGNED_TASKS: Final = _gauge(
    CONNECT, _COORDINATOR, _CLIENT, "assigned-tasks", "Tasks that are assigned to this worker."
)

_REBALANCE: Final = "connect-worker-rebalance-metrics"
REBALANCING: Final = _gauge(CONNECT, _REBALANCE, (), "rebalancing", "1 while the worker's group rebalances.")
EPOCH: Final = _gauge(CONNECT, _REBALANCE, (), "epoch", "Generation of the worker's group.")
LEADER_NAME: Final = _text(CONNECT, _REBALANCE, (), "leader-name", "The leader of the worker's group.")
COMPLETED_REBALANCES: Final = _counter(
    CONNECT, _REBALANCE, (), "completed-rebalances-total", "Rebalances that this worker has taken part in."
)
REBALANCE_AVG: Final = _gauge(
    CONNECT, _REBALANCE, (), "rebalance-avg-time-ms", "Time of a rebalance: the mean of the last minute."
)
REBALANCE_MAX: Final = _gauge(
    CONNECT, _REBALANCE, (), "rebalance-max-time-ms", "Time of a rebalance: the longest of the last minute."
)
SINCE_REBALANCE: Final = _gauge(
    CONNECT, _REBALANCE, (), "time-since-last-rebalance-ms", "Time since the last rebalance has ended."
)

_CONNECTOR: Final = "connector-metrics"
CONNECTOR_STATUS: Final = _text(CONNECT, _CONNECTOR, ("connector",), "status", "State of a connector.")
CONNECTOR_CLASS: Final = _text(CONNECT, _CONNECTOR, ("connector",), "connector-class", "Class of a connector.")
CONNECTOR_TYPE: Final = _text(CONNECT, _CONNECTOR, ("connector",), "connector-type", "Type of a connector: source.")
CONNECTOR_VERSION: Final = _text(CONNECT, _CONNECTOR, ("connector",), "connector-version", "Version of a connector.")

_CONNECTOR_TASK: Final = "connector-task-metrics"
TASK_STATUS: Final = _text(CONNECT, _CONNECTOR_TASK, _TASK, "status", "State of a task.")
COMMIT_AVG: Final = _gauge(
    CONNECT,
    _CONNECTOR_TASK,
    _TASK,
    "offset-commit-avg-time-ms",
    "Time of a commit of source offsets: the mean, latest.",
)
COMMIT_MAX: Final = _gauge(
    CONNECT,
    _CONNECTOR_TASK,
    _TASK,
    "offset-commit-max-time-ms",
    "Time of a commit of source offsets: the longest, latest.",
)

_SOURCE_TASK: Final = "source-task-metrics"
WRITTEN: Final = _counter(
    CONNECT, _SOURCE_TASK, _TASK, "source-record-write-total", "Records of a task that the target has acknowledged."
)
POLLED: Final = _counter(
    CONNECT, _SOURCE_TASK, _TASK, "source-record-poll-total",
    "Records of a task before transformations: those that the target has acknowledged, and those that were dropped.",
)  # fmt: skip
ACTIVE: Final = _gauge(
    CONNECT, _SOURCE_TASK, _TASK, "source-record-active-count",
    "Offsets that a task has fetched and the target has not acknowledged.",
)  # fmt: skip

_TASK_ERROR: Final = "task-error-metrics"
RECORD_ERRORS: Final = _gauge(
    CONNECT, _TASK_ERROR, _TASK, "total-record-errors",
    "Records that a task could not copy: those that transformations could not take, and those that are too large.",
)  # fmt: skip
RECORD_FAILURES: Final = _gauge(
    CONNECT, _TASK_ERROR, _TASK, "total-record-failures", "As total-record-errors, since nothing is tried twice."
)
RECORDS_SKIPPED: Final = _gauge(
    CONNECT, _TASK_ERROR, _TASK, "total-records-skipped",
    "Those of them that were left out, by errors.tolerance=all or on.oversize.record=skip.",
)  # fmt: skip
ERRORS_LOGGED: Final = _gauge(
    CONNECT, _TASK_ERROR, _TASK, "total-errors-logged",
    "Records that transformations could not take and that the log tells of, with errors.log.enable.",
)  # fmt: skip
LETTERS: Final = _gauge(
    CONNECT, _TASK_ERROR, _TASK, "deadletterqueue-produce-requests",
    "Records that were sent to the dead letter topic. What is read again counts again.",
)  # fmt: skip
FAILED_LETTERS: Final = _gauge(
    CONNECT, _TASK_ERROR, _TASK, "deadletterqueue-produce-failures",
    "Records that the dead letter topic has refused for good. They are read again after a restart of the task.",
)  # fmt: skip
LAST_ERROR: Final = _gauge(
    CONNECT, _TASK_ERROR, _TASK, "last-error-timestamp",
    "When transformations could not take a record last, in milliseconds since 1970; 0: never.",
)  # fmt: skip

RECORDS_LAG: Final = _gauge(
    "kafka.consumer", "consumer-fetch-manager-metrics", ("client-id", "topic", "partition"), "records-lag",
    "Offsets between the last one that the target has and the end of the source partition.",
)  # fmt: skip


def _client(domain: str, group: str, who: str) -> tuple[KafkaMetric, ...]:
    return (
        _counter(domain, group, _CLIENT, "incoming-byte-total", f"Bytes that the {who} has received."),
        _counter(domain, group, _CLIENT, "outgoing-byte-total", f"Bytes that the {who} has sent."),
        _counter(domain, group, _CLIENT, "request-total", f"Requests of the {who} that were answered."),
        _counter(domain, group, _CLIENT, "response-total", f"Answers that the {who} has received."),
    )


# Each in the order of _client: received, sent, requests, answers.
CONSUMER: Final = _client("kafka.consumer", "consumer-metrics", "consumer")
PRODUCER: Final = _client("kafka.producer", "producer-metrics", "producer")
CONSUMER_CONNECTIONS: Final = _gauge(
    "kafka.consumer", "consumer-metrics", _CLIENT, "connection-count", "Open connections of the consumer."
)
PRODUCER_CONNECTIONS: Final = _gauge(
    "kafka.producer", "producer-metrics", _CLIENT, "connection-count", "Open connections of the producer."
)
BUFFER_AVAILABLE: Final = _gauge(
    "kafka.producer", "producer-metrics", _CLIENT, "buffer-available-bytes", "Bytes that a task may still fetch."
)

ALL: Final = (
    *SOURCE_LEGACY, *SOURCE_NEW, *CHECKPOINT_LEGACY, *CHECKPOINT_NEW,
    CONNECTOR_COUNT, TASK_COUNT, TOTAL_TASKS, *TASKS_BY_STATE.values(), ASSIGNED_CONNECTORS, ASSIGNED_TASKS,
    REBALANCING, EPOCH, LEADER_NAME, CONNECTOR_STATUS, CONNECTOR_CLASS, CONNECTOR_TYPE, CONNECTOR_VERSION,
    TASK_STATUS, COMMIT_AVG, COMMIT_MAX, POLLED, WRITTEN, ACTIVE, RECORD_ERRORS, RECORD_FAILURES, RECORDS_SKIPPED,
    ERRORS_LOGGED, LETTERS, FAILED_LETTERS, LAST_ERROR, RECORDS_LAG,
    *CONSUMER, CONSUMER_CONNECTIONS, *PRODUCER, PRODUCER_CONNECTIONS, BUFFER_AVAILABLE,
)  # fmt: skip
