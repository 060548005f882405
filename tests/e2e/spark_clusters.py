"""The standalone Spark cluster that workers of tests use where TESTS_SPARK_MASTER=cluster, as `make test-cluster` has it.

One for each process of tests. Its slots are numbers without processors behind them, as the applications of several workers
share it. Each of them gets an executor on each of the two Spark workers.
"""

from __future__ import annotations

import atexit
import os
from functools import cache
from typing import Final, Protocol

from deploy.local.spark_cluster import SparkCluster
from deploy.local.spark_executor import Executor

VARIABLE: Final = "TESTS_SPARK_MASTER"
WORKERS: Final = 2
SLOTS: Final = 512
OF_AN_EXECUTOR: Final = 16
# Of a worker on it: two executors, which leaves room for others.
MODEST: Final = {"spark.executor.cores": str(OF_AN_EXECUTOR), "spark.cores.max": str(WORKERS * OF_AN_EXECUTOR)}


class ExecutorsOfCluster(Protocol):
    """What a worker of tests needs of a cluster, whatever kind it is."""

    @property
    def properties(self) -> dict[str, str]:
        """What the worker has in its properties."""

    @property
    def executors(self) -> list[Executor]:
        """All living executors."""


def chosen() -> bool:
    """Whether tests run on a Spark cluster."""
    kind = os.environ.get(VARIABLE, "local")
    assert kind in ("local", "cluster"), f"{VARIABLE}={kind}: it is local or cluster"
    return kind == "cluster"


@cache
def shared_cluster() -> SparkCluster:
    """The cluster of this process of tests, which lasts until that ends."""
    cluster = SparkCluster(WORKERS, SLOTS)
    atexit.register(cluster.close)
    return cluster.start()
