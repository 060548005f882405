"""The output of `mirror-connect verify`: a progress bar or a line every ten seconds, then the result as a table."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from mirror_connect.verify.findings import Fault, Kind
from mirror_connect.verify.plan import Job
from mirror_connect.verify.remarks import amount, gone, repeats
from mirror_connect.verify.run import EQUAL, NOT_COMPARED, Report, Result, Watcher

_LINE_EVERY_S: Final = 10.0
_OPTIONAL: Final = ("not copied yet", "repeated", "not comparable", *map(str, Kind))
# The width for files and pipes.
_WIDE: Final = 200
_NOTES_SHOWN: Final = 20
_WORDS: Final = (
    "The copy is equal to its source.",
    "The copy differs from its source.",
    "Not everything could be compared.",
)


class _Watching(Watcher):
    """Adds up the progress of all partitions. `total` and `compared` are source offsets."""

    def __init__(self) -> None:
        self.total = self.compared = self.partitions = self.finished = 0
        self._compared_to: dict[Job, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops showing."""

    def begin(self, jobs: Sequence[Job]) -> None:
        self.partitions = len(jobs)
        self.total = sum(max(0, job.until - job.start) for job in jobs)
        self.changed()

    def advanced(self, job: Job, offset: int) -> None:
        compared_to = max(job.start, min(offset, job.until))
        self.compared += compared_to - self._compared_to.get(job, job.start)
        self._compared_to[job] = compared_to
        self.changed()

    def done(self, result: Result) -> None:
        self.finished += 1
        self.advanced(result.job, result.job.until)

    def changed(self) -> None:
        """Shows the progress."""


class _Lines(_Watching):
    """A line every ten seconds: for logs."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._console = console
        self._clock = clock
        self._began = self._last_line_at = clock()

    def changed(self) -> None:
        now = self._clock()
        if now - self._last_line_at < _LINE_EVERY_S:
            return
        self._last_line_at = now
        speed = self.compared / (now - self._began)
        left = f", about {(self.total - self.compared) / speed:.0f} s left" if speed else ""
        share = 100 * self.compared // max(1, self.total)
        self._console.print(
            f"{share} % compared, {self.finished} of {self.partitions} partitions done, {speed:,.0f} records/s{left}"
        )


class _Speed(ProgressColumn):
    """Records a second."""

    def render(self, task: Task) -> Text:
        return Text("" if not task.speed else f"{task.speed:,.0f} records/s")


class _Bar(_Watching):
    """A bar with rate and time left."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            _Speed(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("comparing", total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def changed(self) -> None:
        self._progress.update(
            self._task,
            total=self.total,
            completed=self.compared,
            description=f"{self.finished}/{self.partitions} partitions",
        )


def watcher_for(console: Console) -> _Watching:
    """A watcher: a context manager around the comparison."""
    return _Bar(console) if console.is_terminal else _Lines(console)


def print_report(report: Report, console: Console) -> None:
    """Prints the table by topic, then the faults, then the verdict."""
    if not console.is_terminal:
        console.width = _WIDE
    topics = _by_topic(report.results)
    # Terminals are narrow: a column without any number is left out.
    columns = ["partitions", "equal"]
    columns += [name for name in _OPTIONAL if any(counts[name] for counts in topics.values())]
    table = Table("topic", "target", box=None, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for (topic, remote), counts in topics.items():
        table.add_row(Text(topic), Text(remote), *(f"{counts[name]:,}" for name in columns))
    console.print(table)
    lines = [line for result in report.results for line in _lines(result)]
    for line in [*lines, *_notes(report.results), *report.notices]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    size = sum(each.findings.bytes for each in report.results)
    rate = size / report.seconds / 1e6 if report.seconds else 0.0
    console.print(
        f"{_verdict(report)} {size / 1e6:,.1f} MB of keys, values and headers read by librdkafka in {report.seconds:.1f} s "
        f"({rate:,.1f} MB/s).",
        highlight=False,
        soft_wrap=True,
    )


def _verdict(report: Report) -> str:
    if report.nothing_copied and report.outcome == NOT_COMPARED:
        return "Nothing to compare: no record is copied yet."
    if report.strict and report.faults and not sum(each.findings.faults() for each in report.results):
        again = [each.findings for each in report.results]
        duplicates = repeats(sum(each.repeated for each in again), sum(each.equal for each in again))
        return f"The copy differs from its source by duplicates alone, which --strict counts as faults: {duplicates}."
    if report.outcome != EQUAL:
        return _WORDS[report.outcome]
    limits, details = [], []
    if report.behind:
        # After a transaction the last offset is a marker. Only reading it would show that.
        limits.append("it was copied")
        details.append(f"{amount(report.behind, 'source offset')} not copied yet, or without a record")
    if any(report.gone):
        limits.append("both sides still have it")
        details += gone(*report.gone)
    again = [each.findings for each in report.results if each.findings.repeated]
    if again:
        details.append(repeats(sum(each.repeated for each in again), sum(each.equal for each in again)))
    if any(report.gone) and not any(each.findings.equal for each in report.results):
        return f"Nothing to compare: no record is on both sides: {'; '.join(details)}."
    if not details:
        return _WORDS[EQUAL]
    as_far = f" as far as {' and '.join(limits)}" if limits else ""
    return f"The copy is equal to its source{as_far}: {'; '.join(details)}."


def _by_topic(results: Sequence[Result]) -> dict[tuple[str, str], Counter[str]]:
    topics: dict[tuple[str, str], Counter[str]] = {}
    for result in results:
        found = result.findings
        counts = topics.setdefault((result.job.topic, result.job.remote), Counter())
        counts["partitions"] += 1
        counts["equal"] += found.equal
        counts["not copied yet"] += found.behind
        counts["repeated"] += found.repeated
        counts["not comparable"] += found.gone_from_source + found.gone_from_target
        for kind in Kind:
            counts[str(kind)] += found.counts[kind]
    return topics


def _lines(result: Result) -> list[str]:
    found, name = result.findings, f"{result.job.topic}-{result.job.partition}"
    lines = [f"{name}: {fault_line(fault)}" for fault in found.listed]
    unlisted = found.counts.total() - sum(fault.count for fault in found.listed)
    if unlisted > 0:
        lines.append(f"{name}: and {unlisted:,} more")
    if found.error:
        lines.append(f"{name}: not compared completely: {found.error}")
    return lines


def _notes(results: Sequence[Result]) -> list[str]:
    """The first notes. Retention may remove records of thousands of partitions at once, so some are enough."""
    notes = [f"{each.job.topic}-{each.job.partition}: {note}" for each in results for note in each.findings.notes]
    more = len(notes) - _NOTES_SHOWN
    return notes if more <= 0 else [*notes[:_NOTES_SHOWN], f"and {more:,} more notes; --json has them all"]


def fault_line(fault: Fault) -> str:
    """A line about a fault: kind, offsets on both sides, and the difference."""
    parts = [str(fault.kind) if fault.count == 1 else f"{fault.count:,} records {fault.kind}"]
    if fault.source is not None:
        parts.append(f"source offset {_range(fault.source)}")
    if fault.target is not None:
        parts.append(f"target offset {_range(fault.target)}")
    return ", ".join(parts) + (f": {fault.detail}" if fault.detail else "")


def _range(offsets: tuple[int, int]) -> str:
    return str(offsets[0]) if offsets[0] == offsets[1] else f"{offsets[0]} to {offsets[1]}"
