"""The frame of a task whose target is unreachable."""

from __future__ import annotations

from dataclasses import replace

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


async def test_what_has_no_effect_is_told_by_the_first_task_alone(world: World) -> None:
    told = []
    for number in (0, 1):
        spec = world.spec("Heartbeat")
        async with running(world, replace(spec, task=number, target={**spec.target, "batch.size": "1"})) as task:
            beats = len(world.beats)
            await task.until(lambda before=beats: len(world.beats) > before)
            told.append([line for line in task.link.log_lines if line.endswith("have no effect: batch.size")])
    assert list(map(len, told)) == [1, 0]
