"""A running worker in memory with a client of its REST interface over a real socket, and two that pass requests on."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.fakes.connect_worker import FakeWorker, serving
from tests.fakes.forwarding_group import Group, group_of_two


@pytest.fixture
async def worker() -> AsyncIterator[FakeWorker]:
    async with FakeWorker().running() as running:
        yield running


@pytest.fixture
async def client(worker: FakeWorker) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(worker.herder) as connected:
        yield connected


@pytest.fixture
async def group() -> AsyncIterator[Group]:
    async with group_of_two() as made:
        yield made
