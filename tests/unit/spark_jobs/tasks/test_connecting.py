"""A task waits for a cluster that doesn't answer; log and status show that meanwhile."""

from __future__ import annotations

from typing import cast

import pytest

from mirror_connect.connectors import problems
from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.problems import Problems, cluster_unreachable
from mirror_connect.connectors.task_protocol import RUNNING, STARTING
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.spark_jobs.tasks import connecting
from mirror_connect.spark_jobs.tasks.connecting import QUIET_TRIES, until_connected
from tests.fakes.source_spec import source_spec
from tests.fakes.worker_link import FakeWorkerLink

AWAY = cluster_unreachable("source cluster A", "a:1")


class Silent:
    """Answers after `failures` tries; raises `error` until then."""

    def __init__(self, failures: int, error: Exception | None = None) -> None:
        self.failures = failures
        self.error = error or ClusterUnreachable("no broker answers at a:1")

    async def connect(self) -> None:
        self.failures -= 1
        if self.failures >= 0:
            raise self.error


async def connected(cluster: Silent) -> tuple[FakeWorkerLink, list[int]]:
    """The link, and how many problems were shown after each try."""
    link = FakeWorkerLink(source_spec({"bootstrap.servers": "a:1"}, {"bootstrap.servers": "b:1"}, []))
    found, shown = Problems(link.log), list[int]()
    await until_connected(
        cast("Cluster", cluster), AWAY, found, link, lambda: shown.append(len(found.shown("source cluster A")))
    )
    return link, shown


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "CONNECT_WAIT_S", 0.001)
    monkeypatch.setattr(problems, "SHOWN_AFTER_S", 0.0)
    monkeypatch.setattr(problems, "_since", {})


async def test_a_cluster_that_answers_soon_is_no_line_and_shown_only_meanwhile() -> None:
    link, shown = await connected(Silent(QUIET_TRIES - 1))
    assert (link.log_lines, link.state, shown) == ([], STARTING, [1] * (QUIET_TRIES - 1) + [0])


async def test_a_task_runs_while_its_cluster_is_away_and_the_log_has_it_once() -> None:
    link, _ = await connected(Silent(QUIET_TRIES + 3))
    assert (link.log_lines, link.state) == ([AWAY.because("no broker answers at a:1").line], RUNNING)


async def test_wrong_credentials_are_not_waited_for() -> None:
    with pytest.raises(NotAuthorized):
        await connected(Silent(9, NotAuthorized("no")))
