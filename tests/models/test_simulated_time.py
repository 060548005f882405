"""Simulated time is that of one event loop: other threads, as librdkafka's for tokens, keep the real one."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

from tests.fakes.simulated_time import run_simulated, simulated_clock


async def test_an_event_loop_of_another_thread_has_real_time() -> None:
    real = time.monotonic

    async def elsewhere() -> tuple[float, float]:
        await asyncio.sleep(0.01)
        return asyncio.get_running_loop().time(), time.monotonic()

    with mock.patch("time.monotonic", simulated_clock(real, 0.0)), ThreadPoolExecutor(1) as thread:
        before = real()
        loop_time, clock_time = await asyncio.wrap_future(thread.submit(asyncio.run, elsewhere()))
    assert before < loop_time <= clock_time <= real()


def test_in_the_simulated_loop_hours_pass_at_once() -> None:
    async def hours() -> float:
        await asyncio.sleep(7200)
        return time.time()

    with mock.patch("time.time", simulated_clock(time.time, 1000.0)):
        assert run_simulated(hours()) == 8200.0
