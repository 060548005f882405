"""Three workers share connectors: whatever happens to one of them, all runs again, and once.

No record is lost, no partition has two writers, and no config that was acknowledged is lost.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.sharing import Sharing, cut, killed, survives, tasks_and_spark, three_workers

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def sharing() -> Iterator[Sharing]:
    with three_workers("sharing", 4) as group:
        yield group


def test_the_leader_is_killed(sharing: Sharing, capsys: pytest.CaptureFixture[str]) -> None:
    survives(sharing, lambda: killed(sharing, sharing.leader()), capsys)


def test_a_worker_is_cut_off_from_the_brokers(sharing: Sharing, capsys: pytest.CaptureFixture[str]) -> None:
    survives(sharing, lambda: cut(sharing), capsys)


def test_a_worker_is_ended_and_started_again(sharing: Sharing, capsys: pytest.CaptureFixture[str]) -> None:
    worker = sharing.leader()
    said = len(worker.log_text())

    def restarted() -> None:
        assert worker.stop() == 0
        sharing.wait_shared()
        # It has said that all has ended. So nobody waits for what it might have left under way.
        for other in sharing.alive():
            assert other.call("GET", "/admin/workers")["lost"] == []
        worker.launch()

    survives(sharing, restarted, capsys)
    # What the others copy they keep until this one's Spark can take it.
    facts = tasks_and_spark(worker.log_text()[said:])
    ready = facts.index("ready")
    assert set(facts[:ready]) <= {0}
    assert facts[ready:] != ["ready"]
    assert facts[-1] != 0
