"""A running worker in memory, and a client of its REST interface over a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.fakes.connect_worker import FakeWorker, serving


@pytest.fixture
async def worker() -> AsyncIterator[FakeWorker]:
    async with FakeWorker().running() as running:
        yield running


@pytest.fixture
async def client(worker: FakeWorker) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(worker.herder) as connected:
        yield connected
