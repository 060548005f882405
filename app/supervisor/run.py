"""One run: one start of a Connect task on Spark, from its place in the plan to the end of its last process."""

from __future__ import annotations

import asyncio
import secrets
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from mirror_connect.connectors.job_contract import TaskId, TaskReport, TaskSpec

Partitions = frozenset[tuple[str, int]]


class Phase(Enum):
    """How far a run is."""

    WAITING = "no task process has asked for its spec yet"
    STARTED = "a task process has its spec"
    RUNNING = "the task has said that it copies"
    FINISHING = "told to commit and return"
    ENDED = "returned, failed or killed: nothing of it writes any more"


@dataclass(eq=False)
class Run:
    """State of one run. `identity`: the task's config without its partitions; it never changes within a run.

    What partitions a run may hold is a list of versions: the newest is what it is granted, and every older one counts as
    held until the task has reported that it drained and committed what the next version took away.
    """

    task: TaskId
    identity: Mapping[str, str] = field(repr=False)
    wanted: Partitions
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    phase: Phase = Phase.WAITING
    version: int = 1
    versions: dict[int, Partitions] = field(default_factory=lambda: {1: frozenset()})
    spec: TaskSpec | None = field(default=None, repr=False)
    attempt: str | None = None
    report: TaskReport | None = None
    attempts: int = 0
    waiting_since: float = field(default_factory=time.monotonic)
    heard: float = 0.0
    finish_by: float | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    said_unassigned: bool = False

    @property
    def granted(self) -> Partitions:
        """What the task is to copy now."""
        return self.versions[self.version]

    @property
    def held(self) -> Partitions:
        """What the task may still be writing: granted now, or taken away and not yet reported as committed."""
        return frozenset() if self.phase is Phase.ENDED else frozenset().union(*self.versions.values())

    def grant(self, partitions: Partitions) -> None:
        """Makes a new version, unless it would be the same again."""
        if partitions == self.granted:
            return
        self.version += 1
        self.versions[self.version] = partitions
        self.changed.set()

    def confirmed(self, version: int) -> bool:
        """The task holds no more than `version` and later ones say; returns whether that frees something."""
        old = [known for known in self.versions if known < version]
        for known in old:
            del self.versions[known]
        return bool(old)

    def begin_attempt(self, attempt: str) -> None:
        """A (new) process has asked for the spec: its predecessor is gone, so only the newest grant is held."""
        self.attempt, self.report = attempt, None
        self.attempts += 1
        self.heard = time.monotonic()
        self.versions = {self.version: self.granted}
        if self.phase is Phase.WAITING:
            self.phase = Phase.STARTED

    def ask_to_finish(self, patience_s: float) -> None:
        """The task is to commit and return within `patience_s`; a run that no process has taken ends at once."""
        if self.phase in (Phase.FINISHING, Phase.ENDED):
            return
        self.phase = Phase.ENDED if self.attempt is None else Phase.FINISHING
        self.finish_by = time.monotonic() + patience_s
        self.changed.set()

    def end(self) -> None:
        """Nothing of this run writes any more."""
        self.phase = Phase.ENDED
        self.changed.set()
