"""A source that asks for a client certificate, copied by executors: key store and password are on no executor's disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from deploy.local import Listener, LocalCluster
from deploy.local.spark_cluster import SparkCluster
from tests.e2e.executors import PROPERTIES, once_config, wait_all, wait_busy, wait_executors
from tests.e2e.numbered import Writer
from tests.e2e.product import Product
from tests.e2e.stores_on_disk import needles, traces

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long]

TOPIC: Final = "from-mtls"
COPY: Final = f"A.{TOPIC}"
PARTITIONS: Final = 4
TASKS: Final = 2
RATE: Final = 500


@pytest.fixture(scope="module")
def source() -> Iterator[LocalCluster]:
    """A cluster that takes nobody without a certificate of its authority."""
    with LocalCluster("mtls", listeners=[Listener.SSL], tls_client_auth="required") as cluster:
        yield cluster


def test_key_stores_and_passwords_are_on_no_executors_disk(source: LocalCluster, target_cluster: LocalCluster) -> None:
    source.create_topic(TOPIC, PARTITIONS)
    config = once_config(source, target_cluster, TOPIC, tasks_max=str(TASKS))
    assert source.tls is not None
    wanted = needles(source.tls)
    assert traces(source.tls.truststore_pkcs12.parent, wanted), "what is looked for is found where it is"
    with (
        SparkCluster(workers=1, slots=TASKS) as spark,
        Product(target_cluster, group="mtls", properties=PROPERTIES, spark=spark) as product,
    ):
        wait_executors(product, 1)
        product.put("mtls", config)
        product.wait_running("mtls", TASKS)
        with Writer(source, TOPIC, PARTITIONS, RATE) as writer:
            product.wait_going_on("mtls", target_cluster, COPY)
            wait_busy(product, target_cluster, 1)
            # Of the master, the Spark worker and the executor: work, scratch and temporary files, logs.
            assert traces(spark.directory, wanted) == []
        wait_all(writer, target_cluster, COPY)
        product.delete("mtls")
        assert traces(spark.directory, wanted) == []
