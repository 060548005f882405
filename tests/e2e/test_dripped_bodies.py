"""Two hundred large bodies, byte by byte, to a real worker: it stays small, keeps its lease and copies on."""

from __future__ import annotations

import contextlib
import socket
import time

import psutil
import pytest

from deploy.local import LocalCluster
from tests.e2e.ends import wait_ends
from tests.e2e.identity_topics import produce
from tests.e2e.product import Product, mirror_config

# tests/unit/app/rest/test_body_budget.py shows the bound in each run of `make test`.
pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long]

BODIES = 200
# Each sends so much at once, in all more than a gigabyte, and then a byte now and then.
SENT = 6 << 20
GROWS_AT_MOST = 200 << 20
HEAD = (
    "PUT /connectors/evil/config HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    f"Content-Length: {15 << 20}\r\n\r\n"
).encode()


def test_two_hundred_dripped_bodies_leave_the_worker_small_and_at_work(
    source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    source_cluster.create_topic("dripped-orders")
    with Product(target_cluster, group="dripped") as worker, contextlib.ExitStack() as opened:
        worker.put("good", mirror_config(source_cluster, target_cluster, "dripped-orders"))
        worker.wait_running("good")
        process = psutil.Process(worker.process.pid)
        before = process.memory_info().rss
        peak = before
        bodies: list[socket.socket] = []
        for _ in range(BODIES):
            body = opened.enter_context(socket.create_connection(("127.0.0.1", worker.port), timeout=60))
            body.settimeout(0.5)
            with contextlib.suppress(OSError):
                body.sendall(HEAD + b" " * SENT)
            bodies.append(body)
            peak = max(peak, process.memory_info().rss)
        # Longer than a lease.
        until = time.monotonic() + 12
        while time.monotonic() < until:
            for body in bodies:
                with contextlib.suppress(OSError):
                    body.send(b" ")
            assert worker.rest.get("/connectors", timeout=30).json() == ["good"]
            peak = max(peak, process.memory_info().rss)
            time.sleep(0.5)
        produce(source_cluster, "dripped-orders", [{"value": b"order", "partition": 0}])
        wait_ends(target_cluster, "A.dripped-orders", {0: 1})
        assert peak - before < GROWS_AT_MOST
        assert "no longer leads" not in worker.log_text()
        assert worker.states("good") == ["RUNNING", "RUNNING"]
        worker.delete("good")
