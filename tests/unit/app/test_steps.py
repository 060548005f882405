"""Steps of an end."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

from mirror_connect.app.steps import within


async def test_what_a_step_says_after_its_time_is_no_stack_trace() -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))

    async def slow_to_end() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)

    async def fails_when_it_ends() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            raise RuntimeError("too late for anybody")

    # A gather that is cancelled ends with an error and not as cancelled.
    await within(asyncio.gather(slow_to_end(), slow_to_end()), "closing", 0.01)
    await within(fails_when_it_ends(), "closing", 0.01)
    await asyncio.sleep(0.1)
    gc.collect()

    assert told == []
