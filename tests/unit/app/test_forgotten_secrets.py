"""What the log hides is asked for again and again, whatever goes wrong meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection

from mirror_connect.app.process import forget_unused


async def test_secrets_in_use_are_told_again_and_again_also_after_an_error() -> None:
    answers = iter([{"first"}, RuntimeError("not now"), {"second"}])
    told: list[Collection[str]] = []
    enough = asyncio.Event()

    async def in_use() -> Collection[str]:
        answer = next(answers, None)
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            enough.set()
            await asyncio.Event().wait()
        return answer or ()

    forgetting = asyncio.create_task(forget_unused(in_use, told.append, 0.001))
    async with asyncio.timeout(60):
        await enough.wait()
    forgetting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await forgetting
    assert told == [{"first"}, {"second"}]
