"""/ and /health over a real socket, as Kafka Connect 4.3.1 was seen to answer."""

from __future__ import annotations

import httpx

from tests.fakes.connect_worker import FakeWorker, serving


async def test_the_root_tells_version_commit_and_cluster(client: httpx.AsyncClient) -> None:
    answer = await client.get("/")
    assert answer.json() == {
        "version": "4.3.1",
        "commit": answer.json()["commit"],
        "kafka_cluster_id": "cluster-id",
    }


async def test_a_healthy_worker_says_so(client: httpx.AsyncClient) -> None:
    answer = await client.get("/health")
    assert (answer.status_code, answer.json()["status"]) == (200, "healthy")


async def test_a_worker_that_reads_its_topics_is_starting() -> None:
    async with serving(FakeWorker().herder) as client:
        answer = await client.get("/health")
        assert (answer.status_code, answer.json()["status"]) == (503, "starting")
