"""What many tests share: one worker with Spark (a start costs ten seconds of both cores), and the topics of identity."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deploy.local import LocalCluster
from tests.e2e.identity_topics import Written, write_all
from tests.e2e.product import Product


@pytest.fixture(scope="session")
def product(target_cluster: LocalCluster) -> Iterator[Product]:
    """A worker on the session's target cluster: don't stop it, and delete the connectors that you made."""
    with Product(target_cluster, group="shared") as worker:
        yield worker


@pytest.fixture(scope="session")
def written(source_cluster: LocalCluster) -> Written:
    """The source topics of every shape, filled once: only read them."""
    return write_all(source_cluster)
