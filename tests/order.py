"""A plugin of pytest: which file of tests a process of `make test` takes next.

Two cores can't start everything at once: what has several workers or Spark applications at a time gets slow beside its like,
and a wait for a start may run out. So of the processes two at most have tests with real parts (brokers, Spark, a browser),
and one of these a file with many of them. The others have tests that need none: models and units. When these are used up,
the rest of the real ones runs in all processes. What takes long comes first, so that no long file runs alone at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pytest
from xdist.scheduler import LoadFileScheduling

# Several workers, Spark applications or Connect's processes at a time. The longest come first.
MANY: Final = (
    "tests/e2e/test_sharing.py",
    "tests/e2e/test_spark_cluster.py",
    "tests/e2e/test_standing_still.py",
    "tests/e2e/test_dedicated.py",
    "tests/e2e/test_command_line.py",
    "tests/e2e/test_guide.py",
    "tests/e2e/test_mm2_swap.py",
    "tests/e2e/test_any_worker.py",
    "tests/e2e/test_check_truth.py",
    "tests/e2e/test_demo.py",
    "tests/spark/test_cluster_channel.py",
    "tests/spark/test_spark_closed_to_others.py",
)
BROWSER: Final = ("tests/unit/app/rest/test_ui_views.py",)
# Files below these need nothing real, unless they are named above.
LIGHT: Final = ("tests/models/", "tests/unit/")
MOST_REAL: Final = 2

NOTHING, REAL, SEVERAL = 0, 1, 2


def weight(file: str) -> int:
    """What a file of tests starts: NOTHING, REAL parts, or SEVERAL that are heavy."""
    if file in MANY:
        return SEVERAL
    return NOTHING if file.startswith(LIGHT) and file not in BROWSER else REAL


def next_file(waiting: Iterable[str], others: Sequence[int]) -> str:
    """The first of the files that wait which may run beside what the other processes have; `others`: the weights of that."""
    real = sum(each != NOTHING for each in others)
    most = NOTHING if real >= MOST_REAL else REAL if SEVERAL in others else SEVERAL
    files = list(waiting)
    # Where nothing may run beside that, the lightest does.
    return next((file for file in files if weight(file) <= most), min(files, key=weight))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Heavy files come first, then a browser's, others with real parts, models, units. Within a file nothing moves."""
    first = {file: place for place, file in enumerate((*MANY, *BROWSER))}

    def place(item: pytest.Item) -> tuple[int, int]:
        file = item.nodeid.partition("::")[0]
        return -weight(file), first.get(file, len(first))

    items.sort(key=place)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Only where whole files are given out."""
    return MixedFiles(config, log) if config.getoption("dist") == "loadfile" else None


class MixedFiles(LoadFileScheduling):
    """Gives out whole files, so that few processes have real parts at a time."""

    def _reschedule(self, node: Any) -> None:
        # A process begins its last test when it has the one after it. xdist gives it more a test earlier: too early to know
        # what the others will have by then.
        if self.workqueue and self._pending_of(self.assigned_work[node]) > 1:
            return
        super()._reschedule(node)

    def _assign_work_unit(self, node: Any) -> None:
        others = [self._weight_of(each) for each in self.nodes if each is not node]
        self.workqueue.move_to_end(next_file(self.workqueue, others), last=False)
        super()._assign_work_unit(node)

    def _weight_of(self, node: Any) -> int:
        """Of the heaviest of a process's files that have tests left."""
        files = self.assigned_work[node].items()
        return max((weight(file) for file, tests in files if not all(tests.values())), default=NOTHING)
