"""One worker with Spark for every test that needs none of its own: a start costs ten seconds of both cores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deploy.local import LocalCluster
from tests.e2e.product import Product


@pytest.fixture(scope="session")
def product(target_cluster: LocalCluster) -> Iterator[Product]:
    """A worker on the session's target cluster: don't stop it, and delete the connectors that you made."""
    with Product(target_cluster, group="shared") as worker:
        yield worker
