"""The internal HTTP over a real socket: who may ask what, and the answers that mean something."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import httpx
import pytest
import uvicorn

from mirror_connect.app.config.allowed_paths import LookupPaths
from mirror_connect.app.supervisor.interfaces import WantedTask
from mirror_connect.app.supervisor.internal_api import PIECE_BYTES, create_internal_application
from mirror_connect.app.supervisor.spark_host import SparkHost
from mirror_connect.app.supervisor.supervisor import Supervisor
from mirror_connect.app.supervisor.task_run import TaskRun
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.mirror.assignment import ASSIGNED_PARTITIONS
from mirror_connect.connectors.mirror.lookups import LOOKUP, Lookup
from mirror_connect.connectors.task_protocol import SourceOffset, TaskId, TaskReport, TaskSpec
from mirror_connect.spark_jobs.compute.lookup_joins import LookupJoin
from mirror_connect.spark_jobs.compute.lookup_rows import rows_of
from mirror_connect.spark_jobs.internal_http import RunHandle, RunOverError
from mirror_connect.spark_jobs.worker_client import WorkerClient
from tests.fakes.spark_rig import FakeSpecs


class Specs(FakeSpecs):
    failure: Exception | None = None

    async def build(
        self, run_id: str, task: TaskId, config: Mapping[str, str], resolved: Mapping[str, str], version: int
    ) -> TaskSpec:
        if self.failure is not None:
            raise self.failure
        return await super().build(run_id, task, config, resolved, version)


class Server:
    def __init__(self) -> None:
        self.specs = Specs()
        self.spark = SparkHost({}, lookup_paths=LookupPaths(("/",)))
        self.supervisor = Supervisor(self.spark, self.specs, lambda: 8.0)
        config = {"connector.class": "X", ASSIGNED_PARTITIONS: "t-0"}
        self.supervisor.want(
            {
                **{TaskId("c", number): WantedTask(config) for number in range(2)},
                TaskId("h", 0): WantedTask({"connector.class": "MirrorHeartbeatConnector"}),
            }
        )
        self.runs: list[TaskRun] = list(self.supervisor.runs)
        self.http: httpx.AsyncClient

    async def call(self, method: str, path: str, token: str | None, body: object = None) -> httpx.Response:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return await self.http.request(method, path, headers=headers, json=body)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    listener = socket.create_server(("127.0.0.1", 0))
    settings = uvicorn.Config(create_internal_application(made.spark), log_config=None, lifespan="off")
    serving = uvicorn.Server(settings)
    task = asyncio.create_task(serving._serve([listener]))
    made.http = httpx.AsyncClient(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=10, verify=False)
    yield made
    await made.http.aclose()
    serving.should_exit = True
    await task
    listener.close()


def report(**more: object) -> dict[str, object]:
    return TaskReport(attempt="one", pid=1, state="STARTING", settled=True).to_json() | more


DRIVER_PATHS = [("GET", "/plan"), ("POST", "/driver")]
RUN_PATHS = [("GET", "spec?attempt=one"), ("POST", "positions"), ("POST", "report"), ("GET", "lookups/r?keys=id")]


@pytest.mark.parametrize(("method", "path"), DRIVER_PATHS)
@pytest.mark.parametrize("token", [None, "wrong", "run"])
async def test_the_drivers_paths_need_the_drivers_token(
    server: Server, method: str, path: str, token: str | None
) -> None:
    given = server.runs[0].token if token == "run" else token
    assert (await server.call(method, path, given)).status_code == 401


async def shared(server: Server) -> dict[str, str]:
    """The plan's entry of the shared process."""
    plan = (await server.call("GET", "/plan", server.spark.copying.token)).json()
    found: dict[str, str] = next(each for each in plan["runs"] if each["shared"])
    return found


@pytest.mark.parametrize("token", [None, "wrong", "driver", "run"])
async def test_the_shared_process_needs_its_own_token(server: Server, token: str | None) -> None:
    process = await shared(server)
    given = {"driver": server.spark.copying.token, "run": server.runs[2].token}.get(token or "", token)
    assert (await server.call("GET", f"/shared/{process['run_id']}", given)).status_code == 401


async def test_the_shared_process_hears_of_its_runs_alone(server: Server) -> None:
    process, run = await shared(server), server.runs[2]
    answer = await server.call("GET", f"/shared/{process['run_id']}", process["token"])
    assert answer.json()["runs"] == [{"run_id": run.run_id, "token": run.token}]
    assert (await server.call("GET", "/shared/another", process["token"])).status_code == 410


@pytest.mark.parametrize(("number", "place", "status"), [(2, 1, 200), (2, 0, 410), (0, 1, 410), (0, 0, 200)])
async def test_a_spec_is_given_to_the_process_where_the_run_belongs(
    server: Server, number: int, place: int, status: int
) -> None:
    run = server.runs[number]
    path = f"/runs/{run.run_id}/spec?attempt=one&pid=1&shared={place}"
    assert (await server.call("GET", path, run.token)).status_code == status


@pytest.mark.parametrize(("method", "path"), RUN_PATHS)
@pytest.mark.parametrize("token", [None, "wrong", "driver", "other run"])
async def test_a_runs_paths_need_the_capability_of_that_run(
    server: Server, method: str, path: str, token: str | None
) -> None:
    given = {"driver": server.spark.copying.token, "other run": server.runs[1].token}.get(token or "", token)
    answer = await server.call(method, f"/runs/{server.runs[0].run_id}/{path}", given)
    assert answer.status_code == 401


@pytest.mark.parametrize(("method", "path"), RUN_PATHS)
async def test_a_run_that_is_over_is_gone(server: Server, method: str, path: str) -> None:
    run = server.runs[0]
    server.supervisor.want({})
    assert (await server.call(method, f"/runs/{run.run_id}/{path}", run.token)).status_code == 410


async def test_what_cannot_be_answered_now_is_to_be_asked_again(server: Server) -> None:
    run = server.runs[0]
    server.specs.failure = ClusterUnreachable("away")
    assert (await server.call("GET", f"/runs/{run.run_id}/spec?attempt=one", run.token)).status_code == 503


async def test_the_plan_names_every_run_and_its_capability(server: Server) -> None:
    plan = (await server.call("GET", "/plan?after=-1", server.spark.copying.token)).json()
    own = [(run["run_id"], run["token"]) for run in plan["runs"] if not run["shared"]]
    assert own == [(run.run_id, run.token) for run in server.runs if not run.light]


async def test_a_run_gets_its_spec_and_reports_for_orders(server: Server) -> None:
    run = server.runs[0]
    spec = TaskSpec.from_json((await server.call("GET", f"/runs/{run.run_id}/spec?attempt=one", run.token)).json())
    orders = (await server.call("POST", f"/runs/{run.run_id}/report", run.token, report())).json()
    assert (spec.run_id, orders["lease_ms"], orders["abandon"]) == (run.run_id, 8000, False)


async def test_a_lookup_is_given_in_pieces_as_soon_as_it_can_be_read(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "regions.csv"
    lookup = f"{LOOKUP}regions"
    config = {
        "name": "m",
        "source.cluster.alias": "A",
        "connector.class": "MirrorSourceConnector",
        "spark.transform.sql": "SELECT",
        lookup: str(file),
        f"{lookup}.schema": "id INT, region STRING",
        ASSIGNED_PARTITIONS: "t-0",
    }
    server.supervisor.want({TaskId("m", 0): WantedTask(config)})
    [run] = server.supervisor.runs
    path = f"/runs/{run.run_id}/lookups/regions?keys=id"
    assert (await server.call("GET", path, run.token)).status_code == 503
    assert "No such file" in str(run.waits_for)
    file.write_text("id,region\n" + "".join(f"{number},{'x' * 90}\n" for number in range(10_000)))
    handle = RunHandle(str(server.http.base_url), run.run_id, run.token)
    join = LookupJoin("regions", "r", ("id",), ("INT",))
    rows = await asyncio.to_thread(lambda: list(rows_of(handle, join)))
    assert sum(each.num_rows for each in rows) == 10_000
    assert sum(each.nbytes for each in rows) > 2 * PIECE_BYTES
    # What Spark asks for has another config than the task by now.
    assert (await server.call("GET", path.replace("=id", "=colour"), run.token)).status_code == 410
    assert server.supervisor.has_failed(TaskId("m", 0))


async def test_a_preview_gets_its_lookups_with_its_own_token_until_it_is_over(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "regions.csv"
    file.write_text("id,region\n1,EU\n")
    lookup = Lookup("regions", "id INT, region STRING", str(file))
    with server.spark.preview_lookups.opened([lookup], {"name": "m"}) as run:
        path = f"/runs/{run.run_id}/lookups/regions?keys=id"
        assert (await server.call("GET", path, server.runs[0].token)).status_code == 401
        handle = RunHandle(str(server.http.base_url), run.run_id, run.token)
        rows = await asyncio.to_thread(lambda: list(rows_of(handle, LookupJoin("regions", "r", ("id",), ("INT",)))))
        assert [each for batch in rows for each in batch.to_pylist()] == [{"id": 1, "region": "EU"}]
        file.unlink()
        assert (await server.call("GET", path, run.token)).status_code == 410
    assert (await server.call("GET", path, run.token)).status_code == 410


async def test_positions_come_in_the_order_they_were_asked_for_and_to_the_present_attempt_alone(server: Server) -> None:
    run = server.runs[0]
    await server.call("GET", f"/runs/{run.run_id}/spec?attempt=one", run.token)
    body = {"fenceable": True, "partitions": [["t", 1], ["t", 0]]}
    answers = [
        await server.call("POST", f"/runs/{run.run_id}/positions?attempt={attempt}", run.token, body)
        for attempt in ("one", "another")
    ]
    assert answers[0].json() == [["t", 1, None, None, -1], ["t", 0, None, None, -1]]
    assert answers[1].status_code == 410


async def test_a_tasks_own_client_gets_its_spec_and_its_positions_until_another_one_has_the_run(server: Server) -> None:
    run = server.runs[0]
    handle = RunHandle(str(server.http.base_url), run.run_id, run.token)
    first, second = (WorkerClient(handle, asyncio.get_running_loop()) for _ in range(2))
    try:
        spec = await first.spec()
        assert await first.source_offsets(spec.assigned, fenceable=True) == [SourceOffset("t", 0, None)]
        await second.spec()
        with pytest.raises(RunOverError):
            await first.source_offsets(spec.assigned, fenceable=True)
    finally:
        first.close()
        second.close()


async def test_a_driver_report_is_taken(server: Server) -> None:
    body = {"slots": 3, "runs": {}, "pid": 1}
    answer = await server.call("POST", "/driver", server.spark.copying.token, body)
    assert (answer.status_code, server.spark.copying._keeper.slots) == (200, 3)
    executor = {"id": "7", "host": "h", "slots": 2, "tasks": 1, "draining": False, "silent_s": 3.5}
    await server.call("POST", "/driver", server.spark.copying.token, {**body, "executors": [executor]})
    assert [(each.executor, each.tasks, each.silent_s) for each in server.spark.copying.executors] == [("7", 1, 3.5)]
    missing = {"cores": "9", "memory": "1g", "workers": [[4, 512]]}
    await server.call("POST", "/driver", server.spark.copying.token, {**body, "executors": [], "missing": missing})
    assert "spark.executor.cores=9 is too large" in (server.spark.copying.absence or "")
