"""`mirror-connect __words`: names for a shell, in time, and never an error, whatever the worker does."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fakes.links_worker import LinksWorker, link


def words(*arguments: str, home: Path, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "mirror_connect.cli", "__words", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "HOME": str(home), **environment},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("connectors", ["a", "b"]),
        ("tasks", ["a", "a/0", "b", "b/0", "b/1"]),
        ("links", ["A->B", "x y"]),
        ("loggers", ["root"]),
        ("config", ["a", "b"]),
        ("nonsense", ["a", "b"]),
    ],
)
def test_names_that_the_worker_has(linked: LinksWorker, home: Path, kind: str, found: list[str]) -> None:
    linked.connectors = {"b": 2, "a": 1, "not\nprintable": 0}
    linked.links = [link("A->B"), link("x y"), link("\x1b[31m")]
    assert words(kind, "--worker", linked.url, home=home) == found


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("connectors",),
        ("connectors", "--worker"),
        ("connectors", "--worker", "nope"),
        ("connectors", "--worker", "file:///etc/passwd"),
        ("connectors", "--worker", "http://127.0.0.1:9"),
        ("connectors", "--context", "nope"),
        ("connectors", "--cacert", "/nowhere", "--worker", "https://127.0.0.1:9"),
        ("contexts",),
        ("--worker",),
    ],
)
def test_whatever_goes_wrong_nothing_is_said(home: Path, arguments: tuple[str, ...]) -> None:
    (home / ".kcctl").write_text("{ broken")
    assert words(*arguments, home=home) == []


@pytest.mark.parametrize("content", [b"<html>", b'{"a": 1}', b"7", b'[["x"]]' * 2])
def test_an_answer_that_makes_no_sense_is_none(linked: LinksWorker, home: Path, content: bytes) -> None:
    linked.instead = (200, content, "text/html")
    for kind in ("links", "tasks", "loggers"):
        assert set(words(kind, "--worker", linked.url, home=home)) <= {"a"}


def test_a_worker_that_hangs_has_a_second(linked: LinksWorker, home: Path) -> None:
    linked.before_answer = lambda: time.sleep(10)
    begun = time.monotonic()
    assert words("connectors", "--worker", linked.url, home=home) == []
    assert time.monotonic() - begun < 8


def test_a_login_goes_along_and_to_nobody_else(linked: LinksWorker, home: Path) -> None:
    linked.connectors = {"a": 0}
    linked.login = "Basic YWRhOmh1bnRlcjIy"
    asked = ("connectors", "--worker", linked.url)
    assert words(*asked, home=home) == []
    assert words(*asked, "--user", "ada", home=home, MIRROR_CONNECT_PASSWORD="hunter22") == ["a"]
    linked.instead = (302, b"", "text/html")
    linked.location = f"{linked.url}/elsewhere"
    assert words(*asked, "--user", "ada", home=home, MIRROR_CONNECT_PASSWORD="hunter22") == []
    assert linked.asked["/elsewhere"] == 0
