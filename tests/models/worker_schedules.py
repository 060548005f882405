"""Which lives of workers are gone through: schedules that hypothesis makes up, the same ones for a seed each time."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from unittest import mock

from hypothesis import strategies as st

from mirror_connect.app.supervisor import task_watch
from tests.fakes.simulated_time import simulated_clock
from tests.models.fence_feed import NOW_MS
from tests.models.search import SEED, search
from tests.models.worker_life import Incident, Schedule

SCHEDULES: Final = int(os.environ.get("MODEL_SCHEDULES", "150"))
# The same schedules each time: whether a fault is found must not depend on chance.
FAULTS_SEED: Final = 20261122


@dataclass(frozen=True)
class Incidents:
    """What incidents are made of; what is there twice is as likely again. `fewest`, `most`: of a schedule."""

    kinds: tuple[str, ...]
    whom: tuple[str, ...]
    at: tuple[str, ...]
    seconds: tuple[float, ...]
    waits: tuple[float, ...]
    tasks: tuple[int, ...] = (0,)
    numbers: tuple[int, ...] = (0,)
    fewest: int = 1
    most: int = 5

    def schedules(self, workers: int) -> st.SearchStrategy[Schedule]:
        parts = (self.waits, self.kinds, self.whom, self.at, self.seconds, self.tasks, self.numbers)
        incident = st.builds(Incident, *map(st.sampled_from, parts))
        return st.builds(
            Schedule,
            st.lists(incident, min_size=self.fewest, max_size=self.most).map(tuple),
            st.tuples(*[st.sampled_from((1.0, 0.98, 1.02))] * workers),
            st.integers(0, 1000),
        )


Live = Callable[[Schedule], None]


def explore(live: Live, schedules: st.SearchStrategy[Schedule], most: int, number: int = SEED) -> None:
    """Goes through so many schedules of the seed `number`; raises what the first failing one raises, made smaller."""
    search(live, schedules, most, number, smaller=True)


def look_for_a_fault(
    live: Live,
    schedules: st.SearchStrategy[Schedule],
    most: int,
    number: int = FAULTS_SEED,
    known: Schedule | None = None,
) -> None:
    """Ends with the first schedule that finds one. `known`: one that has found it, where a search takes seconds."""
    if known is not None:
        live(known)
    search(live, schedules, most, number, smaller=False)


@contextmanager
def in_simulated_time() -> Iterator[None]:
    """Lives of processes in simulated time: no clock says anything else, and nothing is logged.

    Nothing in these lives rests on how often a supervisor looks around. And no loop of theirs is left behind.
    """
    logger = logging.getLogger("mirror_connect")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    with (
        mock.patch.object(task_watch, "TICK_S", 0.5),
        mock.patch("time.time", simulated_clock(time.time, NOW_MS / 1000)),
        mock.patch("time.monotonic", simulated_clock(time.monotonic, 0.0)),
    ):
        yield
    logger.setLevel(level)
    assert asyncio.events._get_running_loop() is None
