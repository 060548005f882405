"""The worker's log on standard error: each record begins one line, and no line holds a secret, whoever logs it."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from mirror_connect.app.foreground import _held_lines, _say
from mirror_connect.connectors.log_format import PROBLEM, ConnectorName, log_flow
from mirror_connect.connectors.secrets import RedactingFilter
from mirror_connect.connectors.task_protocol import TaskId

SECRET = "hunter22-in-a-line"
QUIETER = ("httpx", "httpcore", "asyncio", "uvicorn")


@pytest.fixture
def net(monkeypatch: pytest.MonkeyPatch) -> Iterator[RedactingFilter]:
    """What the log hides. Handlers and levels are put back."""
    for name in ("MIRROR_CONNECT_LOG_LEVEL", "MIRROR_CONNECT_LOG_FORMAT"):
        monkeypatch.delenv(name, raising=False)
    root = logging.getLogger()
    handlers = root.handlers[:]
    levels = {each: each.level for each in (root, *map(logging.getLogger, QUIETER))}
    # `force` would close those that are there.
    root.handlers = []
    yield RedactingFilter()
    root.handlers = handlers
    for each, level in levels.items():
        each.setLevel(level)


@pytest.mark.parametrize(
    "logger", ["mirror_connect.app.worker", "mirror_connect.kafka_io.consumer.log_clients", "uvicorn.error"]
)
def test_no_line_of_the_workers_log_holds_a_secret(
    net: RedactingFilter, logger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with _held_lines(net):
        pass
    net.learn([SECRET], "c")
    try:
        raise ValueError(f"{SECRET} is wrong")
    except ValueError:
        logging.getLogger(logger).exception("It was %s", SECRET)
    said = capsys.readouterr().err
    assert "ERROR It was [hidden] " in said
    assert "ValueError: [hidden] is wrong" in said
    assert SECRET not in said


def test_no_name_writes_a_line_of_the_workers_log(net: RedactingFilter, capsys: pytest.CaptureFixture[str]) -> None:
    with _held_lines(net):
        pass
    logging.getLogger("mirror_connect.app.worker").warning("Connector %s: gone", "a\n[2026-01-01] INFO All is well")
    (line,) = capsys.readouterr().err.splitlines()
    assert "WARNING Connector a\\n[2026-01-01] INFO All is well: gone" in line


def test_lines_of_a_start_are_written_in_the_format_that_the_settings_name(
    net: RedactingFilter, capsys: pytest.CaptureFixture[str]
) -> None:
    with _held_lines(net) as held:
        logging.getLogger("mirror_connect.app").info("The file is read with %s", SECRET)
        assert capsys.readouterr().err == ""
        net.keep([SECRET])
        held.log_format = "json"
    logging.getLogger("mirror_connect.app").info("It has started")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [each["message"] for each in lines] == ["The file is read with [hidden]", "It has started"]


def test_lines_of_a_start_that_fails_are_written_too(
    net: RedactingFilter, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MIRROR_CONNECT_LOG_FORMAT", "JSON")
    with contextlib.suppress(ValueError), _held_lines(net):
        logging.getLogger("mirror_connect.app").warning("Nobody reads x")
        raise ValueError("wrong")
    _say("wrong: " + SECRET, net, "json")
    first, last = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (first["level"], first["message"], last["message"]) == ("WARNING", "Nobody reads x", "wrong: " + SECRET)


def test_a_json_line_names_connector_task_flow_and_problem_also_where_a_secret_is_hidden(
    net: RedactingFilter, capsys: pytest.CaptureFixture[str]
) -> None:
    with _held_lines(net) as held:
        held.log_format = "json"
    net.learn([SECRET], "c")
    logger = logging.getLogger("mirror_connect.app.worker")
    with log_flow("A->B"):
        logger.warning("Task %s: %s", TaskId("c", 3), SECRET, extra={PROBLEM: "group_not_moved"})
    logger.info("Connector %s: created\n%s", ConnectorName("c\n"), "\u2028")
    task, connector = capsys.readouterr().err.splitlines()
    told = json.loads(task)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", told.pop("time"))
    assert told == {
        "level": "WARNING",
        "logger": "mirror_connect.app.worker",
        "message": "Task c-3: [hidden]",
        "flow": "A->B",
        "connector": "c",
        "task": 3,
        "problem": "group_not_moved",
    }
    assert json.loads(connector)["connector"] == "c\n"
    assert connector.isascii()


def test_a_trace_is_a_member_of_the_same_json_line(net: RedactingFilter, capsys: pytest.CaptureFixture[str]) -> None:
    with _held_lines(net) as held:
        held.log_format = "json"
    net.learn([SECRET], "c")
    try:
        raise ValueError(SECRET)
    except ValueError:
        logging.getLogger("mirror_connect.app").exception("A bug")
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["trace"].endswith("ValueError: [hidden]")


def test_the_last_line_of_a_start_that_fails_is_json_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mirror_connect.app", "/no/such/worker.properties"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "MIRROR_CONNECT_LOG_FORMAT": "json"},
    )
    (line,) = done.stderr.splitlines()
    told = json.loads(line)
    assert (done.returncode, told["level"], "/no/such/worker.properties" in told["message"]) == (2, "CRITICAL", True)
