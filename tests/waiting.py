"""Waiting in tests: what may come late, and what has to be there.

A wait for a process, a state, an answer or a name says, when it runs out, that a machine was slow: it raises
WaitTimedOut, and `make test` may try its test once more (tests/gate.py). So do clients of tests that wait by themselves:
for an answer by HTTP or of a broker, and for the end of a command. A wait for records says no such thing: a record
that has not come may be lost, and a second run that has it proves nothing about the first. So it goes on for as long as
records come, and what is missing then is missing: an AssertionError like every other. The same holds for whatever else is
copied: positions, configs, ACLs.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import httpcore
import httpx
from confluent_kafka import KafkaError, KafkaException

from deploy.local import NotInTime

# Patience for a machine that is busy and three times slower than ours: where it is not needed it costs nothing.
PATIENCE_S: Final = 180.0
# How many times its seconds a wait for records goes on at most, while they come.
PROLONGED: Final = 3
# What ends a wait underneath, and may be the context of its error.
_CLOCKS: Final = (TimeoutError, asyncio.CancelledError, httpcore.TimeoutException)
_Result = TypeVar("_Result")
_LATE_BROKERS: Final = (KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT)


class WaitTimedOut(AssertionError):
    """A wait for anything but records has run out. Never raised for what is there and wrong."""


def only_waited(error: BaseException) -> bool:
    """Whether a test failed with `error` because a wait ran out, and for nothing else.

    An error that was on its way when the wait ran out, as in a clean-up after a failed assertion, is the reason then.
    """
    if not _is_wait(error):
        return False
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        each = todo.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        if not isinstance(each, _CLOCKS) and not _is_wait(each):
            return False
        todo += [each.__cause__, each.__context__]
    return True


def _is_wait(error: BaseException) -> bool:
    """A TimeoutError alone is none: it may be of the product, or of a wait for records."""
    if isinstance(error, KafkaException):
        cause = error.args[0] if error.args else None
        return isinstance(cause, KafkaError) and cause.code() in _LATE_BROKERS
    return isinstance(error, WaitTimedOut | NotInTime | httpx.TimeoutException | subprocess.TimeoutExpired)


def wait_for_state(condition: Callable[[], Any], what: str, seconds: float = PATIENCE_S, pause: float = 0.1) -> Any:
    """The first true value of `condition`, which looks at nothing that is copied; else WaitTimedOut, which names `what`."""
    value = _first_true(condition, seconds, pause, None)
    if not value:
        raise WaitTimedOut(f"not within {seconds:g} s: {what}")
    return value


def wait_for(
    condition: Callable[[], Any],
    what: str,
    seconds: float = PATIENCE_S,
    pause: float = 0.1,
    arrived: Callable[[], object] | None = None,
) -> Any:
    """The first true value of `condition`; AssertionError naming `what` when there was none in time.

    `arrived`: how much has come. Each change of it gives the wait its `seconds` anew, up to PROLONGED times as many in all.
    """
    value = _first_true(condition, seconds, pause, arrived)
    if not value:
        raise AssertionError(f"not within {seconds:g} s{' of the last arrival' if arrived else ''}: {what}")
    return value


async def in_time(what: str, awaited: Awaitable[_Result], seconds: float = PATIENCE_S) -> _Result:
    """What is awaited, which has nothing to do with records; WaitTimedOut, which names `what`, if it takes longer."""
    try:
        async with asyncio.timeout(seconds) as limit:
            return await awaited
    except TimeoutError:
        if not limit.expired():  # its own
            raise
        raise WaitTimedOut(f"not within {seconds:g} s: {what}") from None


async def state_reached(
    condition: Callable[[], Any],
    what: str,
    seconds: float = PATIENCE_S,
    pause: float = 0.05,
    *,
    in_thread: bool = False,
) -> Any:
    """`wait_for_state` for tests within an event loop; `in_thread`: the condition may block."""
    try:
        async with asyncio.timeout(seconds) as limit:
            while not (value := await asyncio.to_thread(condition) if in_thread else condition()):
                await asyncio.sleep(pause)
    except TimeoutError:
        if not limit.expired():  # the condition's own
            raise
        raise WaitTimedOut(f"not within {seconds:g} s: {what}") from None
    return value


def _first_true(
    condition: Callable[[], Any], seconds: float, pause: float, arrived: Callable[[], object] | None
) -> Any:
    began = time.monotonic()
    until, last = began + seconds, began + seconds * PROLONGED
    before = None if arrived is None else arrived()
    while True:
        value = condition()
        now = time.monotonic()
        if arrived is not None and (present := arrived()) != before:
            before, until = present, min(now + seconds, last)
        if value or now > until:
            return value
        time.sleep(pause)
