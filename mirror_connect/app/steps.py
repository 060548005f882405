"""Steps of an end: each has its time, none stops those after it, and all together are over by one deadline."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Iterator
from contextvars import ContextVar
from typing import Final

log = logging.getLogger(__name__)

STEP_PATIENCE_S: Final = 1.5
LEAST_PATIENCE_S: Final = 0.3
_deadline: ContextVar[float] = ContextVar("deadline of the present steps", default=math.inf)


@contextlib.contextmanager
def ending_by(until: float) -> Iterator[None]:
    """Steps that begin in here, also in other modules, end by this time of the running loop."""
    before = _deadline.set(until)
    try:
        yield
    finally:
        _deadline.reset(before)


async def within(
    step: Awaitable[object], what: str, patience_s: float = STEP_PATIENCE_S, *, keeping_s: float = 0.0
) -> None:
    """Runs a step for so long at most. An error is logged, because the next steps have to come in any case.

    `keeping_s`: what stays until the deadline of `ending_by`, for the steps after it.
    """
    running = asyncio.ensure_future(step)
    allowed_s = max(0.0, min(patience_s, _deadline.get() - keeping_s - asyncio.get_running_loop().time()))
    try:
        # Not asyncio.timeout, which waits for a step that does not end although it is cancelled.
        await asyncio.wait([running], timeout=allowed_s)
    except BaseException:
        running.cancel()
        raise
    if not running.done():
        running.cancel()
        running.add_done_callback(_ended_late)
        log.warning("%s took longer than %.1f s; continuing", what.capitalize(), allowed_s)
        # Whatever ends when it is cancelled has ended before the next step.
        await asyncio.wait([running], timeout=0)
    elif not running.cancelled() and (error := running.exception()) is not None:
        log.error("%s failed; continuing", what.capitalize(), exc_info=error)


def _ended_late(step: asyncio.Future[object]) -> None:
    """Looks at the error, or asyncio would log a stack trace that nobody looked. A cancelled `gather` always has one."""
    if not step.cancelled() and (error := step.exception()) is not None:
        log.debug("A step that took too long has ended with %r", error)


def left(until: float) -> float:
    """Seconds until a time of the running loop, or until `ending_by` if that is sooner, and at least LEAST_PATIENCE_S."""
    return max(LEAST_PATIENCE_S, min(until, _deadline.get()) - asyncio.get_running_loop().time())
