"""A source connector between two clusters in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mirror_connect.app.worker_connectors import config_sync, mirror_source, scheduler
from tests.fakes.source_connector import World, described


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    made = World()
    monkeypatch.setattr(mirror_source, "ClusterAdmin", made.admin)
    monkeypatch.setattr(config_sync, "describe_topic_configs", described)
    monkeypatch.setattr(scheduler, "RETRY_S", (0.01,))
    yield made
    for connector in made.connectors:
        await connector.stop()
