"""What a task keeps of the worker's answers."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.task_measures import PartitionMeasures, TaskMeasures, Window
from mirror_connect.connectors.task_protocol import TaskOrders, TaskPartition, TaskReport
from mirror_connect.spark_jobs import unreached_worker, worker_client
from mirror_connect.spark_jobs.executor_errors import executor_line
from mirror_connect.spark_jobs.internal_http import InternalHttp, RunHandle, WorkerUnreachableError
from mirror_connect.spark_jobs.worker_client import WorkerClient
from tests.fakes.source_spec import source_spec

LEASE_MS = 8_000


class _Worker(BaseHTTPRequestHandler):
    reports: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        self.reports.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        body = json.dumps(TaskOrders(lease_ms=LEASE_MS).to_json()).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    _Worker.reports.clear()
    server = HTTPServer(("127.0.0.1", 0), _Worker)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


async def test_a_lease_runs_out_while_the_machine_sleeps(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000.0]
    # time.monotonic() stands still meanwhile: only this clock goes on.
    monkeypatch.setattr(worker_client, "boot_clock", lambda: now[0])
    client = WorkerClient(RunHandle(url, "run", "token"), asyncio.get_running_loop())
    assert not client.lease_valid()
    await asyncio.to_thread(client._report, hold=False)
    assert client.lease_valid()
    now[0] += LEASE_MS / 1_000 + 1
    assert not client.lease_valid()
    client.close()


@pytest.mark.parametrize(
    ("states", "told"),
    [
        pytest.param(["RUNNING"], ["RUNNING", "FAILED"], id="it_ran_for_less_than_a_report"),
        pytest.param(["STARTING"], ["FAILED"], id="it_could_not_be_started"),
        pytest.param(["STARTING", "RUNNING"], ["STARTING", "RUNNING", "FAILED"], id="it_ran_after_a_report"),
        pytest.param(["RUNNING", "RUNNING"], ["RUNNING", "FAILED"], id="it_is_known_that_it_ran"),
    ],
)
async def test_a_task_that_fails_as_soon_as_it_runs_has_been_running(
    states: list[str], told: list[str], url: str
) -> None:
    client = WorkerClient(RunHandle(url, "run", "token"), asyncio.get_running_loop())
    client._thread = threading.Thread(target=lambda: None)
    client._thread.start()
    for state in states[:-1]:
        client.state = state
        await asyncio.to_thread(client._report, hold=False)
    client.state = states[-1]
    await asyncio.to_thread(client.report_now, "FAILED", "Boom\n")
    assert [(each["state"], each["trace"]) for each in _Worker.reports] == [
        (state, "Boom\n" if state == "FAILED" else None) for state in told
    ]
    client.close()


@pytest.mark.parametrize("reports_offsets", [True, False])
async def test_who_reports_its_offsets_stops_writing_at_once_when_the_worker_is_gone(
    url: str, *, reports_offsets: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = {"bootstrap.servers": "a:1"}
    spec = source_spec(cluster, cluster, [])
    spec = replace(spec, offsets_topic="") if reports_offsets else spec
    client = WorkerClient(RunHandle(url, "run", "token"), asyncio.get_running_loop())

    async def asked(*_: object) -> dict[str, Any]:
        return spec.to_json()

    monkeypatch.setattr(client, "_ask", asked)
    await client.spec()
    await asyncio.to_thread(client._report, hold=False)
    assert client.lease_valid()
    client._reports = InternalHttp("http://127.0.0.1:1", "token")
    with pytest.raises(WorkerUnreachableError):
        await asyncio.to_thread(client._report, hold=False)
    # Its offsets of what it copies now would be lost with the worker; others write theirs themselves.
    assert client.lease_valid() is not reports_offsets
    client._reports = InternalHttp(url, "token")
    await asyncio.to_thread(client._report, hold=False)
    assert client.lease_valid()
    client.close()


async def test_source_offsets_are_in_the_next_report_that_arrives_and_the_newest_counts(url: str) -> None:
    client = WorkerClient(RunHandle("http://127.0.0.1:1", "run", "token"), asyncio.get_running_loop())
    first, second = TaskPartition("t", 0, "t"), TaskPartition("t", 1, "t")
    client.copied(first, 5)
    client.copied(second, 8)
    with pytest.raises(WorkerUnreachableError):
        await asyncio.to_thread(client._report, hold=False)
    client.copied(first, 6)
    client._reports = InternalHttp(url, "token")
    await asyncio.to_thread(client._report, hold=False)
    await asyncio.to_thread(client._report, hold=False)
    assert [sorted(each["source_offsets"]) for each in _Worker.reports] == [[["t", 0, 6], ["t", 1, 8]], []]
    client.close()


async def test_measures_of_a_lost_report_are_in_the_next_one_and_no_window_is_lost(url: str) -> None:
    row = PartitionMeasures("t", 0, "A.t", 1, 2, 0, None, 0, 1, 1, latency=Window(1, 1, 1, 1))
    client = WorkerClient(RunHandle("http://127.0.0.1:1", "run", "token"), asyncio.get_running_loop())
    client.measured(TaskMeasures(1, partitions=(row,)))
    assert not client.measures_wanted
    with pytest.raises(WorkerUnreachableError):
        await asyncio.to_thread(client._report, hold=False)
    assert not client.measures_wanted
    client.measured(TaskMeasures(2, partitions=(row._replace(records=2),)))
    client._reports = InternalHttp(url, "token")
    await asyncio.to_thread(client._report, hold=False)
    assert client.measures_wanted
    await asyncio.to_thread(client._report, hold=False)
    client.close()
    told, nothing = (TaskReport.from_json(each).measures for each in _Worker.reports)
    assert nothing is None
    assert told is not None
    assert [(each.records, each.latency) for each in told.partitions] == [
        (1, Window(1, 1, 1, 1)),
        (2, Window(1, 1, 1, 1)),
    ]
    # The lease came with the answer to that report, so there was none when it was sent.
    assert (told.at_ms, told.lease_ms) == (2, 0)


async def test_a_source_offset_noted_while_a_report_is_made_is_in_it_or_in_the_next(url: str) -> None:
    client = WorkerClient(RunHandle(url, "run", "token"), asyncio.get_running_loop())
    reports: list[asyncio.Future[None]] = []

    class Slow:
        """A partition whose key takes as long as a report: a switch of threads in the middle of noting it."""

        @property
        def source(self) -> TopicPartition:
            reports.append(asyncio.get_running_loop().run_in_executor(None, client._report))
            time.sleep(0.3)
            return TopicPartition("t", 0)

    client.copied(Slow(), 5)  # type: ignore[arg-type]
    await asyncio.gather(*reports)
    await asyncio.to_thread(client._report, hold=False)
    assert sorted(offset for each in _Worker.reports for offset in each["source_offsets"]) == [["t", 0, 5]]
    client.close()


async def test_a_report_that_confirms_an_assignment_has_all_source_offsets_from_before(url: str) -> None:
    client = WorkerClient(RunHandle(url, "run", "token"), asyncio.get_running_loop())
    partition = TaskPartition("t", 0, "t")

    class LoopComesBetween:
        """While the thread makes its report, the loop notes the last offset and confirms that the partition is free."""

        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None:
            client._noting = threading.Lock()
            client.copied(partition, 5)
            client.assignment_version = 2

    client._noting = LoopComesBetween()  # type: ignore[assignment]
    await asyncio.to_thread(client._report, hold=False)
    await asyncio.to_thread(client._report, hold=False)
    said = [(each["assignment_version"], each["source_offsets"]) for each in _Worker.reports]
    assert said == [(0, []), (2, [["t", 0, 5]])]
    client.close()


async def test_a_loop_that_hangs_is_told_by_the_thread_that_reports(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000.0]
    monkeypatch.setattr(worker_client.time, "monotonic", lambda: now[0])
    loop = _Loop()
    client = WorkerClient(RunHandle(url, "run", "token"), loop)  # type: ignore[arg-type]
    silences = []
    for comes_round in (True, False, False, False, True, True):
        silences.append(client._loop_silence())
        now[0] += 0.6
        if comes_round:
            loop.comes_round()
    assert silences == [0.0, 0.0, 0.0, 1.2, 1.8, 0.0]
    client.close()


async def test_an_executor_that_never_reaches_the_worker_says_so_to_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unreached_worker, "REACH_S", 0.0)
    url = f"https://127.0.0.1:{_closed_port()}"
    client = WorkerClient(RunHandle(url, "run", "the-token", "0" * 64), asyncio.get_running_loop())
    with pytest.raises(unreached_worker.NeverReachedError) as raised:
        await client.spec()
    client.close()
    trace = "".join(traceback.format_exception(raised.value))
    text = f"Lost task 0.7 in stage 5.0 (TID 12) (10.0.0.1 executor 3): PythonException: {trace}"
    line = executor_line(text)
    assert line is not None
    assert line.startswith("Executor 3 on 10.0.0.1 ")
    assert (url in line, "the-token" in text) == (True, False)


@pytest.mark.parametrize("reached", [True, False])
async def test_who_has_reached_the_worker_or_is_on_its_machine_goes_on_trying(
    url: str, *, reached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unreached_worker, "REACH_S", 0.0)
    gone = f"http://127.0.0.1:{_closed_port()}"
    handle = RunHandle(url if reached else gone, "run", "token", "0" * 64 if reached else "")
    if reached:
        await asyncio.to_thread(InternalHttp(url, "token").call, "POST", "/", {})
    assert await asyncio.to_thread(unreached_worker.never_reached, handle, 0.0) is None


def _closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


class _Loop:
    """What is asked of it waits until it comes round."""

    def __init__(self) -> None:
        self._asked: list[Callable[[], None]] = []

    def call_soon_threadsafe(self, asked: Callable[[], None]) -> None:
        self._asked.append(asked)

    def comes_round(self) -> None:
        while self._asked:
            self._asked.pop()()
