"""The driver's loop: the first query of a session does nothing, unless a task waits for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mirror_connect.spark_jobs import application
from mirror_connect.spark_jobs.application import Application

RUN = {"run_id": "r", "token": "t", "connector": "c", "task": 0, "shared": False}


class _Session:
    class sparkContext:  # noqa: N801 — Spark's name
        defaultParallelism = 4  # noqa: N815 — Spark's name
        master = "local[4,4]"


class _Over(BaseException):
    """Ends the loop that never ends."""


def run(
    monkeypatch: pytest.MonkeyPatch,
    scratch: Path,
    *plans: list[dict[str, Any]],
    warm_up: Callable[..., None] | None = None,
) -> list[str]:
    """What is done when the worker answers with these plans."""
    answers = iter(plans)
    done: list[str] = []

    class _Http:
        def __init__(self, *_: object) -> None: ...

        def call(self, method: str, path: str, *_: object, **__: object) -> Any:
            if path == "/driver":
                return {}
            answer = next(answers, None)
            if answer is None:
                raise _Over
            return {"version": 1, "runs": answer, "log_levels": {"version": 0, "levels": {}}}

    class _Now:
        """A thread that is over as soon as it is started."""

        def __init__(self, target: Any, **_: object) -> None:
            self._target = target

        def start(self) -> None:
            if self._target.__name__ == "_warm_up":
                self._target()

    monkeypatch.setattr(application, "InternalHttp", _Http)
    monkeypatch.setattr(application.threading, "Thread", _Now)
    monkeypatch.setattr(application, "warm_up", warm_up or (lambda *_: done.append("nothing")))
    monkeypatch.setattr(application, "start_query", lambda _, handle, __, **___: done.append(handle.run_id))
    hello = {"url": "http://127.0.0.1:1", "token": "t", "scratch": str(scratch), "statements": False}
    with pytest.raises(_Over):
        Application(hello, _Session()).run()  # type: ignore[arg-type]
    return done


@pytest.mark.parametrize(
    ("plans", "done"),
    [
        pytest.param([[], []], ["nothing"], id="nobody_waits"),
        pytest.param([[], [RUN]], ["nothing", "r"], id="a_task_comes_later"),
        pytest.param([[RUN], []], ["r"], id="a_task_waits"),
    ],
)
def test_the_first_query_does_nothing_unless_a_task_waits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, plans: list[list[dict[str, Any]]], done: list[str]
) -> None:
    assert run(monkeypatch, tmp_path, *plans) == done


def test_a_first_query_that_fails_keeps_no_task_from_starting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no room")

    assert run(monkeypatch, tmp_path, [], [RUN], warm_up=fail) == ["r"]
