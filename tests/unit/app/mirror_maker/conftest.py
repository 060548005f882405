"""The source that most tests of this room ask for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.mirrored_source import SourceWorld


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SourceWorld]:
    world = SourceWorld(tmp_path)
    await world.start()
    yield world
    await world.stop()
