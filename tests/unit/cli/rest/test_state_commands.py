"""`pause`, `resume`, `stop`, `restart`, `delete` and `logs`, against the real REST interface of a worker in memory."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import pytest

from mirror_connect.connectors.task_protocol import TaskId
from tests.unit.cli.rest.conftest import Mirror, Served


@pytest.fixture
def three(served: Served) -> Served:
    """mirror-a, mirror-b and other run, with two tasks each; other's second one has failed."""
    served.worker.supervisor.failing[TaskId("other", 1)] = "X: no"
    for name in ("mirror-a", "mirror-b", "other"):
        served.put(name, tasks__max="2")
        served.run(served.worker.state(name, "RUNNING", ["RUNNING", "FAILED" if name == "other" else "RUNNING"]))
    return served


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A terminal where the user types this."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    return lambda text: monkeypatch.setattr(sys, "stdin", Terminal(text))


@pytest.mark.parametrize(
    ("verb", "said", "state"),
    [("pause", "is to pause", "PAUSED"), ("stop", "is to stop", "STOPPED")],
)
def test_by_name_it_does_not_ask_and_resume_undoes_it(
    three: Served, mirror: Mirror, verb: str, said: str, state: str
) -> None:
    done = mirror(verb, "mirror-a", "--worker", three.url)
    assert (done.code, done.out, done.err) == (0, f"mirror-a: {said}\n", "")
    three.run(three.worker.state("mirror-a", state))
    assert mirror("resume", "mirror-a", "--worker", three.url).out == "mirror-a: is to run\n"
    three.run(three.worker.state("mirror-a", "RUNNING", ["RUNNING", "RUNNING"]))


def test_a_pattern_asks_on_a_terminal(three: Served, mirror: Mirror, typed: Callable[[str], None]) -> None:
    typed("n\n")
    done = mirror("pause", "mirror-*", "--worker", three.url)
    assert (done.code, done.out) == (0, "Nothing is changed.\n")
    assert done.err == f"pause at {three.url}: mirror-a, mirror-b? [y/N] "
    typed("y\n")
    assert mirror("pause", "mirror-*", "--worker", three.url).out == "mirror-a: is to pause\nmirror-b: is to pause\n"
    typed("")
    assert mirror("stop", "mirror-*", "--worker", three.url).out == "Nothing is changed.\n"


def test_without_a_terminal_a_pattern_and_delete_need_yes(three: Served, mirror: Mirror) -> None:
    for arguments in (("pause", "mirror-*"), ("delete", "mirror-a")):
        done = mirror(*arguments, "--worker", three.url)
        assert (done.code, done.out, done.err.count("\n"), "--yes does it" in done.err) == (2, "", 1, True)
    done = mirror("delete", "mirror-*", "other", "--yes", "--worker", three.url)
    assert (done.code, len(done.out.splitlines())) == (0, 3)
    assert mirror("status", "--worker", three.url, "-o", "json").out == "{}\n"


def test_one_that_is_refused_keeps_no_other_from_it(three: Served, mirror: Mirror) -> None:
    done = mirror("pause", "nope", "mirror-a", "--worker", three.url)
    assert (done.code, done.out, done.err.count("\n")) == (2, "mirror-a: is to pause\n", 1)
    assert f"PUT {three.url}/connectors/nope/pause was answered with 404: Unknown connector nope" in done.err
    none = mirror("pause", "x*", "--worker", three.url)
    assert (none.code, none.err) == (
        2,
        f"mirror-connect: {three.url} has no connector x*; mirror-connect status lists them\n",
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("mirror-a",), "mirror-a: restarted, without its tasks\n"),
        (("mirror-a", "--tasks"), "mirror-a: the connector and 2 tasks restart\n"),
        (("other", "--only-failed"), "other: 1 task restarts\n"),
        (("mirror-a", "--only-failed"), "mirror-a: nothing of it has failed, so nothing restarts\n"),
        (("mirror-a/1",), "mirror-a/1: restarted\n"),
    ],
)
def test_restarts(three: Served, mirror: Mirror, arguments: tuple[str, ...], said: str) -> None:
    done = mirror("restart", *arguments, "--worker", three.url)
    assert (done.code, done.out, done.err) == (0, said, "")


def test_a_task_that_fails_again_is_code_1(three: Served, mirror: Mirror) -> None:
    done = mirror("restart", "other/1", "--worker", three.url)
    assert (done.code, done.out) == (1, "")
    assert "was answered with 500: Failed to start task: other-1; the worker's log says more" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("other/1", "--tasks"), "other/1 is one task"),
        (("other/1", "other"), "connectors or tasks, not both"),
        (("other/x",), "other/x is no task"),
        (("other/9",), "was answered with 404: Unknown task: other-9"),
        ((), "CONNECTOR"),
    ],
)
def test_a_wrong_restart_is_one_line_and_code_2(
    three: Served, mirror: Mirror, arguments: tuple[str, ...], said: str
) -> None:
    done = mirror("restart", *arguments, "--worker", three.url)
    assert (done.code, done.out, done.err.count("\n"), said in done.err) == (2, "", 1, True), done.err


def test_levels_are_listed_and_set(served: Served, mirror: Mirror) -> None:
    done = mirror("logs", "mirror_connect.cli.nothing", "debug", "--worker", served.url)
    assert (done.code, done.out) == (0, "mirror_connect.cli.nothing is DEBUG now.\n")
    again = mirror("logs", "mirror_connect.cli.nothing", "DEBUG", "--worker", served.url)
    assert again.out == "mirror_connect.cli.nothing is DEBUG already.\n"
    listed = mirror("logs", "--worker", served.url)
    assert [row[:2] for row in listed.rows if row[0] == "mirror_connect.cli.nothing"] == [
        ["mirror_connect.cli.nothing", "DEBUG"]
    ]
    assert mirror("logs", "mirror_connect.cli.nothing", "--worker", served.url).rows[0][1] == "DEBUG"
    everywhere = mirror("logs", "mirror_connect.cli.nothing", "OFF", "--scope", "cluster", "--worker", served.url)
    assert (everywhere.code, everywhere.out) == (0, "All workers set mirror_connect.cli.nothing to OFF.\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("root", "LOUD"), "there is no level LOUD; OFF, FATAL, ERROR, WARN, INFO, DEBUG, TRACE are known"),
        (("no.such",), "has no logger no.such with a level"),
    ],
)
def test_a_wrong_logger_or_level_is_one_line_and_code_2(
    served: Served, mirror: Mirror, arguments: tuple[str, ...], said: str
) -> None:
    done = mirror("logs", *arguments, "--worker", served.url)
    assert (done.code, done.out, done.err.count("\n"), said in done.err) == (2, "", 1, True), done.err
