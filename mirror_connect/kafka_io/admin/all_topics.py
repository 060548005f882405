"""A cluster's metadata by librdkafka's safe way."""

from __future__ import annotations

import threading
from concurrent.futures import Future

from confluent_kafka.admin import AdminClient, ClusterMetadata


def all_topics(client: AdminClient, timeout: float) -> Future[ClusterMetadata]:
    """The cluster's id, brokers and every topic that may be seen; KafkaException within `timeout` seconds. Creates nothing.

    Not by describe_cluster or describe_topics: a broker that has just come back may name no broker at all, and librdkafka
    (2.16) ends the whole process by an assertion when it reads that.
    """
    future: Future[ClusterMetadata] = Future()

    # It blocks without telling why; who waits for the future can hear the client's reports meanwhile.
    def ask() -> None:
        try:
            future.set_result(client.list_topics(timeout=timeout))
        except Exception as problem:  # noqa: BLE001 — raised by who waits
            future.set_exception(problem)

    threading.Thread(target=ask, name="metadata", daemon=True).start()
    return future
