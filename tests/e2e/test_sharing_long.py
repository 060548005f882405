"""Three workers share ten connectors with twenty tasks: kills, a cut, and a leader that sleeps for a minute."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest

from tests.e2e.product import DRIVER
from tests.e2e.sharing import Sharing, cut, killed, survives, three_workers

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1200)]

SUSPENDED_S = 60.0


@pytest.fixture(scope="module")
def sharing() -> Iterator[Sharing]:
    with three_workers("sharing-long", 10) as group:
        yield group


def test_the_leader_is_killed(sharing: Sharing, capsys: pytest.CaptureFixture[str]) -> None:
    survives(sharing, lambda: killed(sharing, sharing.leader()), capsys)


def test_a_follower_is_killed(sharing: Sharing, capsys: pytest.CaptureFixture[str]) -> None:
    leader = sharing.leader()
    follower = next(each for each in sharing.workers if each is not leader)
    survives(sharing, lambda: killed(sharing, follower), capsys)


def test_a_spark_application_is_killed(sharing: Sharing, capsys: pytest.CaptureFixture[str]) -> None:
    survives(sharing, lambda: sharing.workers[1].kill(DRIVER), capsys)


def test_a_worker_is_cut_off_from_the_brokers(sharing: Sharing, capsys: pytest.CaptureFixture[str]) -> None:
    survives(sharing, lambda: cut(sharing), capsys)


def test_the_leader_is_suspended_for_a_minute(sharing: Sharing, capsys: pytest.CaptureFixture[str]) -> None:
    leader = sharing.leader()

    def suspended() -> None:
        stopped = leader.signal(signal.SIGSTOP)
        time.sleep(SUSPENDED_S)
        for process in stopped:
            process.send_signal(signal.SIGCONT)

    survives(sharing, suspended, capsys)
