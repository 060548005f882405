"""The report for people: a table for each part, what matters first, then the commands of `verify`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from mirror_connect.check.judgement import Verdict
from mirror_connect.check.report import PROGRAM, Finding, Part, Report
from mirror_connect.connectors.wording import counted

WIDTH: Final = 100
_LONGEST_VALUE: Final = 120
_COLOURS: Final = {
    Verdict.REFUSED: "red",
    Verdict.DIFFERENT: "yellow",
    Verdict.NOT_JUDGED: "cyan",
    Verdict.SAME: "green",
}


def print_report(report: Report, console: Console, *, quiet: bool = False, program: Sequence[str] = PROGRAM) -> None:
    """`quiet`: without what is the same. `program`: the words that start `mirror-connect`."""
    # By lines of its own, for rich would break a long path or URL.
    console.print(Text(report.checked, style="bold"), soft_wrap=True)
    for note in report.notes:
        console.print(escape(note))
    for part in report.parts:
        _print_part(part, console, quiet=quiet)
    console.print()
    console.print(_summary(report))
    for link in report.links:
        console.print()
        if link.impossible:
            console.print(escape(f"{link.name}: {link.impossible}"))
            continue
        console.print(f"Compare what MirrorMaker has copied with its source ({escape(link.name)}):")
        if link.note:
            console.print(escape(link.note))
        # A command is one line, to be copied.
        console.print(Text(f"  {link.command(program)}"), soft_wrap=True)


def _print_part(part: Part, console: Console, *, quiet: bool) -> None:
    order = list(Verdict)
    told = sorted(part.findings, key=lambda finding: (order.index(finding.verdict), finding.line or 0))
    same = [finding for finding in told if finding.verdict is Verdict.SAME]
    others = told[: len(told) - len(same)]
    console.print()
    console.print(f"{escape(part.name)}: {escape(part.kind)}")
    if others:
        console.print(_table(others, explained=True))
    else:
        console.print("Nothing differs.")
    if same and not quiet:
        console.print(_table(same, explained=False))


def _table(findings: Sequence[Finding], *, explained: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False, show_header=explained)
    table.add_column("here", no_wrap=True, min_width=len(Verdict.NOT_JUDGED))
    table.add_column("line", justify="right", no_wrap=True, min_width=4)
    table.add_column("property and value", ratio=2 if explained else None, overflow="fold")
    if explained:
        table.add_column("what differs, and what to do", ratio=3, overflow="fold")
    for finding in findings:
        value = "" if finding.value is None else f" = {_shortened(finding.value)}"
        cells = [
            Text(str(finding.verdict), style=_COLOURS[finding.verdict]),
            Text("" if finding.line is None else str(finding.line)),
            Text(f"{finding.name}{value}"),
        ]
        if explained:
            cells.append(Text(" ".join(filter(None, (finding.text, finding.instead)))))
        table.add_row(*cells)
    return table


def _summary(report: Report) -> str:
    numbers = ", ".join(f"{report.count(verdict)} {verdict}" for verdict in Verdict)
    return f"{counted(len(report.findings), 'setting')}: {numbers}"


def _shortened(value: str) -> str:
    whole = " ".join(value.split())
    return whole if len(whole) <= _LONGEST_VALUE else f"{whole[: _LONGEST_VALUE - 1]}…"
