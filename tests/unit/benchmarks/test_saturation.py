"""Other processes take all the processor time there is, and end with the measurement."""

from __future__ import annotations

import os
import time

import psutil
import pytest

from benchmarks.saturation import saturated
from deploy.local.watchdog import watchdog

WITHIN_S = 60.0


@pytest.fixture
def others() -> set[psutil.Process]:
    """The children that this process has anyway."""
    watchdog()
    return set(psutil.Process().children())


def used_by_each(processes: set[psutil.Process]) -> float:
    """CPU seconds of the one that has used least."""
    return min(process.cpu_times().user for process in processes)


def test_as_many_processes_as_processors_compute_until_the_end(others: set[psutil.Process]) -> None:
    with saturated() as busy:
        found = set(psutil.Process().children()) - others
        assert len(found) == busy == psutil.cpu_count()
        assert all(os.getsid(process.pid) != os.getsid(0) for process in found)
        # Far more than a Python takes to start.
        until = time.monotonic() + WITHIN_S
        while used_by_each(found) < 0.3:
            assert time.monotonic() < until
            time.sleep(0.05)
    assert not set(psutil.Process().children()) - others


def test_they_end_with_a_measurement_that_fails(others: set[psutil.Process]) -> None:
    with pytest.raises(RuntimeError, match="it failed"), saturated():
        raise RuntimeError("it failed")
    assert not set(psutil.Process().children()) - others
