"""When a worker leaves its group because it can't read the config topic, and when it comes back."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from mirror_connect.app.group.config_sync import ASK_S, ENDING_S, FRESH_S, ConfigSync
from mirror_connect.connectors.errors import ClusterUnreachable
from tests.fakes.simulated import Process, World

TIMEOUT_S, BACKOFF_S = 10.0, 60.0


@dataclass
class Around:
    """The topic, the group and the tasks of one worker. `at`: what has happened, and when."""

    clock: Callable[[], float]
    offset: int = 5
    end: int = 5
    readable: bool = True
    read_elsewhere: int = 5
    ends_in_s: float = 0.5
    # What the others have read, when they are asked.
    others: int = 5
    at: list[tuple[str, float]] = field(default_factory=list)

    name = "connect-configs"

    def _note(self, what: str) -> None:
        self.at.append((what, round(self.clock())))

    async def refresh(self, timeout: float) -> None:
        until = self.clock() + timeout
        while not self.readable:
            if self.clock() >= until:
                raise ClusterUnreachable("broker b:9092 is away")
            await asyncio.sleep(0.25)
        self.offset = self.end

    def ask(self) -> None:
        self._note("asks")
        self.read_elsewhere = self.others

    async def step_out(self, why: str, *, silently: bool) -> None:
        assert why == "it could not read topic connect-configs as far as others have: broker b:9092 is away"
        self._note("leaves without a word" if silently else "leaves")
        self.read_elsewhere = -1

    def come_back(self) -> None:
        self._note("joins")
        self.read_elsewhere = self.others

    async def let_go(self, patience_s: float) -> bool:
        self._note("ends its tasks")
        await asyncio.sleep(min(patience_s, self.ends_in_s))
        return self.ends_in_s < patience_s

    def take_again(self) -> None:
        self._note("may run tasks")

    def times(self, what: str) -> list[float]:
        return [when for each, when in self.at if each == what]


@contextmanager
def worker() -> Iterator[tuple[World, Around]]:
    world = World(1)
    process = Process(world, "w", offset=0.0, rate=1.0)
    around = Around(process.time)
    sync = process.made(
        lambda: ConfigSync(around, around, around, timeout_s=TIMEOUT_S, backoff_s=BACKOFF_S, clock=process.time)
    )
    process.start(sync.keep())
    try:
        yield world, around
        assert not process.errors
    finally:
        world.close()


def test_a_worker_that_reads_stays(caplog: pytest.LogCaptureFixture) -> None:
    with worker() as (world, around):
        for _ in range(20):
            around.end += 1
            around.read_elsewhere = around.end
            world.run(10.0)
        assert (around.at, around.offset, caplog.records) == ([], 25, [])


def test_what_others_have_read_is_waited_for_and_then_the_worker_leaves(caplog: pytest.LogCaptureFixture) -> None:
    with worker() as (world, around):
        around.readable, around.read_elsewhere, around.others = False, 6, 6
        world.run(TIMEOUT_S - 2.0)
        assert around.at == []
        world.run(8.0)
        assert [what for what, _ in around.at] == ["ends its tasks", "leaves"]
        assert around.times("leaves")[0] <= TIMEOUT_S + 3.0
    (line,) = caplog.messages
    assert "connect-configs" in line
    assert "broker b:9092 is away" in line


def test_a_worker_whose_tasks_do_not_end_leaves_without_a_word() -> None:
    with worker() as (world, around):
        around.readable, around.read_elsewhere, around.ends_in_s = False, 6, ENDING_S + 1.0
        world.run(3 * TIMEOUT_S + ENDING_S)
        assert [what for what, _ in around.at] == ["ends its tasks", "leaves without a word"]


@pytest.mark.parametrize("away_s", [5.0, 300.0])
def test_it_comes_back_when_it_reads_again_and_not_before_the_backoff_is_over(away_s: float) -> None:
    with worker() as (world, around):
        around.readable, around.read_elsewhere, around.others, around.end = False, 6, 6, 6
        world.run(2 * TIMEOUT_S + 3.0)
        (left,) = around.times("leaves")
        world.run(away_s)
        around.readable = True
        world.run(BACKOFF_S + TIMEOUT_S)
        assert [what for what, _ in around.at[-2:]] == ["may run tasks", "joins"]
        (joined,) = around.times("joins")
        assert joined - left >= BACKOFF_S - 1.0
        assert joined - left <= max(BACKOFF_S, 2 * TIMEOUT_S + away_s) + TIMEOUT_S
        # And stays.
        world.run(300.0)
        assert (around.times("leaves"), around.offset) == ([left], 6)


def test_a_topic_that_is_away_for_less_than_the_timeout_costs_nothing() -> None:
    with worker() as (world, around):
        around.readable, around.read_elsewhere, around.end = False, 6, 6
        world.run(TIMEOUT_S - 2.0)
        around.readable = True
        world.run(200.0)
        assert (around.at, around.offset) == ([], 6)


def test_where_nobody_reads_more_the_worker_asks_and_stays() -> None:
    with worker() as (world, around):
        around.readable = False
        world.run(200.0)
        assert {what for what, _ in around.at} == {"asks"}
        asked = around.times("asks")
        assert asked[0] <= FRESH_S + 2 * TIMEOUT_S + 2.0
        assert all(later - earlier >= ASK_S for earlier, later in itertools.pairwise(asked))


def test_what_the_others_answer_makes_it_leave() -> None:
    """Nothing was assigned anew, as after PAUSE: only the answer tells that there is something to read."""
    with worker() as (world, around):
        around.readable, around.others = False, 6
        world.run(FRESH_S + 4 * TIMEOUT_S + 4.0)
        assert [what for what, _ in around.at] == ["asks", "ends its tasks", "leaves"]


def test_a_topic_that_was_made_again_and_is_shorter_is_read_to_its_end_and_that_is_enough() -> None:
    with worker() as (world, around):
        around.read_elsewhere = around.others = 50
        world.run(300.0)
        assert (around.at, around.offset) == ([], 5)
