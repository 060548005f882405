"""What tests of REST send and expect."""

from __future__ import annotations

from typing import Any

import httpx

from tests.fakes.connect_worker import FakeWorker, source_config


def error(code: int, message: str) -> dict[str, Any]:
    return {"error_code": code, "message": message}


async def created(client: httpx.AsyncClient, worker: FakeWorker, name: str = "a", **more: str) -> None:
    assert (await client.post("/connectors", json={"name": name, "config": source_config(**more)})).status_code == 201
    await worker.state(name, "RUNNING", ["RUNNING"] * int(more.get("tasks__max", "1")))


async def raw(client: httpx.AsyncClient, path: bytes) -> httpx.Response:
    """A request whose path is sent as it stands."""
    url = client.base_url.copy_with(raw_path=path)
    return await client.send(httpx.Request("GET", url))
