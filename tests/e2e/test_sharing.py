"""Three workers share connectors: whatever happens to one of them, all runs again, and once.

No record is lost, no partition has two writers, and no config that was acknowledged is lost.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.sharing import Plan, Sharing, survives, three_workers
from tests.e2e.sharing_faults import cut_off, leader_killed

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def sharing() -> Iterator[Sharing]:
    with three_workers("sharing", Plan({f"numbers{number}": 2 for number in range(4)})) as group:
        yield group


def test_the_leader_is_killed(sharing: Sharing, capsys: pytest.CaptureFixture[str]) -> None:
    survives(sharing, leader_killed, capsys)


def test_a_worker_is_cut_off_from_the_brokers(sharing: Sharing, capsys: pytest.CaptureFixture[str]) -> None:
    survives(sharing, cut_off, capsys)
