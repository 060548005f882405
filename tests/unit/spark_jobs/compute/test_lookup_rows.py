"""The rows of a lookup, as a Python process of Spark's gets them from the worker."""

from __future__ import annotations

import io
import socket
from typing import Any

import pyarrow as pa
import pytest

from mirror_connect.spark_jobs import unreached_worker
from mirror_connect.spark_jobs.compute import lookup_rows
from mirror_connect.spark_jobs.compute.lookup_joins import LookupJoin
from mirror_connect.spark_jobs.compute.lookup_rows import rows_of
from mirror_connect.spark_jobs.internal_http import RunHandle, RunOverError, WorkerUnreachableError

HANDLE = RunHandle("http://127.0.0.1:1", "run", "token")
JOIN = LookupJoin("regions", "r", ("id", "n"), ("STRING", "INT"))


class Worker:
    """Answers what a test gives."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.closed = False

    def __call__(self, url: str, token: str, fingerprint: str) -> Worker:
        assert (url, token, fingerprint) == (HANDLE.url, HANDLE.token, "")
        return self

    def content(self, method: str, path: str, timeout: float) -> bytes:
        self.asked.append(path)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, bytes)
        return answer

    def close(self) -> None:
        self.closed = True


def test_it_asks_until_the_worker_has_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"id": ["DE"], "n": [1]})
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as stream:
        stream.write_table(table)
    worker = Worker(WorkerUnreachableError("503"), WorkerUnreachableError("no worker"), out.getvalue())
    monkeypatch.setattr(lookup_rows, "InternalHttp", worker)
    monkeypatch.setattr(lookup_rows, "PAUSE_S", 0.0)
    assert pa.Table.from_batches(rows_of(HANDLE, JOIN)) == table
    assert worker.asked == ["/runs/run/lookups/regions?keys=id%2Cn"] * 3
    assert worker.closed


def test_there_is_no_row_for_a_run_that_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(RunOverError("run"))
    monkeypatch.setattr(lookup_rows, "InternalHttp", worker)
    assert list(rows_of(HANDLE, JOIN)) == []
    assert worker.closed


def test_an_executor_that_never_reaches_the_worker_says_so_to_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unreached_worker, "REACH_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(unreached_worker.NeverReachedError, match=url):
        list(rows_of(RunHandle(url, "run", "token", "0" * 64), JOIN))
