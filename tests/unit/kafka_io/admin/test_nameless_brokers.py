"""A broker just back that names no broker at all, itself not either: librdkafka ends processes that ask in a wrong way."""

from __future__ import annotations

import socketserver
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

API_VERSIONS, METADATA, CREATE_TOPICS = 18, 3, 19
UNSUPPORTED_VERSION = 35
WAIT_FOR_ALL = 0x100

CLUSTER = """
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
ask = ClusterAdmin({"bootstrap.servers": sys.argv[1]}, "target cluster", timeout=3.0).%s
"""
INTERNAL_TOPIC = """
from mirror_connect.kafka_io.consumer.log_clients import LogClients
from mirror_connect.kafka_io.admin.topic_plan import TopicPlan, ensure_topic
clients = LogClients({"bootstrap.servers": sys.argv[1]}, "worker")
ask = lambda: ensure_topic(clients, TopicPlan.for_configs("connect-configs"), 3.0)
"""
PROGRAM = """
import sys
from mirror_connect.connectors.errors import ClusterUnreachable
%s
try:
    ask()
except ClusterUnreachable as error:
    print(error)
"""


class Broker(socketserver.BaseRequestHandler):
    """Speaks the oldest versions of what is asked; names itself to each client first, and nobody later."""

    def handle(self) -> None:
        while size := self.request.recv(4, WAIT_FOR_ALL):
            request = self.request.recv(struct.unpack(">i", size)[0], WAIT_FOR_ALL)
            api, version, correlation = struct.unpack_from(">hhi", request)
            body = self._versions(version) if api == API_VERSIONS else self._metadata()
            self.request.sendall(struct.pack(">ii", 4 + len(body), correlation) + body)

    def _versions(self, version: int) -> bytes:
        apis = ((API_VERSIONS, 0, 0), (METADATA, 0, 1), (CREATE_TOPICS, 0, 1))
        error = 0 if version == 0 else UNSUPPORTED_VERSION
        return struct.pack(">hi", error, len(apis)) + b"".join(struct.pack(">hhh", *api) for api in apis)

    def _metadata(self) -> bytes:
        """Version 1: brokers, the controller, topics (none)."""
        no_topics = struct.pack(">i", 0)
        if not self.server.namings:
            return struct.pack(">ii", 0, -1) + no_topics
        self.server.namings -= 1
        host, port = self.server.server_address
        itself = struct.pack(">iih", 1, 1, len(host)) + host.encode() + struct.pack(">ih", port, -1)
        return itself + struct.pack(">i", 1) + no_topics


class Cluster(socketserver.ThreadingTCPServer):
    daemon_threads = True
    namings = 1


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(("127.0.0.1", 0), Broker) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize(
    ("ask", "clients"),
    [(CLUSTER % "topics", 1), (CLUSTER % "cluster_id", 1), (CLUSTER % "broker_count", 1), (INTERNAL_TOPIC, 2)],
    ids=["topics", "cluster id", "broker count", "internal topic"],
)
def test_a_broker_that_names_no_broker_ends_no_process(cluster: Cluster, ask: str, clients: int) -> None:
    cluster.namings = clients
    host, port = cluster.server_address
    # In a process of its own: it would be this one that ends.
    command = [sys.executable, "-c", PROGRAM % ask, f"{host}:{port}"]
    asked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert asked.returncode == 0, asked.stderr
    assert f"{host}:{port}" in asked.stdout, "who asked is told which cluster is not to be had"
