"""What a process has once: Spark, whoever starts it, and the log, which goes on to hide secrets whatever goes wrong."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Collection

import pytest

from mirror_connect.app import process as process_module
from mirror_connect.app.errors import StartupError
from mirror_connect.app.process import Process, forget_unused
from mirror_connect.app.supervisor.spark_host import SparkHost
from mirror_connect.connectors.log_format import LineFormatter, log_flow


async def test_secrets_in_use_are_told_again_and_again_also_after_an_error() -> None:
    answers = iter([{"first"}, RuntimeError("not now"), {"second"}])
    told: list[Collection[str]] = []
    enough = asyncio.Event()

    async def in_use() -> Collection[str]:
        answer = next(answers, None)
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            enough.set()
            await asyncio.Event().wait()
        return answer or ()

    forgetting = asyncio.create_task(forget_unused(in_use, told.append, 0.001))
    async with asyncio.timeout(60):
        await enough.wait()
    forgetting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await forgetting
    assert told == [{"first"}, {"second"}]


async def test_spark_starts_with_the_next_flow_where_the_first_one_got_no_port(monkeypatch: pytest.MonkeyPatch) -> None:
    urls: list[str] = []

    async def start(_: SparkHost, url: str) -> None:
        urls.append(url)

    def no_port(*_: object) -> socket.socket:
        raise StartupError("Can't listen")

    monkeypatch.setattr(SparkHost, "start", start)
    process = Process({}, lambda _: None)
    with monkeypatch.context() as patch:
        patch.setattr(process_module, "listen_on", no_port)
        with pytest.raises(StartupError):
            await process.start_spark()
    await process.start_spark()
    await process.http.end()
    assert [url.rpartition(":")[0] for url in urls] == ["http://127.0.0.1"]


async def test_spark_belongs_to_no_flow_whichever_starts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    formatter = LineFormatter("%(message)s")

    async def start(_: SparkHost, url: str) -> None:
        # As Spark's keeper does: a task of its own, which takes over the context.
        await asyncio.create_task(say(url))

    async def say(url: str) -> None:
        lines.append(formatter.format(logging.LogRecord("l", logging.INFO, "f", 1, "Spark is starting", (), None)))

    monkeypatch.setattr(SparkHost, "start", start)
    process = Process({}, lambda _: None)
    with log_flow("A->B"):
        await process.start_spark()
        await process.start_spark()
    await process.http.end()
    assert lines == ["Spark is starting"]
