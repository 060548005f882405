"""The waits of tests/e2e/product.py: which of them may be tried again."""

from __future__ import annotations

import contextlib
import subprocess
from typing import Any, cast

import psutil
import pytest

from deploy.local import LocalCluster
from tests.e2e import ends, kills
from tests.e2e.ends import wait_ends
from tests.e2e.kills import Kill, Survived, ended_by
from tests.e2e.product import Product, wait_gone
from tests.e2e.progress import EVERY_S, Progress
from tests.e2e.reading import Batch
from tests.waiting import WaitTimedOut, only_waited


class Silent(Product):
    """A worker that is a process which does nothing; its one connector has this state."""

    def __init__(self, process: subprocess.Popen[bytes], state: str) -> None:
        self._process, self._state = process, state

    def status(self, name: str) -> dict[str, Any]:
        return {"name": name, "connector": {"state": "RUNNING"}, "tasks": [{"id": 0, "state": self._state}]}

    def log_text(self) -> str:
        return "its log"


@pytest.fixture
def process() -> Any:
    with subprocess.Popen(["sleep", "60"]) as running:
        yield running
        running.kill()


def test_a_state_that_is_not_reached_may_come_late(process: subprocess.Popen[bytes]) -> None:
    with pytest.raises(WaitTimedOut, match=r"^not within 0.1 s: copy is .*'UNASSIGNED'.*\nits log$") as raised:
        Silent(process, "UNASSIGNED").wait_running("copy", seconds=0.1)
    assert only_waited(raised.value)


def test_a_task_that_has_failed_is_not_late(process: subprocess.Popen[bytes]) -> None:
    with pytest.raises(AssertionError, match="copy has failed: ") as raised:
        Silent(process, "FAILED").wait_running("copy", seconds=0.1)
    assert not only_waited(raised.value)


def test_a_worker_that_has_ended_is_not_late() -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait(60)
    with pytest.raises(AssertionError, match="the worker ended with code 0") as raised:
        Silent(ended, "UNASSIGNED").wait_running("copy", seconds=0.1)
    assert not only_waited(raised.value)


def test_an_end_may_come_late(process: subprocess.Popen[bytes]) -> None:
    with pytest.raises(WaitTimedOut) as raised:
        Silent(process, "RUNNING").wait_ended(0.1)
    assert only_waited(raised.value)
    with pytest.raises(WaitTimedOut) as raised:
        wait_gone([psutil.Process(process.pid)], 0.1)
    assert only_waited(raised.value)


def ends_at(end: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Partition 0 of whatever topic is asked for."""
    monkeypatch.setattr(ends, "_asking", contextlib.nullcontext)
    monkeypatch.setattr(ends, "_present_ends", lambda _consumer, _topic: {0: end})


def test_records_that_do_not_come_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    ends_at(9, monkeypatch)
    with pytest.raises(AssertionError, match=r"A.t ends at \{0: 10\}; it ends at \{0: 9\}$") as raised:
        wait_ends(cast(LocalCluster, None), "A.t", {0: 10}, 0.1)
    assert not only_waited(raised.value)


@pytest.mark.parametrize(("state", "late"), [("UNASSIGNED", True), ("RUNNING", False), ("FAILED", False)])
def test_records_are_late_only_while_the_product_says_that_it_does_not_copy(
    process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, state: str, late: bool
) -> None:
    ends_at(9, monkeypatch)
    with pytest.raises(AssertionError, match=r"A.t ends at \{0: 10\}; it ends at \{0: 9\}") as raised:
        Silent(process, state).wait_going_on("copy", cast(LocalCluster, None), "A.t", 0.1)
    assert only_waited(raised.value) is late


@pytest.mark.parametrize(
    ("looks", "stalled"),
    [
        pytest.param([98.0, 98.5, 99.0, 99.5, 100.0], 0.5, id="between_two_looks"),
        pytest.param([97.0, 98.5], 1.5, id="since_the_last_look"),
        pytest.param([], 2.0, id="no_look_at_all"),
        pytest.param([98.0 + n / 10 for n in range(21)] + [104.0], 0.1, id="later_is_no_matter"),
    ],
)
def test_how_long_a_cluster_answered_nobody_is_seen_in_the_looks_at_it(looks: list[float], stalled: float) -> None:
    progress = Progress.__new__(Progress)
    progress._samples = [(looked, {}) for looked in looks]
    assert progress.stalled(100.0, 2.0) == pytest.approx(stalled - EVERY_S)


COPY = ("A.t", 0)


def test_whose_request_comes_late_was_ended_by_the_kill_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    progress = Progress.__new__(Progress)
    # Kills at 10 and 20. What lies at 5 to 9 was on its way at the first one, and is seen when the next writer is at work.
    progress._samples = [(at, {COPY: end}) for at, end in ((9.0, 5), (10.5, 5), (11.5, 12), (19.0, 30), (21.0, 40))]
    starts = ((0, 0), (5, 0), (10, 1), (25, 1), (35, 2))
    written = [Batch(base, 0, 0, 0, 0, (7, epoch), 1, b"") for base, epoch in starts]
    monkeypatch.setattr(kills, "batches", lambda *_: written)
    cluster = cast(LocalCluster, None)
    survived = Survived(cluster, cluster, progress, [Kill(10.0, {COPY: 5}), Kill(20.0, {COPY: 30})])
    index = ended_by(survived, [COPY])
    assert [index(COPY, offset) for offset in (4, 9, 10, 34)] == [0, 0, 1, 1]
    assert (progress.missed(COPY, 9), progress.written(COPY, 9)) == (10.5, 11.5)
