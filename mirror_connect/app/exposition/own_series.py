"""The series of this product: name, type, labels, unit and meaning of each. docs/metrics.md is made from this table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mirror_connect.app.exposition.kafka_names import Kind


@dataclass(frozen=True, slots=True)
class OwnSeries:
    """A series named `mirror_connect_…`; `unit` for the page alone, as the name ends with it where it has one."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    unit: str
    meaning: str


_OF: Final = ("source", "target", "connector")
_PARTITION: Final = (*_OF, "topic", "partition")
_TASK: Final = (*_OF, "task")
_GROUP: Final = (*_OF, "group")


def _series(name: str, kind: Kind, labels: tuple[str, ...], unit: str, meaning: str) -> OwnSeries:
    return OwnSeries(f"mirror_connect_{name}", kind, labels, unit, meaning)


_GAUGE, _COUNTER, _HISTOGRAM = Kind.GAUGE, Kind.COUNTER, Kind.HISTOGRAM

# The worker.
BUILD: Final = _series("build_info", _GAUGE, ("version",), "", "Always 1, with the version of this worker.")
LEADS: Final = _series(
    "worker_leads", _GAUGE, ("flow",), "",
    "1 if this worker leads its group and so decides what runs where, 0 if it does not.",
)  # fmt: skip
LEASE: Final = _series(
    "worker_lease_seconds", _GAUGE, ("flow",), "seconds",
    "For how long the worker may still let its tasks write without another heartbeat.",
)  # fmt: skip
UP: Final = _series("spark_up", _GAUGE, (), "", "1 if Spark runs, 0 if it starts or has ended.")
SLOTS: Final = _series("spark_slots", _GAUGE, (), "", "How many tasks Spark can run at a time.")
SLOTS_WANTED: Final = _series("spark_slots_wanted", _GAUGE, (), "", "How many slots the tasks of this worker need.")
PROCESS_MEMORY: Final = _series(
    "process_memory_bytes", _GAUGE, ("process",), "bytes",
    "Resident memory by kind: worker, driver and jvm of Spark, tasks, verification. Forks share some of it.",
)  # fmt: skip
PROCESS_CPU: Final = _series(
    "process_cpu_seconds_total", _COUNTER, ("process",), "seconds", "Processor time of the same processes."
)

# Connectors and tasks.
CONNECTOR_STATE: Final = _series(
    "connector_state", _GAUGE, (*_OF, "state"), "", "1 for the state that the connector has, 0 for the others."
)
CONNECTOR_TASKS: Final = _series(
    "connector_tasks", _GAUGE, _OF, "",
    "Tasks that the connector's config asks for, at whichever worker they run. Only the leader shows it.",
)  # fmt: skip
TASK_STATE: Final = _series(
    "task_state", _GAUGE, (*_TASK, "state"), "", "1 for the state that the task has, 0 for the others."
)
TASK_SILENT: Final = _series(
    "task_silent_seconds", _GAUGE, _TASK, "seconds",
    "For how long a task of this worker has reported nothing. Without a report for 10 s its figures are left out.",
)  # fmt: skip
TASK_STARTS: Final = _series(
    "task_attempts_total", _COUNTER, _TASK, "",
    "Processes and epochs that have run the task: one, and one more for each epoch and each restart.",
)  # fmt: skip
TASK_EPOCHS: Final = _series(
    "task_epochs_total", _COUNTER, _TASK, "",
    "Epochs of the task that ended as planned, about every 15 minutes, before it went on in the next one.",
)  # fmt: skip
TASK_RESTARTS: Final = _series(
    "task_restarts_total", _COUNTER, _TASK, "",
    "Restarts of the task that no epoch planned: a process died or was killed, or it had failed, or REST restarted, "
    "resumed or reconfigured it.",
)  # fmt: skip
TASK_LEASE: Final = _series(
    "task_lease_seconds", _GAUGE, _TASK, "seconds",
    "For how long the task could still write, when it last reported. Each answer of the worker renews it.",
)  # fmt: skip
POSITION_AGE: Final = _series(
    "source_offset_age_seconds", _GAUGE, _TASK, "seconds",
    "Age of the last commit of source offsets. A crash repeats about so much.",
)  # fmt: skip
COMMITS: Final = _series("offset_commits_total", _COUNTER, _TASK, "", "Commits of source offsets.")
FAILED_COMMITS: Final = _series("offset_commit_failures_total", _COUNTER, _TASK, "", "Commits that failed.")
BUFFERED: Final = _series("buffered_bytes", _GAUGE, _TASK, "bytes", "Bytes that the task has fetched and still holds.")
BUFFER: Final = _series("buffer_limit_bytes", _GAUGE, _TASK, "bytes", "The most bytes that the task holds.")

# Partitions.
LAG_RECORDS: Final = _series(
    "lag_records", _GAUGE, _PARTITION, "",
    "Offsets between the last one that the target has and the end of the source partition. Absent if unknown.",
)  # fmt: skip
LAG_SECONDS: Final = _series(
    "lag_seconds", _GAUGE, _PARTITION, "seconds",
    "Age of the oldest record that is not on the target; 0 at rest. Absent if unknown.",
)  # fmt: skip
RECORDS: Final = _series("records_total", _COUNTER, _PARTITION, "", "Records that the target has acknowledged.")
BYTES: Final = _series(
    "bytes_total", _COUNTER, _PARTITION, "bytes", "Bytes that the target has acknowledged, with the headers of batches."
)
PARTITIONS: Final = _series(
    "partitions", _GAUGE, (*_OF, "state"), "",
    "Partitions by lag: behind, at_rest, unknown. A partition is unknown if its task or the source tells nothing.",
)  # fmt: skip

# What was done.
LATENCY: Final = _series(
    "replication_latency_seconds", _HISTOGRAM, _OF, "seconds", "Age of records when the target had acknowledged them."
)
BATCHES: Final = _series(
    "batches_total", _COUNTER, (*_OF, "action"), "",
    "Batches by what was done with them: copied as they are, merged, reencoded, split, dropped, repeated.",
)  # fmt: skip
BATCH_BYTES: Final = _series("batch_bytes_total", _COUNTER, (*_OF, "action"), "bytes", "The bytes of these batches.")
FILTERED: Final = _series(
    "filtered_records_total", _COUNTER, _OF, "",
    "Records that transformations have dropped. A task that starts again counts what it reads again.",
)  # fmt: skip
SAVED: Final = _series(
    "compression_saved_bytes", _GAUGE, _OF, "bytes",
    "About how many bytes less were sent because batches stayed compressed. Estimated from samples.",
)  # fmt: skip
_REQUEST: Final = (*_OF, "side", "request")
REQUESTS: Final = _series(
    "requests_total", _COUNTER, _REQUEST, "", "Answered requests to brokers of the source or the target, by kind."
)
REQUEST_ERRORS: Final = _series(
    "request_errors_total",
    _COUNTER,
    _REQUEST,
    "",
    "Requests without an answer: the connection broke, or it took too long.",
)
REQUEST_TIME: Final = _series(
    "request_seconds_total", _COUNTER, _REQUEST, "seconds",
    "Time from the requests to their answers, added up. A Fetch waits at the broker for records.",
)  # fmt: skip
REQUEST_SENT: Final = _series("request_sent_bytes_total", _COUNTER, _REQUEST, "bytes", "Bytes of these requests.")
REQUEST_RECEIVED: Final = _series("request_received_bytes_total", _COUNTER, _REQUEST, "bytes", "Bytes of the answers.")
THROTTLED: Final = _series(
    "request_throttled_seconds_total", _COUNTER, _REQUEST, "seconds", "For how long brokers have told to wait (quotas)."
)

# Groups.
READ_AGAIN: Final = _series(
    "group_read_again_records", _GAUGE, _GROUP, "",
    "Records that consumers would read once more if they failed over to the target now.",
)  # fmt: skip
SKIPPED: Final = _series(
    "group_skipped_records", _GAUGE, _GROUP, "", "Records that consumers would not get if they failed over now."
)
UNTRANSLATED: Final = _series(
    "group_untranslated_partitions", _GAUGE, _GROUP, "",
    "Partitions of a group that have no translated offset: consumers would begin as auto.offset.reset says.",
)  # fmt: skip
SYNCED: Final = _series(
    "group_synced_timestamp_seconds", _GAUGE, _GROUP, "seconds",
    "When the group's offsets on the target were last found or made equal to the translated ones (Unix time).",
)  # fmt: skip

# Lookups.
LOOKUP_AGE: Final = _series(
    "lookup_age_seconds", _GAUGE, (*_OF, "lookup"), "seconds",
    "For how long the rows of a lookup were not found to be those of its file or topic. While it can be read, at most its "
    "refresh interval.",
)  # fmt: skip

# Sampling verification (verify.follow.enabled).
VERIFY_COPIED: Final = _series(
    "verify_copied_records_total", _COUNTER, _OF, "",
    "Records copied since sampling verification began, by source offsets. Absent without verify.follow.enabled.",
)  # fmt: skip
VERIFY_COMPARED: Final = _series(
    "verify_compared_records_total", _COUNTER, _OF, "", "Of these, records whose copy was compared with its source."
)
VERIFY_COUNTED: Final = _series(
    "verify_counted_records_total", _COUNTER, _OF, "",
    "Of these, records that were only counted: the samples around them prove that none is missing or doubled.",
)  # fmt: skip
VERIFY_FINDINGS: Final = _series(
    "verify_findings_total", _COUNTER, (*_OF, "kind"), "",
    "Records with a fault, by kind: missing, doubled, reordered, changed, foreign, unreadable.",
)  # fmt: skip
VERIFY_AGE: Final = _series(
    "verify_result_age_seconds", _GAUGE, _OF, "seconds",
    "For how long sampling verification has told no result. While it works it tells one every 10 to 20 s.",
)  # fmt: skip

# Problems.
PROBLEMS: Final = _series(
    "problems", _GAUGE, _OF, "", "Present problems of a connector and its tasks, as the status shows them."
)
PROBLEM: Final = _series(
    "problem_start_timestamp_seconds", _GAUGE, (*_OF, "task", "code", "subject"), "seconds",
    "One series for each present problem, at most 20 of each task: since when it is there (Unix time).",
)  # fmt: skip

ALL: Final = tuple(value for value in globals().values() if isinstance(value, OwnSeries))
