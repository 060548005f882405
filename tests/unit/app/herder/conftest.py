"""A running worker in memory for the tests of the herder's modules."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.fakes.connect_worker import FakeWorker
from tests.fakes.sharing_workers import SharingWorkers


@pytest.fixture
async def worker() -> AsyncIterator[FakeWorker]:
    async with FakeWorker().running() as running:
        yield running


@pytest.fixture
async def group() -> AsyncIterator[SharingWorkers]:
    async with SharingWorkers().running() as group:
        yield group
