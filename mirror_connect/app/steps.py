"""Steps of an end: each has its time, and none stops those after it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Final

log = logging.getLogger(__name__)

STEP_PATIENCE_S: Final = 1.5
LEAST_PATIENCE_S: Final = 0.3


async def within(step: Awaitable[object], what: str, patience_s: float = STEP_PATIENCE_S) -> None:
    """Runs a step for so long at most. An error is logged, because the next steps have to come in any case."""
    try:
        async with asyncio.timeout(patience_s):
            await step
    except TimeoutError:
        log.warning("%s took longer than %.1f s; continuing", what.capitalize(), patience_s)
    except Exception:
        log.exception("%s failed; continuing", what.capitalize())


def left(until: float) -> float:
    """Seconds until a time of the running loop, and never less than LEAST_PATIENCE_S."""
    return max(LEAST_PATIENCE_S, until - asyncio.get_running_loop().time())
