"""Three workers share connectors: whatever happens to one of them, all runs again, and once.

No record is lost, no partition has two writers, and no config that was acknowledged is lost.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.e2e.product import Product
from tests.e2e.sharing import Plan, Sharing, survives, tasks_and_spark, three_workers
from tests.e2e.sharing_faults import cut_off, leader_killed

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.soak]


@pytest.fixture(scope="module")
def sharing() -> Iterator[Sharing]:
    with three_workers("sharing", Plan({f"numbers{number}": 2 for number in range(3)})) as group:
        yield group


def test_the_leader_is_killed(sharing: Sharing, capsys: pytest.CaptureFixture[str]) -> None:
    survives(sharing, leader_killed, capsys)


# As below: the model of sharing workers (tests/models) cuts workers off, ends them and starts them again.
@pytest.mark.long
def test_a_worker_is_cut_off_from_the_brokers(sharing: Sharing, capsys: pytest.CaptureFixture[str]) -> None:
    survives(sharing, cut_off, capsys)


@pytest.mark.long
def test_a_worker_is_ended_and_started_again(sharing: Sharing, capsys: pytest.CaptureFixture[str]) -> None:
    worker = sharing.leader()
    said = len(worker.log_text())

    def restarted(sharing: Sharing) -> Product:
        began = time.monotonic()
        assert worker.stop() == 0
        others = [each for each in sharing.workers if each is not worker]
        sharing.wait_shared(others)
        # It has said that all has ended. So nobody waits for what it might have left under way.
        for other in others:
            lost = other.call("GET", "/admin/workers")["lost"]
            # A worker that was cut off before is told of for a minute.
            assert not [each for each in lost if each["lost_ago_ms"] < (time.monotonic() - began) * 1000]
        worker.launch()
        return worker

    survives(sharing, restarted, capsys)
    # What the others copy they keep until this one's Spark can take it.
    facts = tasks_and_spark(worker.log_text()[said:])
    ready = facts.index("ready")
    assert set(facts[:ready]) <= {0}
    assert facts[ready:] != ["ready"]
    assert facts[-1] != 0
