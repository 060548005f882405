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
    await world.start()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    world.spark.driver_report(2, {})
    yield world
    await world.stop()
