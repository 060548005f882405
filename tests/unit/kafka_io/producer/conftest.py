"""The producer that most tests of this room ask for."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.fakes.producer_rig import Rig
from tests.fakes.target_cluster import FakeTarget


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig(FakeTarget())
    await made.producer.start()
    yield made
    await made.producer.close()
