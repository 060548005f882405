"""What tests with Spark in their own process share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark import SparkContext


@pytest.fixture(scope="module", autouse=True)
def _jvm_of_its_own() -> Iterator[None]:
    """PySpark keeps the connection to a JVM, also when that has ended. The next file of this process starts its own."""
    yield
    SparkContext._gateway = SparkContext._jvm = None
