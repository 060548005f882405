"""The two clusters that the tests of checkpoint and heartbeat tasks share."""

from __future__ import annotations

import pytest

from mirror_connect.connectors import problems
from mirror_connect.spark_jobs.tasks import mirror_checkpoint, mirror_heartbeat, task_frame
from tests.fakes.whole_cluster import FakeClusters
from tests.fakes.writing_tasks import PACE_S, World


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    clusters = FakeClusters({"a": made.source, "b": made.target})
    for module in (task_frame, mirror_checkpoint):
        monkeypatch.setattr(module, "Cluster", clusters)
    # The least that a config can ask for is a second.
    monkeypatch.setattr(mirror_checkpoint, "emission_interval_s", lambda _: PACE_S)
    monkeypatch.setattr(mirror_heartbeat, "beat_interval_s", lambda _: PACE_S)
    monkeypatch.setattr(mirror_checkpoint, "RETRY_S", PACE_S)
    # It outlives an epoch, and here a test: all their runs have the same id.
    monkeypatch.setattr(mirror_checkpoint, "_logged_obstacles", {})
    monkeypatch.setattr(problems, "_since", {})
    is_asked = mirror_checkpoint.sync_interval_s
    monkeypatch.setattr(mirror_checkpoint, "sync_interval_s", lambda settings: is_asked(settings) and PACE_S)
    return made
