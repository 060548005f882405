"""Two clusters for the tests of heartbeat and checkpoint tasks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deploy.local import LocalCluster
from tests.brokers import started
from tests.integration.mirror_rig import OFFSETS_PARTITIONS, OFFSETS_TOPIC
from tests.integration.mirror_tasks.mapped_groups import (
    CHECKPOINTS,
    COMPACT,
    RANGES,
    SYNCS,
)


@pytest.fixture(scope="package")
def clusters() -> Iterator[tuple[LocalCluster, LocalCluster]]:
    with started(LocalCluster("source"), LocalCluster("target")) as (source, target):
        target.create_topic(OFFSETS_TOPIC, OFFSETS_PARTITIONS, COMPACT)
        for cluster, topic in ((target, "heartbeats"), (target, CHECKPOINTS), (target, RANGES), (source, SYNCS)):
            cluster.create_topic(topic, 1, COMPACT)
        yield source, target
