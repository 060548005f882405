"""The report for people: a table for each part, what matters first, then the commands of `verify`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from mirror_connect.check.judgement import Verdict
from mirror_connect.check.report import PROGRAM, Finding, Part, Report
from mirror_connect.connectors.log_format import one_line
from mirror_connect.connectors.wording import counted

WIDTH: Final = 100
_LONGEST_VALUE: Final = 120
# Columns of the verdict and the line, and what is between columns.
_BESIDE: Final = 20
_NARROWEST: Final = 20
_COLOURS: Final = {
    Verdict.REFUSED: "red",
    Verdict.DIFFERENT: "yellow",
    Verdict.NOT_JUDGED: "cyan",
    Verdict.SAME: "green",
}


def print_report(report: Report, console: Console, *, quiet: bool = False, program: Sequence[str] = PROGRAM) -> None:
    """`quiet`: without what is the same. `program`: the words that start `mirror-connect`."""
    # By lines of its own, for rich would break a long path or URL.
    console.print(Text(one_line(report.checked), style="bold"), soft_wrap=True)
    for note in report.notes:
        console.print(_plain(note))
    for part in report.parts:
        _print_part(part, console, quiet=quiet)
    console.print()
    console.print(_summary(report))
    for link in report.links:
        console.print()
        if link.impossible:
            console.print(_plain(f"{link.name}: {link.impossible}"))
            continue
        console.print(f"Compare what MirrorMaker has copied with its source ({_plain(link.name)}):")
        if link.note:
            console.print(_plain(link.note))
        # A command is one line, to be copied.
        console.print(Text(f"  {one_line(link.command(program))}"), soft_wrap=True)


def _print_part(part: Part, console: Console, *, quiet: bool) -> None:
    order = list(Verdict)
    told = sorted(part.findings, key=lambda finding: (order.index(finding.verdict), finding.line or 0))
    same = [finding for finding in told if finding.verdict is Verdict.SAME]
    others = told[: len(told) - len(same)]
    console.print()
    console.print(_plain(f"{part.name}: {part.kind}"))
    if others:
        console.print(_table(others, console.width, explained=True))
    else:
        console.print("Nothing differs.")
    if same and not quiet:
        console.print(_table(same, console.width, explained=False))


def _table(findings: Sequence[Finding], width: int, *, explained: bool) -> Table:
    most = max(_NARROWEST, (width - _BESIDE) // 2 if explained else width - _BESIDE)
    named = [_named(finding, most) for finding in findings]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False, show_header=explained)
    table.add_column("here", no_wrap=True, min_width=len(Verdict.NOT_JUDGED))
    table.add_column("line", justify="right", no_wrap=True, min_width=4)
    table.add_column("property and value", width=_width(named, most) if explained else None, overflow="fold")
    if explained:
        table.add_column("what differs, and what to do", overflow="fold")
    for finding, name_and_value in zip(findings, named, strict=True):
        cells = [
            Text(str(finding.verdict), style=_COLOURS[finding.verdict]),
            Text("" if finding.line is None else str(finding.line)),
            Text(name_and_value),
        ]
        if explained:
            cells.append(Text(one_line(" ".join(filter(None, (finding.text, finding.instead))))))
        table.add_row(*cells)
    return table


def _named(finding: Finding, most: int) -> str:
    """Name and value. A name that is longer than the column goes on behind a dot: rich would cut it anywhere."""
    value = "" if finding.value is None else f" = {_shortened(finding.value)}"
    lines = [""]
    for part in re.findall(r"[^.>]*[.>]?", one_line(finding.name)):
        if lines[-1] and len(lines[-1]) + len(part) > most:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines) + value


def _plain(text: str) -> str:
    """Without rich's markup, and without control characters: a name in a file could write anything to the terminal."""
    return escape(one_line(text))


def _width(named: Sequence[str], most: int) -> int:
    return min(most, max(len(line) for each in named for line in each.split("\n")))


def _summary(report: Report) -> str:
    numbers = ", ".join(f"{report.count(verdict)} {verdict}" for verdict in Verdict)
    return f"{counted(len(report.findings), 'setting')}: {numbers}"


def _shortened(value: str) -> str:
    whole = one_line(" ".join(value.split()))
    return whole if len(whole) <= _LONGEST_VALUE else f"{whole[: _LONGEST_VALUE - 1]}…"
