"""The frame of a task whose target is unreachable."""

from __future__ import annotations

import pytest

from mirror_connect.connectors import problems
from mirror_connect.connectors.task_protocol import RUNNING
from mirror_connect.spark_jobs.tasks import connecting
from tests.fakes.writing_tasks import (
    World,
    running,
)


async def test_a_target_that_is_away_at_the_start_is_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "CONNECT_WAIT_S", 0.001)
    world.target.away = True
    async with running(world, world.spec("Heartbeat")) as task:
        await task.until(lambda: task.link.log_lines)
        away = "target cluster B (bootstrap.servers b) can't be reached"
        assert (task.link.state, away in task.link.log_lines[0]) == (RUNNING, True)
        world.target.away = False
        await task.until(lambda: world.beats)


async def test_a_target_that_goes_away_is_a_line_of_the_status_until_it_is_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(problems, "SHOWN_AFTER_S", 0.0)
    async with running(world, world.spec("Heartbeat")) as task:
        await task.until(lambda: world.beats)
        world.target.away = True
        await task.until(lambda: task.link.problem_lines)
        (line,) = task.link.problem_lines
        world.target.away = False
        count = len(world.beats)
        await task.until(lambda: len(world.beats) > count and not task.link.problem_lines)
    assert line.startswith("The target cluster B (bootstrap.servers b) can't be reached since ")
