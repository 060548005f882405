"""The worker's log on standard error: each record begins one line, and no line holds a secret, whoever logs it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from mirror_connect.app.foreground import _log_to_standard_error
from mirror_connect.connectors.secrets import RedactingFilter

SECRET = "hunter22-in-a-line"
QUIETER = ("httpx", "httpcore", "asyncio", "uvicorn")


@pytest.fixture
def net(monkeypatch: pytest.MonkeyPatch) -> Iterator[RedactingFilter]:
    """What the log hides. Handlers and levels are put back."""
    monkeypatch.delenv("MIRROR_CONNECT_LOG_LEVEL", raising=False)
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
    _log_to_standard_error(net)
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
    _log_to_standard_error(net)
    logging.getLogger("mirror_connect.app.worker").warning("Connector %s: gone", "a\n[2026-01-01] INFO All is well")
    (line,) = capsys.readouterr().err.splitlines()
    assert "WARNING Connector a\\n[2026-01-01] INFO All is well: gone" in line
