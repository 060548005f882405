"""What tests with Spark in their own process share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyspark import SparkContext


@pytest.fixture(scope="module", autouse=True)
def _jvm_of_its_own() -> Iterator[None]:
    """PySpark keeps the connection to a JVM, also when that has ended. The next file of this process starts its own.

    It also leaves variables of Spark's. With these spark-submit starts a worker's JVM, without the archive of classes.
    """
    kept = dict(os.environ)
    yield
    SparkContext._gateway = SparkContext._jvm = None
    for name in set(os.environ) - set(kept):
        if name.startswith(("SPARK_", "PYSPARK_")):
            del os.environ[name]
