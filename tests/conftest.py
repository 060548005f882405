"""Two plaintext clusters for every test that only adds topics of its own; nothing is started unless a test asks for it."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from deploy.local import LocalCluster
from tests import draws
from tests.brokers import UNHURRIED
from tests.seeds import chance

# The limit of a whole test with real parts: more than all that it waits for, on a machine three times slower than ours.
REAL: Final = ("contract", "e2e", "integration", "spark")
REAL_LIMIT_S: Final = 1200

draws.settle()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with real parts that name no limit of their own have REAL_LIMIT_S; others have what pyproject.toml says."""
    folders = tuple(f"{Path(__file__).parent / name}{os.sep}" for name in REAL)
    for item in items:
        if str(item.path).startswith(folders) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(REAL_LIMIT_S))


@pytest.fixture(scope="session")
def source_cluster() -> Iterator[LocalCluster]:
    """The cluster `source`, shared by the session: don't stop it."""
    # A quota is by default an average of ten seconds: ten seconds' worth comes at once, and then nothing for as long.
    with LocalCluster("source", properties={**UNHURRIED, "quota.window.num": "3"}) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def target_cluster() -> Iterator[LocalCluster]:
    """The cluster `target`, shared by the session: don't stop it."""
    with LocalCluster("target", properties=UNHURRIED) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _environment() -> Iterator[None]:
    """What a test leaves in the environment of this process (a command called in it, say) ends with the test."""
    before = dict(os.environ)
    yield
    for name in os.environ.keys() - before.keys() - {"PYTEST_CURRENT_TEST"}:
        del os.environ[name]
    os.environ.update((name, value) for name, value in before.items() if name != "PYTEST_CURRENT_TEST")


@pytest.fixture
def dice(request: pytest.FixtureRequest) -> random.Random:
    """Chance of this test's own, which follows from the run's seed."""
    return chance(request.node.nodeid)


@pytest.fixture(scope="session")
def _numbers() -> Iterator[int]:
    return itertools.count(1)


@pytest.fixture
def topic_name(_numbers: Iterator[int]) -> Callable[[str], str]:
    """`topic_name("orders")` gives a name that no other test of this session has."""

    def unique(prefix: str) -> str:
        return f"{prefix}-{next(_numbers)}"

    return unique
