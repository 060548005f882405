"""What `verify --follow` shows: faults as they are found, a line now and then, a table at the end; or all of it as JSON."""

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
from mirror_connect.verify.findings import Fault, Kind
from mirror_connect.verify.follow_report import FollowReport, FollowWatcher
from mirror_connect.verify.place import Key

_LINE_EVERY_S: Final = 10.0
_STATUS_EVERY_S: Final = 5.0
_NEW_LINE: Final = "\r\x1b[2K"
_WIDE: Final = 200
_OPTIONAL: Final = ("passed", "gone", "unaccounted", "repeated", *map(str, Kind))
_WORDS: Final = (
    "What was compared is equal to its source.",
    "The copy differs from its source.",
    "Nothing was compared.",
)


class FollowLines(FollowWatcher):
    """For people: faults on `out`, progress and notices on `errors`; on a terminal progress has one line.

    Without rich's live display: that would take more CPU than all the rest.
    """

    def __init__(self, out: Console, errors: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._errors = errors
        self._clock = clock
        self._said = clock()
        self._live = errors.is_terminal

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clear()

    def moved(self, report: FollowReport) -> None:
        """See FollowWatcher."""
        now = self._clock()
        if now - self._said < (_STATUS_EVERY_S if self._live else _LINE_EVERY_S):
            return
        self._said = now
        line = progress_line(report)
        if self._live:
            self._clear()
            self._errors.file.write(line[: self._errors.width - 1])
            self._errors.file.flush()
        else:
            self._errors.print(line, markup=False, highlight=False, soft_wrap=True)

    def fault(self, key: Key, fault: Fault) -> None:
        """See FollowWatcher."""
        self._clear()
        self._out.print(f"{key[0]}-{key[1]}: {fault_line(fault)}", markup=False, highlight=False, soft_wrap=True)

    def notice(self, line: str) -> None:
        """See FollowWatcher."""
        self._clear()
        self._errors.print(line, markup=False, highlight=False, soft_wrap=True)

    def _clear(self) -> None:
        if self._live:
            self._errors.file.write(_NEW_LINE)
            self._errors.file.flush()


class FollowJson(FollowWatcher):
    """For machines: an object on each line of standard output, `event` says what it is."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said = clock()

    def moved(self, report: FollowReport) -> None:
        """See FollowWatcher."""
        if self.due():
            json_line("progress", report.as_json(partitions=False))

    def due(self) -> bool:
        """Whether it is time for a line of progress; if so, the next one is due as much later."""
        now = self._clock()
        if now - self._said < _LINE_EVERY_S:
            return False
        self._said = now
        return True

    def fault(self, key: Key, fault: Fault) -> None:
        """See FollowWatcher."""
        json_line("fault", {"topic": key[0], "partition": key[1], **fault.as_json()})

    def notice(self, line: str) -> None:
        """See FollowWatcher."""
        json_line("notice", {"text": line})


def json_line(event: str, members: dict[str, object]) -> None:
    """One object, at once."""
    print(json.dumps({"event": event, **members}), flush=True)


def progress_line(report: FollowReport) -> str:
    """How much of what was copied is verified, in what way, and what it took."""
    copied, faults = report.copied, report.faults
    since = report.since.strftime("%H:%M:%S")
    sample = "everything" if report.whole else f"sample seed {report.seed}"
    parts = [
        f"{_share(report.total('compared'), copied)} of the {copied:,} records copied since {since} UTC compared",
        f"{_share(report.total('counted'), copied)} more counted ({sample})",
        f"{faults:,} wrong" if faults else "no fault",
        f"{report.own_cpu:.1f} CPU s",
    ]
    if unaccounted := report.total("unaccounted"):
        parts.insert(2, f"{unaccounted:,} more on the target than is accounted for")
    if not report.whole and report.copying_cpu:
        parts[-1] += f" for {report.copying_cpu:.1f} or more of copying"
    if report.troubles:
        parts.append(f"trouble with {', '.join(sorted(report.troubles))}")
    return ", ".join(parts)


def print_follow_report(report: FollowReport, console: Console) -> None:
    """The table by topic, the faults that are listed, and the sentence that counts."""
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
        lines += [f"{name}: not compared everywhere: {found.error}"] * bool(found.error)
        if each.thin:
            lines.append(
                f"{name}: transactions or compaction leave gaps in its offsets: compared in samples, not counted"
            )
        for line in lines:
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    for line in report.troubles.values():
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print(
        f"{_WORDS[report.outcome]} {progress_line(report)}. Read by the copier's own reader; verify without --follow "
        "reads by librdkafka.",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


def _share(part: int, whole: int) -> str:
    if not whole:
        return "0 %"
    percent = min(100.0, 100 * part / whole)
    return f"{percent:.0f} %" if percent in (0, 100) else f"{percent:.1f} %" if percent >= 0.1 else f"{percent:.2g} %"
