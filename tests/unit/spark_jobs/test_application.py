"""The driver's loop: the first query of a session does nothing, unless a task waits for it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mirror_connect.spark_jobs import application
from mirror_connect.spark_jobs.application import Application
from mirror_connect.spark_jobs.full_heap import HeapSample
from mirror_connect.spark_jobs.internal_http import WorkerUnreachableError

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


@pytest.mark.parametrize("reached", [True, False])
def test_a_full_heap_is_told_to_the_worker_and_then_the_jvm_is_ended(
    reached: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str | None] = []

    class _Http:
        def __init__(self, *_: object) -> None: ...

        def call(self, _: str, path: str, body: dict[str, Any]) -> Any:
            assert path == "/driver"
            told.append(body["full"])
            if body["full"] is not None and not reached:
                raise WorkerUnreachableError("gone")
            return {}

    class _Process:
        def kill(self) -> None:
            raise _Over

    class _Full(_Session):
        class sparkContext(_Session.sparkContext):  # noqa: N801 — Spark's name
            _jvm = None

            class _gateway:  # noqa: N801 — PySpark's name
                proc = _Process()

    seconds = itertools.count(100.0, 5.0)

    def sample(_: object, __: float) -> HeapSample:
        now = next(seconds)
        return HeapSample(now, now, 980 << 20, 1000 << 20, 1024 << 20)

    monkeypatch.setattr(application, "InternalHttp", _Http)
    monkeypatch.setattr(application, "REPORT_S", 0.0)
    monkeypatch.setattr(application, "EVERY_S", 0.0)
    monkeypatch.setattr(application, "jvm_figures", lambda _: {"memory": {}, "threads": 1, "collections": {}})
    monkeypatch.setattr(application, "heap_sample", sample)
    hello = {"url": "http://127.0.0.1:1", "token": "t", "scratch": str(tmp_path), "statements": True}
    with pytest.raises(_Over):
        Application(hello, _Full())._report_for_ever()  # type: ignore[arg-type]
    assert told[:-1] == [None] * (len(told) - 1)
    line = told[-1] or ""
    assert line.startswith("the heap of its JVM is full: 980 of 1024 MiB stay in use, and 100% of the last 20 s ")
    assert line.endswith("Raise spark.transform.driver.memory, or make the statement smaller")
    # The worker shows the last critical line as the reason of the end.
    assert [each.getMessage() for each in caplog.records if each.levelname == "CRITICAL"] == [line]
