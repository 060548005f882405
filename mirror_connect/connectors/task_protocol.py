"""The messages between the worker and its Spark tasks: all that the two sides share.

Everything here is a plain value with `to_json` and `from_json`, because the internal HTTP carries it. Specs hold secrets, so
they are never logged: `repr` of a TaskSpec shows names only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, NamedTuple

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problem
from mirror_connect.connectors.task_measures import TaskMeasures

STARTING: Final = "STARTING"
RUNNING: Final = "RUNNING"
EPOCH_ENDED: Final = "EPOCH_ENDED"
FINISHED: Final = "FINISHED"
FAILED: Final = "FAILED"
FENCED: Final = "FENCED"
ABANDONED: Final = "ABANDONED"
# Spark's id of the executor of a local master: the driver itself.
DRIVER: Final = "driver"
# What runs a task, and so what a user does to restart it or to set its source offsets: see TaskSpec.program.
CONNECT: Final = "Connect"
DEDICATED: Final = "dedicated MirrorMaker"
MIRROR_MAKER_1: Final = "MirrorMaker 1"
# Of what a record has needed more than Spark has, by the names of Java's errors: the driver tells the worker.
STACK: Final = "StackOverflowError"
MEMORY: Final = "OutOfMemoryError"
# Of TaskPartition.remote_partition.
SAME: Final = -1
# When a transaction of an exactly-once task ends: TaskSpec.transaction_boundary.
POLL: Final = "poll"
INTERVAL: Final = "interval"


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    """One Connect task: connector name and task number."""

    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


class TaskProcess(NamedTuple):
    """A process of tasks. Executors may run on other machines, so a process id alone says nothing.

    `executor`: Spark's id of its executor; DRIVER with a local master.
    """

    executor: str
    pid: int


@dataclass(frozen=True, slots=True, order=True)
class TaskPartition:
    """A source partition and the target topic its records go to.

    `remote_partition`: the partition there if its number is another one; SAME if not. `named`: the remote topic's name
    before transformations gave it this one; empty if none did. `heartbeats`: it is a topic of heartbeats, which are no data
    of users.
    """

    topic: str
    partition: int
    remote_topic: str
    remote_partition: int = SAME
    named: str = ""
    heartbeats: bool = False

    @property
    def source(self) -> TopicPartition:
        """The source partition alone, as a key."""
        return TopicPartition(self.topic, self.partition)

    @property
    def target(self) -> TopicPartition:
        """The partition on the target."""
        number = self.partition if self.remote_partition == SAME else self.remote_partition
        return TopicPartition(self.remote_topic, number)


class SourceRange(NamedTuple):
    """Records of one source partition, by their offsets: from `first` to `last`."""

    topic: str
    partition: int
    first: int
    last: int

    def __str__(self) -> str:
        offsets = f"offset {self.first}" if self.first == self.last else f"offsets {self.first} to {self.last}"
        return f"{self.topic}, partition {self.partition}, {offsets}"


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """The last replicated source offset of a partition; None if there is none (auto.offset.reset decides).

    `topic_id`: the id of its topic, as Kafka's tools print ids (topic_ids.py); None if unknown.
    `leader_epoch`: of the record there, which shows whether the log was truncated since; -1 if unknown.
    """

    topic: str
    partition: int
    offset: int | None
    topic_id: str | None = None
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """All that a task needs to run, resolved: Java client properties, its assignment, the topic of its source offsets.

    `source`: properties of the consumer. `target`: those of the producer of the data. A source task has `assigned`, a
    checkpoint task `assigned_groups`, a heartbeat task neither.
    `transactional_id` fences the previous owner (InitProducerId), also without transactions.
    It may be empty: then only the lease keeps a former owner from writing.
    `offsets_topic` is empty for a task that reports its source offsets to the worker, which stores them.
    `program`: CONNECT, DEDICATED or MIRROR_MAKER_1; for the advice in problems, and for which of them count.
    `assignment_version` grows with every change of `assigned`; nothing else of a run's spec ever changes.
    `hidden`: values of the config that no text may show, if the task writes texts about it to the target.
    `exactly_once`: records and their source offsets are written in transactions of `transactional_id`, which is not
    empty then. `transaction_boundary`: POLL, or INTERVAL with `transaction_interval_ms`.
    `suspects`: of a task with a statement, records with one among them that has ended Spark's attempt before.
    `too_much`: those that need more stack than Spark has. They are errors, and Spark does not get them.
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
    program: str = CONNECT
    exactly_once: bool = False
    transaction_boundary: str = POLL
    transaction_interval_ms: int = 0
    hidden: tuple[str, ...] = field(default=(), repr=False)
    suspects: tuple[SourceRange, ...] = ()
    too_much: tuple[SourceRange, ...] = ()

    @property
    def reports_offsets(self) -> bool:
        """Whether the task reports its source offsets instead of writing them to a topic."""
        return not self.offsets_topic

    def to_json(self) -> dict[str, Any]:
        """As a JSON object; `assigned` becomes a list of lists, each with the fields of its partition."""
        members = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {
            **{name: dict(value) if isinstance(value, Mapping) else value for name, value in members.items()},
            "assigned": [
                [a.topic, a.partition, a.remote_topic, a.remote_partition, a.named, a.heartbeats] for a in self.assigned
            ],
            "assigned_groups": list(self.assigned_groups),
            "hidden": list(self.hidden),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> TaskSpec:
        """The inverse of `to_json`; unknown or missing members raise TypeError."""
        assigned = tuple(TaskPartition(*each) for each in body["assigned"])
        lists = {name: tuple(body[name]) for name in ("assigned_groups", "hidden")}
        ranges = {name: _ranges(body.get(name, ())) for name in ("suspects", "too_much")}
        return cls(**{**body, **lists, **ranges, "assigned": assigned})


@dataclass(frozen=True, slots=True)
class TaskReport:
    """A task process reports this twice a second.

    `state`: STARTING until the task does its work, RUNNING, EPOCH_ENDED (committed and returned, the next epoch
    continues), FINISHED (committed and returned as ordered), FAILED with the trace, FENCED (another producer took its
    transactional id: returned without a commit) with the trace, ABANDONED (returned without a commit, as ordered).
    `attempt` is new for each process that runs the task, so a retry after a kill differs from its predecessor.
    `executor`: see TaskProcess. `host`: the name or address by which Spark knows its machine; empty with a local master.
    `assignment_version`: the newest version whose removed partitions are all drained and committed.
    `counters` only grow within an attempt: records, bytes, batches, reencoded, merged, commits,
    syncs, runs (segments), skipped (records given up as too large).
    `topics`: target topics written to since the last report. `log_lines`: for the worker's log.
    `log_codes`: the code of the problem that each of these lines is about; empty for any other line.
    `problems`: the present problems of a running task, like stalled partitions; `more_problems`: how many others there are.
    `events`: what has happened since the last report and stays true, like records that are gone.
    `committed`: in the last report, whether everything that was acknowledged is committed.
    `settled`: in the last report, whether nothing that the task has sent can still be written from now on. It has
    no default: after a wrong yes another task's records might be written out of order.
    `source_offsets`: of a task that reports them, those that have changed since the last report: the members of
    SourceOffset, without the last two if these are unknown.
    All records up to the offset are acknowledged by the target. Those of a partition come no later than the report whose
    `assignment_version` confirms that the partition was given away.
    `offset_keys`: of such a task that writes records of its own, the keys of their source offsets, which are always 0.
    `loop_silent_s`: for how many seconds the task's event loop has not answered, 0 for less than one. A task that hangs
    copies nothing, although a separate thread continues its reports.
    `measures`: what changed of lag, latencies, counts …; None if nothing was measured since the last report.
    `lost`: in the last report, the records that Spark had when it gave back no more.
    `held`: in any other, the records that Spark has, if a statement has given none back for seconds.
    """

    attempt: str
    pid: int
    state: str
    trace: str | None = None
    assignment_version: int = 0
    counters: Mapping[str, int] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    log_lines: tuple[str, ...] = ()
    log_codes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    more_problems: int = 0
    events: tuple[Problem, ...] = ()
    committed: bool = True
    settled: bool = field(kw_only=True)
    loop_silent_s: float = 0.0
    source_offsets: tuple[tuple[Any, ...], ...] = ()
    offset_keys: tuple[str, ...] = ()
    measures: TaskMeasures | None = None
    executor: str = DRIVER
    host: str = ""
    lost: tuple[SourceRange, ...] = ()
    held: tuple[SourceRange, ...] = ()

    @property
    def process(self) -> TaskProcess:
        """The process that reports."""
        return TaskProcess(self.executor, self.pid)

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        # `asdict` would copy each row of the measures.
        measures = None if self.measures is None else self.measures.to_json()
        return {**asdict(replace(self, measures=None)), "measures": measures}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> TaskReport:
        """The inverse of `to_json`; TypeError for unknown members, or if one without a default is missing."""
        lists = {name: tuple(body.get(name, ())) for name in ("topics", "log_lines", "log_codes", "offset_keys")}
        values = {name: tuple(map(Problem.from_json, body.get(name, ()))) for name in ("problems", "events")}
        offsets = tuple(tuple(each) for each in body.get("source_offsets", ()))
        measures = None if body.get("measures") is None else TaskMeasures.from_json(body["measures"])
        ranges = {name: _ranges(body.get(name, ())) for name in ("lost", "held")}
        return cls(**{**body, **lists, **values, **ranges, "source_offsets": offsets, "measures": measures})


def _ranges(found: Iterable[Sequence[Any]]) -> tuple[SourceRange, ...]:
    return tuple(SourceRange(*each) for each in found)


@dataclass(frozen=True, slots=True)
class LogLevels:
    """The levels of loggers that users have set, by name, as Python's numbers. `version`: 0 if nobody has set any."""

    version: int = 0
    levels: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskOrders:
    """The worker's answer to a report.

    `lease_ms`: how long the task may continue to write, from the moment it *sent* the report; 0 = stop writing now.
    `finish`: commit and return; later epochs of this run do nothing. `abandon`: return at once without a commit.
    `end_epoch`: commit and return; the next epoch begins in another process.
    `log_levels`: those of the process, if it does not know this version; None if it does.
    """

    lease_ms: int
    finish: bool = False
    abandon: bool = False
    end_epoch: bool = False
    assignment_version: int = 0
    log_levels: LogLevels | None = None

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> TaskOrders:
        """The inverse of `to_json`."""
        levels = body.get("log_levels")
        return cls(**{**body, "log_levels": None if levels is None else LogLevels(**levels)})
