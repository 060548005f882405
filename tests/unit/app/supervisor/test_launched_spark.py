"""Spark's first application: launched before there is an event loop, followed later, or ended with its process."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import tempfile
from pathlib import Path

import psutil
import pytest

from mirror_connect.app.supervisor import launcher
from mirror_connect.app.supervisor.launched_spark import LaunchedSpark
from mirror_connect.app.supervisor.spark_host import SparkHost

ECHO = "import sys; print('INFO x', sys.stdin.readline().strip(), flush=True); sys.stdin.read(); sys.exit(7)"
WAIT = "import subprocess, sys; subprocess.Popen(['sleep', '600']); print('up', flush=True); sys.stdin.read()"


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def echo(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> LaunchedSpark:
    """Made outside of any loop, as fixtures are; its driver shows what it was told first."""
    monkeypatch.setattr(launcher, "DRIVER", ("-c", ECHO))
    return LaunchedSpark({"spark.a": "b"})


async def test_what_is_launched_is_told_where_the_worker_is_and_followed_later(
    echo: LaunchedSpark, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    pid = echo.application.pid
    await echo.application.start("http://127.0.0.1:1", "another token")
    await echo.application.end(60.0)
    (line,) = [record.getMessage() for record in caplog.records if record.name == "mirror_connect.spark"]
    hello = json.loads(line.removeprefix("x "))
    port = echo.listener.getsockname()[1]
    assert (hello["url"], hello["token"], hello["spark"]) == (f"http://127.0.0.1:{port}", echo.token, {"spark.a": "b"})
    assert (await echo.application.exited(), echo.application.pid) == (7, pid)
    assert not await asyncio.to_thread(os.path.exists, hello["scratch"])
    echo.listener.close()


async def test_a_host_begins_with_the_launched_application_and_goes_on_with_others(echo: LaunchedSpark) -> None:
    host = SparkHost({}, launched=echo)
    assert host.copying.token == echo.token
    keeper = host.copying._keeper
    assert (keeper._new_application() is echo.application, keeper._new_application() is echo.application) == (
        True,
        False,
    )
    await echo.application.start("", "")
    await echo.application.end(60.0)
    echo.listener.close()


def test_what_nobody_follows_ends_with_its_whole_tree_and_its_files(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "DRIVER", ("-c", WAIT))
    launched = LaunchedSpark({})
    process = launched.application._process
    assert process is not None
    assert process.stdout is not None
    os.read(process.stdout.fileno(), 100)  # its child is there
    tree = [psutil.Process(process.pid), *psutil.Process(process.pid).children()]
    launched.kill()
    _, alive = psutil.wait_procs(tree, timeout=60)
    assert (len(tree), alive, list(scratch.iterdir())) == (2, [], [])
    launched.listener.close()


async def test_what_a_host_follows_is_not_ended_twice(echo: LaunchedSpark) -> None:
    await echo.application.start("", "")
    echo.kill()
    assert echo.application.owns(echo.application.pid or 0)
    await echo.application.end(60.0)
    echo.listener.close()


async def test_what_could_not_be_launched_is_started_later(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(**_: object) -> str:
        raise OSError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "mkdtemp", no_room)
        launched = LaunchedSpark({})
    assert launched.application.pid is None
    monkeypatch.setattr(launcher, "DRIVER", ("-c", ECHO))
    await launched.application.start("http://127.0.0.1:1", "token")
    assert launched.application.pid is not None
    await launched.application.end(60.0)
    launched.listener.close()
