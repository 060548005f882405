"""Reads a cluster's metadata in the one way that is safe with librdkafka."""

from __future__ import annotations

import threading
from concurrent.futures import Future

from confluent_kafka.admin import AdminClient, ClusterMetadata


def all_topics(client: AdminClient, timeout: float) -> Future[ClusterMetadata]:
    """The cluster's id, brokers and all visible topics; KafkaException after `timeout` seconds. Creates nothing.

    It does not use describe_cluster or describe_topics: a broker that has just restarted may answer without any broker, and
    then an assertion of librdkafka (2.16) ends the whole process.
    """
    future: Future[ClusterMetadata] = Future()

    # The call blocks without a reason. Meanwhile the caller, which waits for the future, can poll the client's reports.
    def ask() -> None:
        try:
            future.set_result(client.list_topics(timeout=timeout))
        except Exception as problem:  # noqa: BLE001 — the future raises it
            future.set_exception(problem)

    threading.Thread(target=ask, name="metadata", daemon=True).start()
    return future
