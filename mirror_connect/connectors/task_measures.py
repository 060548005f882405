"""What a task measures of its copying, as it travels in the task's reports. Definitions: docs/metrics.md.

A report has what changed since the report before, at most MOST_ROWS partitions; the others come with the next reports. So
a partition that is not in a report is as it was told last. Each comes once at the beginning, mostly with unknown lag.

Counts are cumulative: they only grow within an attempt (TaskReport.attempt), and begin at 0 with the next one. A `Window`
covers the time since the last report that had the same row: the reader adds windows up. Times end with `_ms`. Points in time
are ms since 1970 by the clock of the task's machine, which is the worker's too; durations are in ms.
None is unknown; it is never told as 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

# The most partitions in one report, and the most partitions of groups: a report must not block the task's loop for 2 ms.
MOST_ROWS: Final = 400
# The upper limits (inclusive) of the latency histogram's buckets; the last bucket, above all of these, has no limit.
LATENCY_BUCKETS_MS: Final = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000),
)
BUCKETS: Final = len(LATENCY_BUCKETS_MS) + 1

# Keys of TaskMeasures.batches: what was done with batches of the source.
COPIED: Final = "copied"
MERGED: Final = "merged"
REENCODED: Final = "reencoded"
SPLIT: Final = "split"
DROPPED: Final = "dropped"
REPEATED: Final = "repeated"
DONE_WITH_BATCHES: Final = (COPIED, MERGED, REENCODED, SPLIT, DROPPED, REPEATED)

# Values of RequestMeasures.side.
SOURCE: Final = "source"
TARGET: Final = "target"


class Window(NamedTuple):
    """Durations of one kind since the last report: smallest, largest, sum (all in ms), and how many. `count` is above 0."""

    least: int
    most: int
    total: int
    count: int  # type: ignore[assignment]

    def plus(self, other: Window | None) -> Window:
        """Both windows as one."""
        if other is None:
            return self
        least, most = min(self.least, other.least), max(self.most, other.most)
        return Window(least, most, self.total + other.total, self.count + other.count)


class PartitionMeasures(NamedTuple):
    """A source partition of a task. On the wire: a list in this order.

    `remote_topic`: the topic on the target.
    "On the target" is what a reader of committed records sees there: with exactly-once, records of an open transaction are
    not.

    `source_offset`: all records up to this offset are on the target, or need not be (control records, aborted ones …);
    None before the first position is known, -1 if there is none yet.
    `log_end`: the offset after the last record that may be read (with read_committed the last stable offset); None if the
    source has not told it for 10 s. Then `lag` is None, too.
    `lag`: offsets between `source_offset` and `log_end`, 0 at rest.
    `oldest_ms`: the timestamp of the oldest record that is not on the target, so the lag in seconds is now - `oldest_ms`, at
    least 0. None if `lag` is 0, or if nothing is known of that record. It may be known where `lag` is not.
    `waiting`: offsets that were fetched and are not on the target.
    `records`, `bytes`: that came to be there, cumulative; bytes as sent, with headers of batches.
    `age`: of records when they were fetched (now - timestamp), as MirrorMaker's record-age-ms; None without any.
    `latency`: of records when they came to be there (now - timestamp), as MirrorMaker's replication-latency-ms.
    `latency_counts`: the records of `latency` by bucket: (bucket number, records, bucket number, records, …).
    """

    topic: str
    partition: int
    remote_topic: str
    source_offset: int | None
    log_end: int | None
    lag: int | None
    oldest_ms: int | None
    waiting: int
    records: int
    bytes: int
    age: Window | None = None
    latency: Window | None = None
    latency_counts: tuple[int, ...] = ()

    @classmethod
    def of_row(cls, row: list[Any]) -> PartitionMeasures:
        """From a JSON list."""
        *values, age, latency, counts = row
        return cls._make((*values, _window(age), _window(latency), tuple(counts)))


class RequestMeasures(NamedTuple):
    """Requests of one kind to the brokers of one side. On the wire: a list in this order. All but `most_ms` are cumulative.

    `kind`: the name in Kafka's protocol, like Fetch, Produce, Metadata. `requests`: those that were answered; `errors`:
    those that were not, because the connection broke or the time was over. An error code in an answer is no error here.
    `total_ms`: the sum of all times from request to answer (a fetch waits at the broker for up to fetch.max.wait.ms);
    `most_ms`: the longest of them since the last report. `sent`, `received`: bytes, without TCP and TLS.
    `throttled_ms`: for how long the brokers told to wait (quotas).
    """

    side: str
    kind: str
    requests: int
    errors: int
    total_ms: float
    most_ms: float
    sent: int
    received: int
    throttled_ms: int


class GroupPartition(NamedTuple):
    """A partition of a group, if its consumers failed over to the target now. On the wire: a list in this order.

    `read_again`: how many records that they have read they would read once more; `skipped`: how many that they have not read
    they would not get although the target has them. Both by the offsets at `GroupMeasures.checked_ms`; None if there is no
    translation, so consumers would begin as their auto.offset.reset says.
    `latency`: of checkpoints when they were acknowledged (now - their time), as MirrorMaker's checkpoint-latency-ms; None
    without any since the last report.
    """

    topic: str
    partition: int
    remote_topic: str
    read_again: int | None
    skipped: int | None
    latency: Window | None = None


@dataclass(frozen=True, slots=True)
class GroupMeasures:
    """A consumer group of a checkpoint task: all of its translated partitions.

    `checked_ms`: when its committed offsets were read from the source. `synced_ms`: when the target's were last found or
    made equal to the checkpoints; None if that never happened, as where sync.group.offsets.enabled is false.
    """

    group: str
    checked_ms: int
    synced_ms: int | None
    partitions: tuple[GroupPartition, ...] = ()

    def to_json(self) -> list[Any]:
        """As a JSON list."""
        return [self.group, self.checked_ms, self.synced_ms, self.partitions]

    @classmethod
    def from_json(cls, body: list[Any]) -> GroupMeasures:
        """The inverse of `to_json`."""
        group, checked_ms, synced_ms, rows = body
        partitions = tuple(GroupPartition._make((*values, _window(latency))) for *values, latency in rows)
        return cls(group, checked_ms, synced_ms, partitions)


@dataclass(frozen=True, slots=True)
class TaskMeasures:
    """What a task measured by `at_ms`.

    `partitions`: those that changed; `more_partitions`: how many changed ones come with the next reports. If one comes
    twice, the later row is newer, and the windows of both count; the same holds for `groups`.
    `gone`: (topic, partition) of those that the task does not have any more. They have no row.
    `latency_counts`: end-to-end latency of all acknowledged records: records in each of BUCKETS buckets, cumulative;
    empty if the task copies no records. `latency_total_ms`: their sum.
    `batches`: (batches, bytes) by what was done, cumulative, see DONE_WITH_BATCHES.
    `filtered`: records that transformations have dropped, cumulative. What is read again counts again.
    `record_errors`: records that transformations could not take, cumulative; `records_skipped`: those of them that
    errors.tolerance=all has left out; `errors_logged`: those in the log; `last_error_ms`: when the last one came.
    `dead_letters`: those sent to the dead letter topic, cumulative; `failed_dead_letters`: refused by it.
    `compressed_bytes`: acknowledged bytes of batches that stayed compressed, cumulative. `sampled`: of a few of them, bytes
    compressed and uncompressed, cumulative. The bytes that keeping the compression saved are estimated from these two.
    `requests`: a row for each side and kind. `connections`: how many are open, to the source and to the target.
    `lease_ms`: for how long the task may still write, when it sent the report.
    `buffered_bytes`: fetched and not released, `buffer_bytes`: the most of them.
    `commits`, `failed_commits`: of source offsets, cumulative; `commit`: how long they took.
    `committed_ms`: all that the target had acknowledged by then is committed. None before the first commit; for a task that
    reports its source offsets to the worker, they are only on their way to it.
    `groups`, `more_groups`: of a checkpoint task, as `partitions` and `more_partitions`.
    """

    at_ms: int
    partitions: tuple[PartitionMeasures, ...] = ()
    more_partitions: int = 0
    gone: tuple[tuple[str, int], ...] = ()
    latency_counts: tuple[int, ...] = ()
    latency_total_ms: int = 0
    batches: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    filtered: int = 0
    record_errors: int = 0
    records_skipped: int = 0
    errors_logged: int = 0
    last_error_ms: int | None = None
    dead_letters: int = 0
    failed_dead_letters: int = 0
    compressed_bytes: int = 0
    sampled: tuple[int, int] = (0, 0)
    requests: tuple[RequestMeasures, ...] = ()
    connections: tuple[int, int] = (0, 0)
    lease_ms: int | None = None
    buffered_bytes: int = 0
    buffer_bytes: int = 0
    commits: int = 0
    failed_commits: int = 0
    commit: Window | None = None
    committed_ms: int | None = None
    groups: tuple[GroupMeasures, ...] = ()
    more_groups: int = 0

    @property
    def saved_bytes(self) -> int:
        """About how many bytes less went to the target because batches stayed compressed. An estimate from samples."""
        compressed, uncompressed = self.sampled
        return 0 if compressed <= 0 else int(self.compressed_bytes * max(0.0, uncompressed / compressed - 1))

    def followed_by(self, newer: TaskMeasures) -> TaskMeasures:
        """Both, for one report. A row may come twice then: the later one is newer, and windows of both count."""
        gone, back = set(newer.gone), {row[:2] for row in newer.partitions}
        rows = tuple(row for row in self.partitions if row[:2] not in gone) if gone else self.partitions
        return replace(
            newer,
            partitions=rows + newer.partitions,
            gone=tuple(each for each in self.gone if each not in back) + newer.gone,
            commit=self.commit if newer.commit is None else newer.commit.plus(self.commit),
            groups=self.groups + newer.groups,
        )

    def to_json(self) -> dict[str, Any]:
        """As a JSON object. The rows stay tuples: JSON has them as lists, and a copy would take longer than the text."""
        members = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**members, "groups": [each.to_json() for each in self.groups]}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> TaskMeasures:
        """The inverse of `to_json`; TypeError for unknown members."""
        values = {
            **body,
            "partitions": tuple(map(PartitionMeasures.of_row, body.get("partitions", ()))),
            "gone": tuple((topic, partition) for topic, partition in body.get("gone", ())),
            "latency_counts": tuple(body.get("latency_counts", ())),
            "batches": {name: (count, size) for name, (count, size) in body.get("batches", {}).items()},
            "requests": tuple(RequestMeasures(*row) for row in body.get("requests", ())),
            "commit": _window(body.get("commit")),
            "groups": tuple(map(GroupMeasures.from_json, body.get("groups", ()))),
        }
        pairs = {name: _pair(body.get(name, (0, 0))) for name in ("sampled", "connections")}
        return cls(**{**values, **pairs})


def _pair(pair: Sequence[int]) -> tuple[int, int]:
    one, other = pair
    return one, other


def _window(row: list[int] | None) -> Window | None:
    return None if row is None else Window(*row)
