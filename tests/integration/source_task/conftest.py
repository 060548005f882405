"""Two clusters for the tests of the source task."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deploy.local import LocalCluster
from tests.brokers import started
from tests.integration.mirror_rig import (
    OFFSETS_PARTITIONS,
    OFFSETS_TOPIC,
)
from tests.integration.source_task.copied_topics import (
    QUICK_CLEANER,
)


@pytest.fixture(scope="package")
def clusters() -> Iterator[tuple[LocalCluster, LocalCluster]]:
    with started(LocalCluster("source", properties=QUICK_CLEANER), LocalCluster("target")) as (source, target):
        target.create_topic(OFFSETS_TOPIC, OFFSETS_PARTITIONS, {"cleanup.policy": "compact"})
        yield source, target
