"""A plugin of pytest: what each file of tests costs. `TESTS_COSTS=FILE make test` writes it as JSON, the dearest first.

Wall time says how long a file took beside others; processor time says what it cost. It is that of pytest's process and all
below it. A process whose parent has ended is missing, as tasks of a JVM that was killed are.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

# Looking at the processes takes some milliseconds: what is shorter is counted with what follows in its file.
SHORT_S: Final = 0.05


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", metavar="FILE", help="write what each file of tests costs as JSON")


def pytest_configure(config: pytest.Config) -> None:
    if not config.option.costs:
        return
    config.pluginmanager.register(_Clock())
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Sums(Path(config.option.costs).absolute()))


def processor_s() -> float:
    """Processor time of this process and all below it so far."""
    own = os.times()
    total = own.user + own.system + own.children_user + own.children_system
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            total += sum(process.cpu_times()[:4])
    return total


class _Clock:
    """Notes with each report what its phase cost."""

    def __init__(self) -> None:
        self._before = processor_s()
        self._file = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        file = item.nodeid.partition("::")[0]
        # An attribute of a report comes from xdist's workers, too.
        report.processor_s = 0.0  # type: ignore[attr-defined]
        if call.duration > SHORT_S or file != self._file:
            now = processor_s()
            # What a killed process's children had used is gone with it.
            report.processor_s = max(now - self._before, 0.0)  # type: ignore[attr-defined]
            self._before, self._file = now, file
        return report


class _Sums:
    """Adds up the reports of each file, and writes them down at the end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._began = time.monotonic()
        self._files: dict[str, dict[str, Any]] = defaultdict(
            lambda: {"wall": 0.0, "processor": 0.0, "begun": time.monotonic() - self._began, "tests": {}}
        )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A phase of a test."""
        file, _, test = report.nodeid.partition("::")
        found = self._files[file]
        cost = getattr(report, "processor_s", 0.0)
        found["wall"] += report.duration
        found["processor"] += cost
        found["ended"] = time.monotonic() - self._began
        if report.duration > SHORT_S:
            found["tests"][f"{test} {report.when}"] = [round(report.duration, 2), round(cost, 2)]

    def pytest_sessionfinish(self) -> None:
        """Writes the file."""
        dearest = sorted(self._files.items(), key=lambda each: -each[1]["processor"])
        self._path.write_text(json.dumps(dict(dearest), indent=1))
