"""A search among schedules that hypothesis makes up: the same ones for a seed, in any process and on any machine.

Hypothesis alone draws constants of all modules that are loaded as well, so what a seed gives would depend on which tests ran
before, and change with each line of the product (tests/draws.py leaves that out). And it makes a failed schedule smaller for
minutes, so here that has a number of tries.

`make test` goes through the schedules of SEED; `make soak` sets MODEL_SEED to another number in each round.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.draws import MODEL_SEED

S = TypeVar("S")
SEED: Final = int(os.environ.get(MODEL_SEED, "20261122"))
# Of a failed schedule, to find a smaller one that fails as well.
SMALLER_TRIES: Final = 40


def search(live: Callable[[S], Any], schedules: st.SearchStrategy[S], most: int, number: int, *, smaller: bool) -> None:
    """Goes through so many schedules of the seed `number`; raises what the first failing one raises.

    `smaller`: that one is made smaller first, as far as SMALLER_TRIES go.
    """
    print(f"{MODEL_SEED}={number}")
    found = Found(live)

    @seed(number)
    @settings(
        max_examples=most,
        deadline=None,
        database=None,
        derandomize=False,
        report_multiple_bugs=False,
        # Without the phase that explains: it traces each line, which takes a hundred times as long.
        phases=(Phase.generate, Phase.shrink) if smaller else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(schedules)
    def run(schedule: S) -> None:
        found.run(schedule)

    with the_limit_is_heard():
        run()


class Found:
    """What has failed so far. When the tries are used up, whatever has not failed yet counts as good."""

    def __init__(self, live: Callable[[Any], Any]) -> None:
        self._live = live
        self._failed: set[str] = set()
        self._tries = 0

    def run(self, schedule: object) -> None:
        """Goes through a schedule."""
        known = repr(schedule) in self._failed
        if self._failed and not known:
            self._tries += 1
            if self._tries > SMALLER_TRIES:
                return
        try:
            self._live(schedule)
        except Exception:
            self._failed.add(repr(schedule))
            raise


@contextmanager
def the_limit_is_heard() -> Iterator[None]:
    """Lets the limit of a test's time end it, although asyncio keeps for itself what a task or a callback raises.

    Else the task in which the limit comes dies of it alone, and the schedule looks like one that finds a fault. Asyncio lets
    nothing through but KeyboardInterrupt and SystemExit.
    """
    known = signal.getsignal(signal.SIGALRM)
    if not callable(known):
        yield
        return
    reached: list[BaseException] = []

    def handle(number: int, frame: FrameType | None) -> None:
        try:
            known(number, frame)
        except BaseException as error:
            reached.append(error)
            raise KeyboardInterrupt from error

    signal.signal(signal.SIGALRM, handle)
    try:
        yield
    except KeyboardInterrupt:
        if reached:
            raise reached[0] from None
        raise
    finally:
        signal.signal(signal.SIGALRM, known)
