"""Three workers share ten connectors with twenty tasks that copy exactly once, whatever happens to one of the workers.

Who reads committed records sees each one once and in order. Checkpoint and heartbeat connectors are among the ten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.e2e.product import Product
from tests.e2e.sharing import Plan, Sharing, survives, three_workers
from tests.e2e.sharing_faults import (
    cut_off,
    follower_killed,
    leader_killed,
    leader_suspended,
    leaders_worker_suspended,
    others_come_and_go,
    spark_killed,
    spark_suspended,
)

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1800)]

# Eighteen tasks, one for checkpoints and one for heartbeats.
SOURCES = {**{f"numbers{number}": 2 for number in range(6)}, "numbers6": 3, "numbers7": 3}


@pytest.fixture(scope="module")
def sharing() -> Iterator[Sharing]:
    with three_workers("sharing-long", Plan(SOURCES, others=True, exactly_once=True, busy_s=240.0)) as group:
        yield group


@pytest.mark.parametrize(
    "blow",
    [
        pytest.param(leader_killed, id="the_leader_is_killed"),
        pytest.param(follower_killed, id="a_follower_is_killed"),
        pytest.param(spark_killed, id="a_spark_application_is_killed"),
        pytest.param(spark_suspended, id="a_spark_application_is_suspended"),
        pytest.param(cut_off, id="a_worker_is_cut_off_from_the_brokers"),
        pytest.param(leader_suspended, id="the_leader_is_suspended_for_a_minute"),
        pytest.param(leaders_worker_suspended, id="the_leaders_worker_process_is_suspended_for_a_minute"),
        pytest.param(others_come_and_go, id="twenty_members_come_and_go"),
    ],
)
def test_each_record_is_seen_once_and_no_change_is_lost(
    sharing: Sharing, blow: Callable[[Sharing], Product], capsys: pytest.CaptureFixture[str]
) -> None:
    survives(sharing, blow, capsys)
