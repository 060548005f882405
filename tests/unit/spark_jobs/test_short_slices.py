"""Short time slices: asked of the real kernel, in threads of their own, as a thread keeps them."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mirror_connect.spark_jobs.short_slices import SLICE_NS, ask_for_short_slices, scheduling_attributes

KERNEL = tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2])


def in_a_thread(work: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(10)


def asked() -> Any:
    before = scheduling_attributes()
    ask_for_short_slices()
    return before, scheduling_attributes()


def test_the_thread_has_short_slices_and_everything_else_stays() -> None:
    before, after = in_a_thread(asked)

    assert before.policy == os.SCHED_OTHER
    # Older kernels have no slices of threads and tell 0.
    assert after == before._replace(slice_ns=SLICE_NS if KERNEL >= (6, 12) else before.slice_ns)
    assert before.slice_ns != SLICE_NS


def test_a_nice_value_that_an_operator_has_set_stays() -> None:
    def work() -> Any:
        os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) + 3)  # on Linux: of this thread
        return asked()

    before, after = in_a_thread(work)

    assert (after.policy, after.nice) == (os.SCHED_OTHER, before.nice)
    assert after.nice >= 3


@pytest.mark.parametrize("policy", [os.SCHED_BATCH, os.SCHED_IDLE])
def test_another_policy_that_an_operator_has_chosen_stays(policy: int) -> None:
    def work() -> Any:
        os.sched_setscheduler(0, policy, os.sched_param(0))
        return asked()

    before, after = in_a_thread(work)

    assert after == before
    assert after.policy == policy


def test_other_threads_keep_theirs() -> None:
    before = scheduling_attributes()

    in_a_thread(asked)

    assert scheduling_attributes() == before


def test_on_a_machine_whose_system_calls_are_not_known_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")

    assert in_a_thread(asked) == (None, None)
