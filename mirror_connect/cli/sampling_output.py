"""The output of `verify --follow`: faults at once, progress regularly, a table at the end; or all of it as JSON."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mirror_connect.cli.verify_output import fault_line
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.verify.findings import Fault, Kind
from mirror_connect.verify.remarks import amount
from mirror_connect.verify.sampling_report import SamplingReport, SamplingWatcher

_LINE_EVERY_S: Final = 10.0
_STATUS_EVERY_S: Final = 5.0
_NEW_LINE: Final = "\r\x1b[2K"
_WIDE: Final = 200
_OPTIONAL: Final = ("passed", "gone", "unaccounted", "repeated", *map(str, Kind))
_WORDS: Final = (
    "All compared records are equal to their source.",
    "The copy differs from its source.",
    "Nothing was compared.",
)


class SamplingLines(SamplingWatcher):
    """For people: faults on `out`, progress and notices on `errors`. On a terminal, progress is one line.

    It does without rich's live display, which would need more CPU than all the rest.
    """

    def __init__(self, out: Console, errors: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._errors = errors
        self._clock = clock
        self._last_line_at = clock()
        self._live = errors.is_terminal

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clear()

    def moved(self, report: SamplingReport) -> None:
        """See SamplingWatcher."""
        now = self._clock()
        if now - self._last_line_at < (_STATUS_EVERY_S if self._live else _LINE_EVERY_S):
            return
        self._last_line_at = now
        line = progress_line(report)
        if self._live:
            self._clear()
            self._errors.file.write(line[: self._errors.width - 1])
            self._errors.file.flush()
        else:
            self._errors.print(line, markup=False, highlight=False, soft_wrap=True)

    def fault(self, key: TopicPartition, fault: Fault) -> None:
        """See SamplingWatcher."""
        self._clear()
        self._out.print(f"{key[0]}-{key[1]}: {fault_line(fault)}", markup=False, highlight=False, soft_wrap=True)

    def notice(self, line: str) -> None:
        """See SamplingWatcher."""
        self._clear()
        self._errors.print(line, markup=False, highlight=False, soft_wrap=True)

    def _clear(self) -> None:
        if self._live:
            self._errors.file.write(_NEW_LINE)
            self._errors.file.flush()


class SamplingJson(SamplingWatcher):
    """For machines: an object on each line of standard output, with its kind in `event`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_line_at = clock()

    def moved(self, report: SamplingReport) -> None:
        """See SamplingWatcher."""
        if self.due():
            json_line("progress", report.as_json(partitions=False))

    def due(self) -> bool:
        """Whether a line of progress is due. If so, the next one is due ten seconds later."""
        now = self._clock()
        if now - self._last_line_at < _LINE_EVERY_S:
            return False
        self._last_line_at = now
        return True

    def fault(self, key: TopicPartition, fault: Fault) -> None:
        """See SamplingWatcher."""
        json_line("fault", {"topic": key[0], "partition": key[1], **fault.as_json()})

    def notice(self, line: str) -> None:
        """See SamplingWatcher."""
        json_line("notice", {"text": line})


def json_line(event: str, members: dict[str, object]) -> None:
    """Prints one object at once."""
    print(json.dumps({"event": event, **members}), flush=True)


def progress_line(report: SamplingReport) -> str:
    """A line: how many of the copied records are verified, how, and at what cost."""
    copied, faults = report.copied, report.faults
    since = report.since.strftime("%H:%M:%S")
    sample = "everything" if report.whole else f"sample seed {report.seed}"
    parts = [
        f"{_share(report.total('compared'), copied)} of the {copied:,} records copied since {since} UTC compared",
        f"{_share(report.total('counted'), copied)} more counted ({sample})",
        f"{amount(faults, 'record')} with faults" if faults else "no faults",
        f"{report.own_cpu:.1f} CPU s",
    ]
    if unaccounted := report.total("unaccounted"):
        parts.insert(2, f"{unaccounted:,} surplus on the target")
    if not report.whole and report.copying_cpu:
        parts[-1] += f" (copying: at least {report.copying_cpu:.1f})"
    if report.problems:
        parts.append(f"not readable now: {', '.join(sorted(report.problems))}")
    return ", ".join(parts)


def print_sampling_report(report: SamplingReport, console: Console) -> None:
    """Prints the table by topic, the listed faults and the verdict."""
    if not console.is_terminal:
        console.width = _WIDE
    topics: dict[tuple[str, str], Counter[str]] = {}
    for (topic, _), (remote, each) in sorted(report.partitions.items()):
        counts = topics.setdefault((topic, remote), Counter())
        found = each.tally.findings
        counts["copied"] += each.copied
        for name in ("compared", "counted", "passed", "gone", "unaccounted"):
            counts[name] += getattr(each.tally, name)
        counts["repeated"] += found.repeated
        for kind in Kind:
            counts[str(kind)] += found.counts[kind]
    columns = ["copied", "compared", "counted"]
    columns += [name for name in _OPTIONAL if any(counts[name] for counts in topics.values())]
    table = Table("topic", "target", box=None, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for (topic, remote), counts in topics.items():
        if counts["copied"]:
            table.add_row(Text(topic), Text(remote), *(f"{counts[name]:,}" for name in columns))
    console.print(table)
    for (topic, number), (_, each) in sorted(report.partitions.items()):
        found, name = each.tally.findings, f"{topic}-{number}"
        lines = [f"{name}: {fault_line(fault)}" for fault in found.listed]
        unlisted = found.counts.total() - sum(fault.count for fault in found.listed)
        lines += [f"{name}: and {unlisted:,} more"] * (unlisted > 0)
        lines += [f"{name}: {note}" for note in found.notes]
        lines += [f"{name}: not compared completely: {found.error}"] * bool(found.error)
        if each.thin:
            lines.append(
                f"{name}: transactions or compaction leave gaps in its offsets: samples are compared, records not counted"
            )
        for line in lines:
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    for line in report.problems.values():
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print(
        f"{_WORDS[report.outcome]} {progress_line(report)}. Read with the copier's own reader; without --follow, "
        "verify reads with librdkafka.",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


def _share(part: int, whole: int) -> str:
    if not whole:
        return "0 %"
    percent = min(100.0, 100 * part / whole)
    return f"{percent:.0f} %" if percent in (0, 100) else f"{percent:.1f} %" if percent >= 0.1 else f"{percent:.2g} %"
