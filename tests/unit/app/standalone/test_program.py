"""The process of a standalone worker, without its Spark and without a cluster: files, REST, lock, end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from mirror_connect.app.errors import ConnectorFileRefused, StartupError
from mirror_connect.app.process import Process
from mirror_connect.app.standalone.connector_files import read_connector_file
from mirror_connect.app.standalone.file_lock import OffsetFileLock
from mirror_connect.app.standalone.offset_file import read_offset_file
from mirror_connect.app.standalone.program import StandaloneWorker
from mirror_connect.app.standalone.standalone_config import standalone_config
from mirror_connect.app.worker import Worker
from mirror_connect.connectors.errors import ConfigError

BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
# It starts without a cluster.
IDLE: Final = {
    "connector.class": "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "emit.heartbeats.enabled": "false",
}
# Its source has a name without an address, so it does not start.
LOST: Final = {
    **IDLE,
    "emit.heartbeats.enabled": "true",
    "target.cluster.bootstrap.servers": "nowhere.invalid:9092",
}


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def cluster_id(_: Worker) -> str:
        return "cluster"

    async def start_spark(_: Process) -> None: ...

    monkeypatch.setattr(Worker, "_cluster_id", cluster_id)
    monkeypatch.setattr(Process, "start_spark", start_spark)


def worker_of(path: Path, *files: str, **more: str) -> StandaloneWorker:
    given = {
        "bootstrap.servers": "127.0.0.1:1",
        "offset.storage.file.filename": str(path / "offsets"),
        "key.converter": BYTES,
        "value.converter": BYTES,
        "listeners": "http://127.0.0.1:0",
        **more,
    }
    return StandaloneWorker(standalone_config(given, {}), list(map(read_connector_file, files)), lambda _: None)


@contextlib.asynccontextmanager
async def running(worker: StandaloneWorker) -> AsyncIterator[httpx.AsyncClient]:
    run = asyncio.create_task(worker.run())
    async with httpx.AsyncClient(base_url=worker._url, timeout=30) as rest, asyncio.timeout(60):
        while not run.done() and (await rest.get("/health")).status_code != httpx.codes.OK:
            await asyncio.sleep(0.01)
        try:
            yield rest
        finally:
            worker.stop()
            await run


def file(path: Path, name: str, content: Mapping[str, Any]) -> str:
    (path / name).write_text(json.dumps(content))
    return str(path / name)


async def test_connectors_of_files_are_there_in_their_order(tmp_path: Path) -> None:
    files = [
        file(tmp_path, "one", {"name": "one", "config": IDLE, "initial_state": "stopped"}),
        file(tmp_path, "two", {"name": "two", **IDLE}),
    ]
    async with running(worker_of(tmp_path, *files)) as rest:
        assert (await rest.get("/connectors")).json() == ["one", "two"]
        states = [
            (await rest.get(f"/connectors/{name}/status")).json()["connector"]["state"] for name in ("one", "two")
        ]
        assert states == ["STOPPED", "RUNNING"]
        assert (await rest.get("/")).json()["kafka_cluster_id"] == "cluster"


async def test_offsets_that_rest_sets_are_in_the_file_and_the_next_worker_has_them(tmp_path: Path) -> None:
    path = file(tmp_path, "one", {"name": "one", "config": IDLE, "initial_state": "STOPPED"})
    partition = {"sourceClusterAlias": "A", "targetClusterAlias": "B"}
    set_ = {"offsets": [{"partition": partition, "offset": {"offset": 0}}]}
    async with running(worker_of(tmp_path, path)) as rest:
        assert (await rest.patch("/connectors/one/offsets", json=set_)).status_code == httpx.codes.OK
        stored = list(read_offset_file(tmp_path / "offsets").items())
        assert [(json.loads(key)[0], value) for key, value in stored] == [("one", b'{"offset":0}')]
    async with running(worker_of(tmp_path, path)) as rest:
        assert (await rest.get("/connectors/one/offsets")).json() == set_
        assert (await rest.delete("/connectors/one/offsets")).status_code == httpx.codes.OK
    assert list(read_offset_file(tmp_path / "offsets").values()) == [None]


async def test_answers_of_standalone_mode(tmp_path: Path) -> None:
    async with running(worker_of(tmp_path)) as rest:
        assert (await rest.post("/connectors", json={"name": "c", "config": IDLE})).status_code == httpx.codes.CREATED
        # Signed or not.
        found = {
            (await rest.request(*asked, json=[])).text
            for asked in (("POST", "/connectors/c/tasks"), ("PUT", "/connectors/c/fence"))
        }
        assert found == {
            f'{{"error_code":500,"message":"Kafka Connect in standalone mode does not support {what}."}}'
            for what in ("externally setting task configurations", "exactly-once source connectors")
        }
        missing = await rest.post("/connectors/c/tasks/0/restart")
        assert (missing.status_code, missing.json()["message"]) == (404, "Task c-0 not found")


async def test_a_connector_that_does_not_start_is_a_500_and_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirror_connect.app.worker_connectors.scheduler.RETRY_S", (0.01,))
    async with running(worker_of(tmp_path)) as rest:
        answer = await rest.post("/connectors", json={"name": "c", "config": LOST})
        assert (answer.status_code, answer.json()["message"]) == (
            500,
            "Failed to transition connector c to state STARTED",
        )
        assert (await rest.get("/connectors/c/status")).json()["connector"]["state"] == "FAILED"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        pytest.param([{"name": "c", **IDLE}, {"name": "c", **IDLE}], "Connector c already exists", id="same_name"),
        pytest.param(
            [{"name": "c", **IDLE, "tasks.max": "0", "heartbeats.topic.replication.factor": "many"}],
            "Value must be at least 1; Invalid value many for configuration heartbeats.topic.replication.factor: ",
            id="invalid",
        ),
        pytest.param([{"name": "c", "tasks.max": "1"}], "contains no connector type", id="no_class"),
        pytest.param([{"name": "c", **LOST}], "Failed to transition connector c to state STARTED", id="no_start"),
    ],
)
async def test_a_file_that_is_refused_ends_the_worker(
    tmp_path: Path, files: Sequence[Mapping[str, str]], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirror_connect.app.worker_connectors.scheduler.RETRY_S", (0.01,))
    paths = [file(tmp_path, f"{number}.json", each) for number, each in enumerate(files)]
    with pytest.raises(ConnectorFileRefused) as raised:
        await asyncio.wait_for(worker_of(tmp_path, *paths).run(), 60)
    assert str(raised.value).startswith(f"Connector file {paths[-1]}: ")
    assert said in str(raised.value)
    # What REST says of its requests is not for this command.
    assert "connector-plugins" not in str(raised.value)
    # Nothing is left: the file is free, and nobody was killed.
    assert (tmp_path / "offsets.lock").read_text() == ""


async def test_the_file_is_locked_before_the_port_is_opened_and_free_after_an_error(tmp_path: Path) -> None:
    async with running(worker_of(tmp_path)):
        with pytest.raises(StartupError, match="uses"):
            worker_of(tmp_path)
    with pytest.raises((ConfigError, StartupError), match="listeners"):
        worker_of(tmp_path, listeners="http://256.0.0.1:0")
    async with running(worker_of(tmp_path)):
        pass


async def test_a_start_that_fails_soon_after_a_kill_leaves_the_wait_to_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "offsets.lock").write_text("7\n")
    with pytest.raises((ConfigError, StartupError), match="listeners"):
        worker_of(tmp_path, listeners="http://256.0.0.1:0")
    worker = worker_of(tmp_path, file(tmp_path, "c.json", {"name": "c"}))
    # However long the start takes.
    monkeypatch.setattr(worker._membership, "_since", math.inf)
    with pytest.raises(ConnectorFileRefused):
        await asyncio.wait_for(worker.run(), 60)
    assert OffsetFileLock(str(tmp_path / "offsets")).take()
