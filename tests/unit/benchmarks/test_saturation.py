"""Other processes take all the processor time there is, and end with the measurement."""

from __future__ import annotations

import os

import psutil
import pytest

from benchmarks.saturation import saturated


def endless() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if child.cmdline()[1:] == ["-c", "while True: pass"]]


def test_as_many_processes_as_processors_compute_until_the_end() -> None:
    with saturated() as busy:
        assert busy == psutil.cpu_count()
        assert len(endless()) == busy
        assert all(os.getsid(child.pid) != os.getsid(0) for child in endless())
    assert not endless()


def test_they_end_with_a_measurement_that_fails() -> None:
    with pytest.raises(RuntimeError, match="it failed"), saturated():
        raise RuntimeError("it failed")
    assert not endless()
