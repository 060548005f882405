"""The supervisor in memory for the tests of its modules."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from mirror_connect.app.supervisor import spark_keeper
from tests.fakes.supervised import World


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(spark_keeper, "BACK_OFF_S", (0.01, 0.02))
    # The clock of the tests moves in leaps; here these are no sign of a suspended worker.
    monkeypatch.setattr(spark_keeper, "WATCH_S", 1000.0)
    world = World()
    await world.supervisor.start("http://127.0.0.1:1")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    world.supervisor._watch.stop()
    world.supervisor.driver_report(2, {})
    yield world
    await world.supervisor.stop(0.0)
