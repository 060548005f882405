"""Problems as values: from where code notices one to a task's report, its status and the log.

Code decides by `Problem.code`, never by the texts. `Problems` collects the problems of one owner, usually a task. The log
gets each problem once until it is resolved, and not thousands of lines for one reason. A broker that starts refuses all
its partitions for some seconds; a deleted topic is missing in all its partitions.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Self

from mirror_connect.connectors.clock import utc

# The most lines that are logged for one reason; then only their count.
MOST_LOGGED: Final = 20
# The most lines that a status shows; then only the number of the others.
MOST_SHOWN: Final = 20
# Problems of many subjects with one reason come within this time.
BURST_S: Final = 2.0
# Brokers restart now and then: a status shows only problems that last longer than this.
SHOWN_AFTER_S: Final = 2.0
# A status is written whenever it changes, so an alternating cause changes it only this often.
CAUSE_S: Final = 30.0


class ProblemCode(StrEnum):
    """Kinds of problems; tests and metrics use these names, so they are never changed."""

    CLUSTER_UNREACHABLE = "CLUSTER_UNREACHABLE"
    CLUSTER_REFUSES = "CLUSTER_REFUSES"
    BROKER_UNREACHABLE = "BROKER_UNREACHABLE"
    # Worker connectors.
    TOPIC_NOT_CREATED = "TOPIC_NOT_CREATED"
    TOPIC_NOT_COPIED = "TOPIC_NOT_COPIED"
    TOPIC_CONFIGS_UNSYNCED = "TOPIC_CONFIGS_UNSYNCED"
    TOPIC_ACLS_UNSYNCED = "TOPIC_ACLS_UNSYNCED"
    COPY_DIFFERS = "COPY_DIFFERS"
    COPY_UNVERIFIED = "COPY_UNVERIFIED"
    # Partitions of the source.
    PARTITION_UNREADABLE = "PARTITION_UNREADABLE"
    PARTITION_READ_DENIED = "PARTITION_READ_DENIED"
    PARTITION_WITHOUT_POSITION = "PARTITION_WITHOUT_POSITION"
    PARTITION_EPOCHS_UNKNOWN = "PARTITION_EPOCHS_UNKNOWN"
    PARTITION_TRUNCATED = "PARTITION_TRUNCATED"
    OFFSETS_GONE = "OFFSETS_GONE"
    TOPIC_RECREATED = "TOPIC_RECREATED"
    # Partitions of the target.
    PARTITION_UNWRITABLE = "PARTITION_UNWRITABLE"
    PARTITION_WRITE_DENIED = "PARTITION_WRITE_DENIED"
    PRODUCER_STATE_LOST = "PRODUCER_STATE_LOST"
    TRANSACTIONAL_ID_DENIED = "TRANSACTIONAL_ID_DENIED"
    TRANSACTION_ABORTED = "TRANSACTION_ABORTED"
    COORDINATOR_UNREACHABLE = "COORDINATOR_UNREACHABLE"
    OTHER_WRITER = "OTHER_WRITER"
    TARGET_RECORDS_LOST = "TARGET_RECORDS_LOST"
    # Partitions on their way from source to target.
    PARTITION_STALLED_BATCH_CORRUPT = "PARTITION_STALLED_BATCH_CORRUPT"
    PARTITION_STALLED_BATCH_REFUSED = "PARTITION_STALLED_BATCH_REFUSED"
    PARTITION_STALLED_RECORD_TOO_LARGE = "PARTITION_STALLED_RECORD_TOO_LARGE"
    PARTITION_STALLED_TRANSFORMATION = "PARTITION_STALLED_TRANSFORMATION"
    PARTITION_STALLED_LINK_TOO_SLOW = "PARTITION_STALLED_LINK_TOO_SLOW"
    CORRUPT_BATCH_SKIPPED = "CORRUPT_BATCH_SKIPPED"
    RECORD_TOO_LARGE_SKIPPED = "RECORD_TOO_LARGE_SKIPPED"
    LOOKUP_STALE = "LOOKUP_STALE"
    # The translation of committed offsets, and the groups.
    OFFSET_SYNCS_UNWRITTEN = "OFFSET_SYNCS_UNWRITTEN"
    OFFSET_RANGES_UNREAD = "OFFSET_RANGES_UNREAD"
    OFFSET_RANGES_LATE = "OFFSET_RANGES_LATE"
    OFFSET_RANGES_STOPPED = "OFFSET_RANGES_STOPPED"
    TOO_MANY_PARTITIONS = "TOO_MANY_PARTITIONS"
    TOPIC_UNREADABLE = "TOPIC_UNREADABLE"
    OFFSET_SYNCS_MISSING = "OFFSET_SYNCS_MISSING"
    TRANSLATION_WAITS = "TRANSLATION_WAITS"
    GROUPS_WAIT = "GROUPS_WAIT"
    GROUP_UNREADABLE = "GROUP_UNREADABLE"
    GROUP_NO_CONSUMER_GROUP = "GROUP_NO_CONSUMER_GROUP"
    GROUP_ACTIVE = "GROUP_ACTIVE"
    GROUP_NOT_MOVED = "GROUP_NOT_MOVED"


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem.

    `subject`: the name of a cluster, broker, partition, topic or group. `text`: one sentence, without a full stop. `cause`:
    why, if it is known. `advice`: what to do. `error`: the name of Kafka's error code, if there is one. `since`: seconds
    since 1970; None if it is unknown or not needed.
    """

    subject: str
    code: ProblemCode
    text: str
    cause: str = ""
    advice: str = ""
    error: str = ""
    since: float | None = None

    @property
    def line(self) -> str:
        """One line for people."""
        since = "" if self.since is None else f" since {utc(self.since)}"
        cause = f": {self.cause}" if self.cause else ""
        # An advice may be a sentence of its own elsewhere.
        advice = f"; {self.advice[0].lower()}{self.advice[1:]}" if self.advice else ""
        return f"{self.text}{since}{cause}{advice}"

    def because(self, cause: str) -> Problem:
        """The same with this cause."""
        return replace(self, cause=cause)

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Problem:
        """The inverse of `to_json`; ValueError for an unknown code, TypeError for unknown or missing members."""
        return cls(**{**body, "code": ProblemCode(body["code"])})


class ProblemLine(str):
    """A line for the log about a problem with this code."""

    code: ProblemCode

    @classmethod
    def of(cls, text: str, code: ProblemCode) -> Self:
        """The text as such a line."""
        line = cls(text)
        line.code = code
        return line


def code_of(line: str) -> str:
    """The code of the problem that a line is about; empty for any other line."""
    return line.code.value if isinstance(line, ProblemLine) else ""


def cluster_unreachable(name: str, bootstrap: str | None, cause: str = "") -> Problem:
    """The problem of an unreachable cluster. `name`: such as `source cluster A`; `bootstrap`: its bootstrap.servers."""
    return Problem(
        name,
        ProblemCode.CLUSTER_UNREACHABLE,
        f"The {name} (bootstrap.servers {bootstrap or 'not given'}) can't be reached",
        cause,
        "it is tried again until it answers",
    )


@dataclass(slots=True)
class _Open:
    """A problem that was reported and isn't resolved. `logged`: the errors with a line in the log."""

    problem: Problem
    cause_at: float
    shown: bool = False
    logged: set[str] = field(default_factory=set)


# (run, subject, code) → begin of the problem. The next epoch of a run in this process continues with it.
_since: dict[tuple[str, str, ProblemCode], float] = {}


def forget_problems(run: str) -> None:
    """Forgets since when a run has had problems: it has no more epochs in this process."""
    for key in [each for each in _since if each[0] == run]:
        del _since[key]


class Problems:
    """The problems of one owner, in one event loop.

    `log` takes lines for the log. `on_event` takes events: what has happened and stays true. Without it events are logged.
    `run`: problems stay the same in later epochs of this run. `clock` returns seconds since 1970.
    """

    def __init__(
        self,
        log: Callable[[str], None],
        on_event: Callable[[Problem], None] | None = None,
        *,
        run: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.log = log
        self._on_event = on_event or (lambda event: log(ProblemLine.of(event.line, event.code)))
        self._run = run
        self._clock = clock
        self._open: dict[str, dict[ProblemCode, _Open]] = {}
        self._lasting: Counter[tuple[ProblemCode, str]] = Counter()
        self._bursts: Counter[Hashable] = Counter()
        self._offsets: Counter[Hashable] = Counter()
        self._last_events: dict[tuple[str, ProblemCode], Hashable] = {}

    def report(self, problem: Problem, *, logged: bool = True, shown: bool = False, many: str = "") -> bool:
        """Reports that a problem exists, or still exists. Returns True if it has just begun.

        It is logged once for each `error`. `shown`: `shown()` returns it while it lasts. `many`: for problems of many
        subjects at a time, the words of a line after `37 more `. Without it, lines stop until some problems are over.
        """
        of_subject = self._open.setdefault(problem.subject, {})
        known, now = of_subject.get(problem.code), self._clock()
        key = (self._run, problem.subject, problem.code)
        begins = key not in _since
        if known is None:
            since = _since.setdefault(key, now)
            known = of_subject[problem.code] = _Open(replace(problem, since=since), now)
        elif problem.cause != known.problem.cause and now - known.cause_at >= CAUSE_S:
            known.problem, known.cause_at = replace(problem, since=known.problem.since), now
        known.shown = known.shown or shown
        if logged and problem.error not in known.logged:
            known.logged.add(problem.error)
            self._lasting[problem.code, problem.error] += 1
            if many:
                self._log_in_burst((problem.code, problem.error), problem.line, many)
            else:
                self._log_while_few(problem)
        return begins

    def resolve(self, subject: str, code: ProblemCode | None = None, *, line: str = "", many: str = "") -> None:
        """The problem is over, or with None all problems of the subject. `line` is logged if the problem was."""
        if not self._open and not _since:
            return  # the usual case: each answer of a broker comes here
        of_subject = self._open.get(subject, {})
        for each in list(of_subject) if code is None else [code]:
            _since.pop((self._run, subject, each), None)
            over = of_subject.pop(each, None)
            if over is None or not over.logged:
                continue
            for error in over.logged:
                self._lasting[each, error] -= 1
            if line and many:
                self._log_in_burst((each, "resolved"), line, many)
            elif line:
                self.log(ProblemLine.of(line, each))
        if not of_subject:
            self._open.pop(subject, None)

    def shown(self, *subjects: str) -> list[Problem]:
        """The problems for a status, of these subjects, or of all without any. A problem must have lasted a moment."""
        now = self._clock()
        found = self._open.values() if not subjects else (self._open.get(subject, {}) for subject in subjects)
        every = (each for of_subject in found for each in of_subject.values() if each.shown)
        return [each.problem for each in every if now - (each.problem.since or now) >= SHOWN_AFTER_S]

    # Events.

    def event(
        self, event: Problem, many: str = "", *, offsets: int = 0, fate: str = "skipped", found: Hashable = None
    ) -> None:
        """Reports what has happened and stays true, like records that were gone before they were read.

        `many`: as for `report`. `offsets`: how many the event concerns; `fate`: what happened to them. Those of events
        without a line of their own are added up. `found`: identifies the event; the same one is not reported again.
        """
        if found is not None:
            key = (event.subject, event.code)
            before, self._last_events[key] = self._last_events.get(key), found
            if before == found:
                return
        if not many:
            self._on_event(event)
            return
        if self._begins_or_joins_burst((event.code, fate), lambda more: self._count_events(event, many, fate, more)):
            self._on_event(event)
        else:
            self._offsets[event.code, fate] += offsets

    def _count_events(self, event: Problem, many: str, fate: str, more: int) -> None:
        offsets = self._offsets.pop((event.code, fate), 0)
        if more > 0:
            of_them = f": {offsets} offsets of them {fate}" if offsets else ""
            self._on_event(Problem(many, event.code, f"{more} more {many}{of_them}"))

    # Lines.

    def _log_while_few(self, problem: Problem) -> None:
        count = self._lasting[problem.code, problem.error]
        if count <= MOST_LOGGED:
            self.log(ProblemLine.of(problem.line, problem.code))
        elif count == MOST_LOGGED + 1:
            more = "There are more of these: no further line before some of them are over"
            self.log(ProblemLine.of(f"{problem.line}. {more}", problem.code))

    def _log_in_burst(self, kind: tuple[ProblemCode, str], line: str, many: str) -> None:
        def count(more: int) -> None:
            if more > 0:
                self.log(ProblemLine.of(f"{more} more {many}", kind[0]))

        if self._begins_or_joins_burst(kind, count):
            self.log(ProblemLine.of(line, kind[0]))

    def _begins_or_joins_burst(self, kind: Hashable, count: Callable[[int], None]) -> bool:
        """Whether this one of its kind gets a line. `count` gets the number of the others at the burst's end."""
        if kind not in self._bursts:
            asyncio.get_running_loop().call_later(BURST_S, lambda: count(self._bursts.pop(kind) - MOST_LOGGED))
        self._bursts[kind] += 1
        return self._bursts[kind] <= MOST_LOGGED


def status_lines(problems: Sequence[Problem], more: int = 0) -> list[str]:
    """The lines of a status. `more`: how many other problems there are."""
    lines = [problem.line for problem in problems[:MOST_SHOWN]]
    rest = more + len(problems) - len(lines)
    return [*lines, f"… and {rest} more lines like these"] if rest else lines


def different(problems: Iterable[Problem | None]) -> tuple[Problem, ...]:
    """The problems in their order, each once: an unreachable broker concerns many partitions."""
    return tuple(dict.fromkeys(problem for problem in problems if problem is not None))
