"""One run: one start of a Connect task on Spark, from its place in the plan to the end of its last process."""

from __future__ import annotations

import asyncio
import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from mirror_connect.app.supervisor.running_trace import PastEvents
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problem
from mirror_connect.connectors.task_protocol import (
    ABANDONED,
    DRIVER,
    EPOCH_ENDED,
    FAILED,
    FENCED,
    FINISHED,
    TaskId,
    TaskProcess,
    TaskReport,
    TaskSpec,
)

Partitions = frozenset[TopicPartition]
LAST_WORDS: Final = frozenset({EPOCH_ENDED, FINISHED, FAILED, FENCED, ABANDONED})
NEVER: Final = float("-inf")


class Phase(Enum):
    """How far a run is."""

    WAITING = "no task process has it: none has asked for its spec yet, or one epoch ended and the next did not begin"
    STARTED = "a task process has its spec"
    RUNNING = "the task has reported that it copies"
    FINISHING = "ordered to commit and return"
    ENDED = "returned, failed or killed: nothing of it writes any more"


@dataclass(eq=False)
class TaskRun:
    """State of one run. Times are seconds of the supervisor's clock.

    An attempt is one process's work on the run, an epoch at most. `report` is the newest of the present attempt.
    """

    task: TaskId
    # The task's config without its partitions. It never changes within a run.
    identity: Mapping[str, str] = field(repr=False)
    wanted: Partitions
    # When the phase WAITING or the present attempt began.
    since: float
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    phase: Phase = Phase.WAITING
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    # What its process is given. `secrets`: values of it that no text may show: secret settings, all from config providers.
    spec: TaskSpec | None = field(default=None, repr=False)
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    # The newest version is what the run is assigned. It still owns the partitions of every older one, until the task has
    # reported that it drained and committed what the next version took away.
    version: int = 1
    versions: dict[int, Partitions] = field(default_factory=lambda: {1: frozenset()})

    # `next_attempt` waits for the end of the present one's process.
    attempt: str | None = None
    next_attempt: str | None = None
    past_attempts: set[str] = field(default_factory=set, repr=False)
    report: TaskReport | None = None
    # When the last report came.
    heard: float = 0.0
    # When its process was last handled as stalled.
    silence_judged: float = 0.0
    killed: TaskProcess | None = None
    # Before this Spark may not start it. 0: at once.
    not_before: float = 0.0
    # Until when a run that was ordered to finish may take.
    finish_by: float | None = None
    # Since when the present attempt is to return without a commit, and since when the task knows it. None: it is not.
    abandon_since: float | None = None
    abandon_told: float | None = None
    # Whether Spark is to stop its query.
    cancelled: bool = False
    # Why Spark does not tell the state of its query.
    query_unknown: str | None = None

    # False once its worker's leadership is over.
    may_write: bool = True
    # On a cluster: when the last lease of the present attempt is over, and whether it gets no other one.
    granted_until: float = NEVER
    withdrawn: bool = False
    # Partitions to which ended attempts may still have requests under way, until the supervisor has taken them over.
    # `left_at`: when the newest of these was sent at the latest; None: now.
    left: Partitions = frozenset()
    left_at: float | None = None
    # Whether brokers refuse requests of the present attempt as soon as the next one writes (WorkerLink), and whether they do
    # so with all requests of `left`.
    fenceable: bool = True
    fences_left: bool = True

    # Whether Spark applies a statement to its records. It never changes within a run.
    computes: bool = False
    # Whether its next attempt is to run in the process that light tasks share, and whether the present one does.
    light: bool = False
    shared: bool = False
    # Of the present attempt: `driver` with a local master, empty if there is no attempt.
    executor: str = ""
    # Whether it is to end its epoch, because the next one should have another executor.
    leaving: bool = False
    # How many executors it has not taken.
    refused: int = 0

    # What its status says. `shown`: the trace while it runs. `waits_for`: why it does not.
    shown: str | None = None
    waits_for: str | None = None
    events: PastEvents = field(default_factory=PastEvents)
    # Since when it does not copy and has not reported why, also as text.
    idle_since: tuple[float, str] | None = None
    # Why it copies without its newest partitions.
    late: str | None = None
    # Lines about partitions that others may still write to. None: it has all.
    withheld: str | None = None
    # By lookup of its statement: why it copies with old rows of it.
    stale: dict[str, Problem | None] = field(default_factory=dict)
    # By a lookup and the columns that join it: why it waits for the rows.
    missing: dict[tuple[str, ...], str] = field(default_factory=dict)
    # The assignment that it copies by the last log line about it, and where. None: by that line it does not copy.
    logged_version: int | None = None
    logged_place: str = ""

    @property
    def assigned(self) -> Partitions:
        """What the task is to copy now."""
        return self.versions[self.version]

    @property
    def owned(self) -> Partitions:
        """What the task may still be writing: assigned now, or taken away and not yet reported as committed."""
        if self.phase is Phase.ENDED:
            return frozenset()
        # Nearly always there is one version only, which needs no copy.
        return self.assigned if len(self.versions) == 1 else frozenset().union(*self.versions.values())

    def owned_up_to(self, version: int) -> Partitions:
        """What it owns of the versions up to this one.

        A report may come twice, the second time much later. Meanwhile others may have had a partition that it owns again.
        """
        return frozenset().union(*(owned for known, owned in self.versions.items() if known <= version))

    @property
    def unsettled(self) -> Partitions:
        """To which partitions something may still be written from now on if the present attempt is at its end."""
        # Before its first report it has no lease. Only its last report shows whether requests may still be under way.
        report = self.report
        left_nothing = report is None or (report.settled and report.state in LAST_WORDS)
        return frozenset() if left_nothing else self.owned

    @property
    def is_fenced(self) -> bool:
        """Whether brokers refuse what it has sent as soon as a next process of the task writes with its transactional id."""
        return self.fenceable and self.fences_left

    @property
    def pid(self) -> int | None:
        """The process of the present attempt; None before its first report, when it may not write yet."""
        return self.report.pid if self.report else None

    @property
    def process(self) -> TaskProcess | None:
        """The same, on whichever executor it is."""
        return self.report.process if self.report else None

    @property
    def is_elsewhere(self) -> bool:
        """Whether the present attempt runs on an executor of a cluster."""
        return self.executor not in {"", DRIVER}

    @property
    def shares(self) -> bool:
        """Whether it belongs to the shared process now: the present attempt does, or the next one will."""
        return self.light if self.attempt is None else self.shared

    @property
    def moves(self) -> bool:
        """Whether its present attempt is to end its epoch, because the next one runs in another process."""
        return self.attempt is not None and self.light != self.shared

    @property
    def is_over(self) -> bool:
        """Whether it was ordered to finish or has ended."""
        return self.phase in (Phase.FINISHING, Phase.ENDED)

    def is_work_of(self, attempt: str) -> bool:
        """Whether this attempt is at work on it, and no newer one; nor has it ended."""
        return self.attempt == attempt and self.phase is not Phase.ENDED

    def assign(self, partitions: Partitions) -> None:
        """Makes a new version, unless it would be the same again."""
        if partitions == self.assigned:
            return
        self.version += 1
        if self.attempt is None:
            self.versions.clear()  # nobody has seen the older ones
        self.versions[self.version] = partitions
        self.changed.set()

    def confirm(self, version: int) -> bool:
        """The task holds no more than `version` and later ones say; returns whether that frees something."""
        old = [known for known in self.versions if known < min(version, self.version)]
        for known in old:
            del self.versions[known]
        return bool(old)

    def expect(self, attempt: str) -> None:
        """A process that is newer than any before it has asked for the spec: no other one is waited for any more."""
        if self.next_attempt is not None:
            self.past_attempts.add(self.next_attempt)
        self.next_attempt = attempt

    def begin_attempt(self, attempt: str, now: float, *, shared: bool = False, executor: str = DRIVER) -> None:
        """A (new) process has asked for the spec: its predecessor is gone, so it owns only the newest assignment."""
        self._drop_attempt(now)
        self.attempt, self.next_attempt, self.shared, self.executor, self.refused = attempt, None, shared, executor, 0
        self.heard = now
        self.missing.clear()
        if not self.is_over:
            self.phase = Phase.STARTED

    def end_attempt(self, now: float) -> None:
        """The process has committed and returned at the end of its epoch; Spark begins the next one when it can."""
        self._drop_attempt(now)
        if not self.is_over:
            self.phase = Phase.WAITING

    def _drop_attempt(self, now: float) -> None:
        self._leave()
        if self.attempt is not None:
            self.past_attempts.add(self.attempt)
        self.attempt = self.report = self.abandon_since = self.abandon_told = None
        self.granted_until, self.withdrawn, self.executor, self.leaving = NEVER, False, "", False
        self.since = now
        self.versions = {self.version: self.assigned}
        self.changed.set()

    def place(self, *, light: bool) -> None:
        """Decides where its next attempt runs. The present one ends its epoch if that is another process."""
        if light != self.light:
            self.light = light
            self.changed.set()

    def abandon(self, now: float) -> None:
        """The present attempt is to return at once, without a commit."""
        if self.abandon_since is None:
            self.abandon_since = now
            self.changed.set()

    def is_abandoning(self, now: float, seconds: float) -> bool:
        """Whether it still has time to return: so long since it has the order, three times that since it was given."""
        if self.abandon_since is None:
            return False
        return now - self.abandon_since < 3 * seconds and (
            self.abandon_told is None or now - self.abandon_told < seconds
        )

    def withdraw(self) -> None:
        """The present attempt gets no lease any more. It is to end its epoch in what is left of the last one."""
        if not self.withdrawn:
            self.withdrawn = True
            self.changed.set()

    def leave(self) -> None:
        """The present attempt is to end its epoch: the next one should have another executor."""
        self.leaving = True
        self.changed.set()

    @property
    def is_to_end_its_epoch(self) -> bool:
        """Whether the present attempt is to commit and return, for whichever reason. The run goes on."""
        return self.moves or self.withdrawn or self.leaving

    def ask_to_finish(self, by: float) -> None:
        """The task is to commit and return in time; a run that no process has ends at once."""
        if self.is_over:
            return
        self.phase = Phase.ENDED if self.attempt is None else Phase.FINISHING
        self.finish_by = by
        self.changed.set()

    def end(self) -> None:
        """Nothing of this run writes any more."""
        self._leave()
        self.phase = Phase.ENDED
        self.changed.set()

    def _leave(self) -> None:
        if self.report is not None and self.unsettled:
            self.left |= self.unsettled
            self.fences_left = self.fences_left and self.fenceable
            self.left_at = self.granted_until if self.granted_until > NEVER else None
