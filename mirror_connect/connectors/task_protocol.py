"""What worker and Spark tasks tell each other: all that the two sides share.

Everything here is a plain value with `to_json` / `from_json` (JSON objects of the standard library), because it travels
over the internal HTTP. Specs hold secrets, so they are never logged: `repr` of a TaskSpec shows names only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

STARTING: Final = "STARTING"
RUNNING: Final = "RUNNING"
EPOCH_ENDED: Final = "EPOCH_ENDED"
FINISHED: Final = "FINISHED"
FAILED: Final = "FAILED"
FENCED: Final = "FENCED"


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    """One Connect task: connector name and task number."""

    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


@dataclass(frozen=True, slots=True, order=True)
class TaskPartition:
    """A source partition and the target topic its records go to (the partition number stays)."""

    topic: str
    partition: int
    remote_topic: str


@dataclass(frozen=True, slots=True)
class PartitionPosition:
    """The last replicated source offset of a partition; None where nothing is known (auto.offset.reset decides).

    `topic_id`: of the topic that it is an offset of, as Kafka's tools print ids (topic_ids.py); None where it isn't known.
    `leader_epoch`: of the record there, which tells whether the log has been truncated since; -1 where it isn't known.
    """

    topic: str
    partition: int
    offset: int | None
    topic_id: str | None = None
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """All that a task needs to run, resolved: Java client properties, what is assigned to it, where positions go.

    `source` are those of a consumer, `target` those of the producer of the data. `assigned` is a source task's,
    `assigned_groups` a checkpoint task's, and neither a heartbeat task's.
    `transactional_id` fences the previous owner (InitProducerId) even where no transactions are used.
    `assignment_version` grows with every change of `assigned`; nothing else of a run's spec ever changes.
    """

    run_id: str
    connector: str
    task: int
    connector_class: str
    config: Mapping[str, str] = field(repr=False)
    source: Mapping[str, str] = field(repr=False)
    target: Mapping[str, str] = field(repr=False)
    source_alias: str
    target_alias: str
    assigned: tuple[TaskPartition, ...]
    assignment_version: int
    transactional_id: str
    offsets_topic: str
    offsets_partitions: int
    commit_interval_ms: int
    assigned_groups: tuple[str, ...] = ()
    source_admin: Mapping[str, str] = field(default_factory=dict, repr=False)
    target_admin: Mapping[str, str] = field(default_factory=dict, repr=False)
    target_consumer: Mapping[str, str] = field(default_factory=dict, repr=False)

    def to_json(self) -> dict[str, Any]:
        """As a JSON object; `assigned` becomes a list of [topic, partition, remote topic]."""
        members = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {
            **{name: dict(value) if isinstance(value, Mapping) else value for name, value in members.items()},
            "assigned": [[a.topic, a.partition, a.remote_topic] for a in self.assigned],
            "assigned_groups": list(self.assigned_groups),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> TaskSpec:
        """The inverse of `to_json`; unknown or missing members raise TypeError."""
        assigned = tuple(TaskPartition(t, p, r) for t, p, r in body["assigned"])
        return cls(**{**body, "assigned": assigned, "assigned_groups": tuple(body["assigned_groups"])})


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What a task process says of itself twice a second.

    `state`: STARTING until the task does its work, RUNNING, EPOCH_ENDED (committed and returned, the next epoch goes
    on), FINISHED (committed and returned as ordered), FAILED with the trace, FENCED (another producer took its
    transactional id: returned without a commit) with the trace.
    `attempt` is new for each process that runs the task (so a retry after a kill is told from its predecessor).
    `assignment_version`: the newest version of which every removed partition is drained and committed.
    `counters` only grow within an attempt: records, bytes, batches, reencoded, merged, commits,
    syncs, runs (segments), skipped (records given up as too large).
    `topics`: target topics written to since the last report. `notices`: one-line messages for the worker's log.
    `incidents`: as notices, of what has happened and stays so, like records that are gone: the status keeps them.
    `standing`: a line for each partition that stands still at present while the task runs: why, and what to do about it.
    `committed`: in the last report, whether all that was acknowledged is committed.
    `settled`: in the last report, whether nothing that the task has sent may still be written from now on. It has
    no default: after a wrong yes another task's records may be written out of order.
    `loop_silent_s`: for how many seconds the task's event loop has not come round, 0 for less than one. What hangs copies
    nothing, although its reports, which come from a thread of their own, go on.
    """

    attempt: str
    pid: int
    state: str
    trace: str | None = None
    assignment_version: int = 0
    counters: Mapping[str, int] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    incidents: tuple[str, ...] = ()
    standing: tuple[str, ...] = ()
    committed: bool = True
    settled: bool = field(kw_only=True)
    loop_silent_s: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> TaskReport:
        """The inverse of `to_json`; unknown members, or none of those without a default, raise TypeError."""
        lists = {name: tuple(body.get(name, ())) for name in ("topics", "notices", "incidents", "standing")}
        return cls(**{**body, **lists})


@dataclass(frozen=True, slots=True)
class TaskOrders:
    """The worker's answer to a report.

    `lease_ms`: how long the task may go on writing, from the moment it *sent* the report; 0 = stop writing now.
    `finish`: commit and return, no later epoch of this run does anything. `abandon`: return at once, uncommitted.
    """

    lease_ms: int
    finish: bool = False
    abandon: bool = False
    assignment_version: int = 0

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> TaskOrders:
        """The inverse of `to_json`."""
        return cls(**body)
