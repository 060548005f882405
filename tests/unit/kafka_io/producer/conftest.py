"""The producers that most tests of this room ask for."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.fakes.producer_rig import Rig
from tests.fakes.target_cluster import FakeTarget
from tests.fakes.transaction_broker import Protocol
from tests.fakes.transactional_target import TransactionalRig, TransactionalTarget


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig(FakeTarget())
    await made.producer.start()
    yield made
    await made.producer.close()


@pytest.fixture(params=Protocol, ids=lambda protocol: protocol.name)
async def transactional_rig(request: pytest.FixtureRequest) -> AsyncIterator[TransactionalRig]:
    """A producer with transactions, by the old protocol and the new one."""
    made = TransactionalRig(TransactionalTarget(request.param))
    await made.producer.start()
    yield made
    await made.producer.close()
