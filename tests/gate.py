"""A plugin of pytest: what of a failed run may be tried again, and what a skip is worth.

Whether a test failed because a wait ran out is told by the type of its error (tests/waiting.py). With `--waits-again`, if
nothing else failed and few files had such a wait, their tests are tried once more: each twice, side by side, so that the
second try has no idler machine than the first. Both have to pass. The lines above pytest's last one name and count every
wait that ran out. A limit of a whole test (pytest-timeout) is no such wait: it may cut through anything.

With CI set a skip is a failure, unless the test is marked `tool`: it needs a program that no setup can bring.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from tests.seeds import VARIABLE, seed
from tests.waiting import only_waited

ROOT: Final = Path(__file__).resolve().parents[1]
# Waits that run out in more files than these are no accident.
MOST_FILES: Final = 3
TWICE: Final = ("-p", "tests.gate", "--numprocesses=2", "--dist=each")
WAITED: Final = pytest.StashKey["Waited"]()


@dataclass
class Waited:
    """The waits that ran out: test → the first line of what was waited for; and what became of them."""

    first: dict[str, str] = field(default_factory=dict)
    outcome: str = ""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--waits-again", action="store_true", help="try tests whose waits ran out once more, if nothing else failed"
    )
    parser.addoption("--slowest-files", type=int, default=0, metavar="N", help="name the N files that took longest")
    parser.addoption("--outcomes", metavar="FILE", help="a line of JSON for each test that ends (make soak)")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[WAITED] = Waited()
    seed()
    if hasattr(config, "workerinput"):
        return
    config.pluginmanager.register(AtOnce(config))
    if config.option.outcomes:
        config.pluginmanager.register(Outcomes(Path(config.option.outcomes)))


def pytest_report_header() -> str:
    return f"seed: {VARIABLE}={seed()}"


def skips_fail() -> bool:
    """Whether CI is set."""
    return os.environ.get("CI", "") not in ("", "0", "false")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    # An attribute of a report comes from xdist's workers, too.
    report.only_waited = report.failed and call.excinfo is not None and only_waited(call.excinfo.value)
    # Marked `tool`: setup can't bring that program, so CI without it is no fault. The closing lines name it.
    if report.skipped and skips_fail() and not hasattr(report, "wasxfail") and not _lacks_a_tool(item):
        report.outcome, report.longrepr = "failed", f"skipped, and CI is set: {_reason(report)}"
    return report


def _lacks_a_tool(item: pytest.Item) -> bool:
    """Whether a program of its marks is not there. A test that is skipped for another reason is not excused by the mark."""
    return any(shutil.which(name) is None for mark in item.iter_markers("tool") for name in mark.args)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.skipped and skips_fail():
        report.outcome, report.longrepr = "failed", f"skipped, and CI is set: {_reason(report)}"
    return report


# The innermost: xdist's workers have ended by then and given back what they had, and pytest has told nothing yet.
@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    result = yield
    config = session.config
    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or hasattr(config, "workerinput"):
        return result
    failed = [*terminal.stats.get("failed", ()), *terminal.stats.get("error", ())]
    late = [report for report in failed if getattr(report, "only_waited", False)]
    waited = config.stash[WAITED]
    waited.first = {report.nodeid: _first_line(report) for report in reversed(late)}
    if not late or not config.option.waits_again or session.exitstatus != pytest.ExitCode.TESTS_FAILED:
        return result
    files = {report.nodeid.partition("::")[0] for report in late}
    if len(late) < len(failed):
        waited.outcome = "not tried again, since something else failed"
    elif len(files) > MOST_FILES:
        waited.outcome = f"not tried again: in {len(files)} files this is no accident"
    else:
        for report in late:
            terminal.section(f"a wait ran out: {report.nodeid}", "_")
            terminal.write_line(report.longreprtext)
        terminal.section("tried again, each twice at once", "_")
        again = [f"{config.rootpath}/{name}" for name in waited.first]
        # The child writes to the same terminal.
        sys.stdout.flush()
        done = subprocess.run([sys.executable, "-m", "pytest", *TWICE, *again], cwd=ROOT, check=False)
        if done.returncode == 0:
            waited.outcome = "passed when tried again"
            _count_as_passed(terminal, late)
            session.testsfailed = 0
            session.exitstatus = pytest.ExitCode.OK
        else:
            waited.outcome = "tried again, and not passed: see above"
    return result


# The outermost: these lines come below all that pytest and other plugins tell, above its last line.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> Iterator[None]:
    yield
    waited = config.stash[WAITED]
    skipped = terminalreporter.stats.get("skipped", ())
    if config.option.slowest_files:
        terminalreporter.section("slowest files, with what their tests share")
        for seconds, file in _slowest_files(terminalreporter)[: config.option.slowest_files]:
            terminalreporter.write_line(f"{seconds:6.1f} s {file}")
    if waited.first or skipped:
        terminalreporter.section("late and left out")
    if waited.first:
        count = f"{len(waited.first)} test{'s' * (len(waited.first) > 1)} in which a wait ran out"
        terminalreporter.write_line(f"{count}, {waited.outcome}:" if waited.outcome else f"{count}:")
        for name, what in waited.first.items():
            terminalreporter.write_line(f"  {name}: {what}")
    if skipped:
        worth = "" if skips_fail() else ", a failure where CI is set"
        terminalreporter.write_line(f"{len(skipped)} skipped{worth}:")
        for where in sorted({f"{report.nodeid.partition('::')[0]}: {_reason(report)}" for report in skipped}):
            terminalreporter.write_line(f"  {where}")


class AtOnce:
    """Names what failed as soon as it has: the whole report comes at the end of a long run, or never if it is stopped."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A phase of a test."""
        terminal: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            terminal.write_line(f"\nfailed: {report.nodeid}: {_first_line(report)}")


class Outcomes:
    """Writes down of each test how it ended: passed, failed, skipped, or waited when only a wait ran out."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._phases: dict[str, list[pytest.TestReport]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A phase of a test; the clean-up is the last."""
        phases = self._phases.setdefault(report.nodeid, [])
        phases.append(report)
        # A test process that dies takes its test's clean-up with it.
        if report.when == "teardown" or report.when not in ("setup", "call"):
            del self._phases[report.nodeid]
            seconds = sum(each.duration for each in phases)
            line = json.dumps(
                {"test": report.nodeid, "outcome": _outcome(phases), "seconds": seconds, "why": _why(phases)}
            )
            with self._file.open("a") as lines:
                lines.write(f"{line}\n")


def _why(phases: Sequence[pytest.TestReport]) -> str:
    return next((_first_line(report) for report in phases if report.failed), "")


def _outcome(phases: Sequence[pytest.TestReport]) -> str:
    failed = [report for report in phases if report.failed]
    if failed:
        return "waited" if all(getattr(report, "only_waited", False) for report in failed) else "failed"
    return "skipped" if any(report.skipped and not hasattr(report, "wasxfail") for report in phases) else "passed"


def _slowest_files(terminal: Any) -> list[tuple[float, str]]:
    took: Counter[str] = Counter()
    for reports in terminal.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                took[report.nodeid.partition("::")[0]] += report.duration  # type: ignore[assignment]
    return [(seconds, file) for file, seconds in took.most_common()]


def _count_as_passed(terminal: Any, late: list[pytest.TestReport]) -> None:
    for kind in ("failed", "error"):
        terminal.stats.pop(kind, None)
    passed = terminal.stats.setdefault("passed", [])
    # A test that passed and failed in its clean-up is among them already.
    there = {report.nodeid for report in passed}
    for report in late:
        if report.nodeid not in there:
            there.add(report.nodeid)
            mended = copy.copy(report)
            mended.outcome, mended.longrepr = "passed", None
            passed.append(mended)


def _first_line(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else report.longreprtext
    return str(text).partition("\n")[0]


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
