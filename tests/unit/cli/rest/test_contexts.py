"""Contexts: kcctl's verbs and file, and that no password is written or goes to another worker."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from mirror_connect.app.rest.basic_auth import UsersFile
from mirror_connect.cli.rest.contexts import Contexts, own_file
from tests.fakes.links_worker import LinksWorker
from tests.unit.cli.rest.conftest import Mirror, Served, served_in_a_thread


def kcctl(home: Path, **members: Any) -> None:
    (home / ".kcctl").write_text(json.dumps(members))


def test_the_first_context_is_the_current_one_and_use_changes_it(mirror: Mirror) -> None:
    assert mirror("config", "set-context", "dev", "--worker", "http://dev:8083").out == "Context dev is set.\n"
    said = mirror("config", "set-context", "prod", "--cluster", "https://prod", "--username", "ada").out
    assert said == "Context prod is set; mirror-connect config use-context prod uses it.\n"
    assert mirror("config", "current-context").out == "dev\n"
    assert mirror("config", "use-context", "prod").out == "Context prod is in use.\n"
    assert mirror("config").texts == ["dev http://dev:8083 -", "* prod https://prod ada"]
    listed = json.loads(mirror("config", "get-contexts", "-o", "json").out)
    assert listed == {
        "currentContext": "prod",
        "contexts": [
            {"name": "dev", "cluster": "http://dev:8083", "file": str(own_file())},
            {"name": "prod", "cluster": "https://prod", "username": "ada", "file": str(own_file())},
        ],
    }
    assert mirror("config", "remove-context", "prod").code == 0
    assert (mirror("config", "current-context").code, list(Contexts().all)) == (1, ["dev"])


def test_the_file_is_for_its_user_alone_and_has_kcctls_form(mirror: Mirror) -> None:
    mirror("config", "set-context", "dev", "--worker", "http://dev:8083", "--user", "ada")
    assert json.loads(own_file().read_text()) == {
        "dev": {"cluster": "http://dev:8083", "username": "ada"},
        "currentContext": "dev",
    }
    assert (stat.S_IMODE(own_file().stat().st_mode), os.listdir(own_file().parent)) == (0o600, ["contexts.json"])


def test_contexts_of_kcctl_are_read_and_never_written(home: Path, mirror: Mirror) -> None:
    kcctl(
        home,
        currentContext="old",
        old={"cluster": "http://old:8083", "bootstrapServers": "x:9092"},
        dev={"cluster": "http://k"},
    )
    before = (home / ".kcctl").read_bytes()
    assert mirror("config", "current-context").out == "old\n"
    mirror("config", "set-context", "dev", "--worker", "http://dev:8083")
    mirror("config", "use-context", "old")
    assert [each.cluster for each in Contexts().all.values()] == ["http://old:8083", "http://dev:8083"]
    done = mirror("config", "remove-context", "old")
    assert (done.code, "kcctl config remove-context" in done.err) == (2, True)
    assert (home / ".kcctl").read_bytes() == before


def test_a_context_that_is_set_again_keeps_what_the_user_wrote(mirror: Mirror) -> None:
    mirror("config", "set-context", "dev", "--worker", "http://dev:8083")
    content = json.loads(own_file().read_text())
    content["dev"]["password"] = "written-by-the-user"
    own_file().write_text(json.dumps(content))
    mirror("config", "set-context", "dev", "--user", "ada")
    assert json.loads(own_file().read_text())["dev"] == {
        "cluster": "http://dev:8083",
        "password": "written-by-the-user",
        "username": "ada",
    }
    assert "written-by-the-user" not in mirror("config", "get-contexts", "-o", "json").out + repr(Contexts().current)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("set-context", "dev"), "give the worker's URL"),
        (("set-context", "dev", "--worker", "dev:8083"), "dev:8083 is no URL of a worker"),
        (("set-context", "dev", "--worker", "http://ada:hunter22@dev"), "a password is not stored"),
        (("set-context", "dev", "--worker", "http://dev", "--password", "hunter22"), "a password is not stored"),
        (("set-context", "dev", "--worker", "http://dev", "--cacert", "/nowhere"), "--cacert /nowhere can't be used"),
        (("set-context", "currentContext", "--worker", "http://dev"), "can't have the name"),
        (("use-context", "dev"), "there is no context dev; mirror-connect config set-context makes one"),
        (("use-context",), "arguments are required: NAME"),
        (("current-context", "x"), "unrecognized arguments: x"),
    ],
)
def test_wrong_usage_is_one_line_and_writes_nothing(mirror: Mirror, words: tuple[str, ...], said: str) -> None:
    done = mirror("config", *words)
    assert (done.code, done.out, done.err.count("\n"), said in done.err) == (2, "", 1, True), done.err
    assert ("hunter22" in done.err, own_file().exists()) == (False, False)


@pytest.mark.parametrize("content", ['{"dev": {"password": "hunter22"', "[]", "\xff", "[" * 100_000])
def test_a_file_that_is_not_json_is_named_without_its_content(home: Path, mirror: Mirror, content: str) -> None:
    (home / ".kcctl").write_text(content, "latin-1")
    done = mirror("status")
    assert (done.code, done.err.count("\n"), str(home / ".kcctl") in done.err) == (2, 1, True)
    assert "hunter22" not in done.err


def test_a_command_asks_the_context_that_is_current_or_named(home: Path, linked: LinksWorker, mirror: Mirror) -> None:
    kcctl(home, currentContext="here", here={"cluster": linked.url}, away={"cluster": "http://127.0.0.1:9"})
    assert mirror("links").code == 0
    done = mirror("links", "--context", "away")
    assert (done.code, "http://127.0.0.1:9 can't be reached" in done.err) == (2, True)
    assert "there are here, away" in mirror("links", "--context", "nope").err
    assert "not both" in mirror("links", "--context", "away", "--worker", linked.url).err


class TestLogin:
    """Against a worker that asks for a password."""

    @pytest.fixture
    def guarded(self) -> Any:
        with served_in_a_thread(authenticators=[UsersFile({"ada": "hunter22"})]) as found:
            yield found

    def test_the_password_comes_from_the_environment(
        self, guarded: Served, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        done = mirror("status", "--worker", guarded.url)
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert "was answered with 401: User cannot access the resource.; give --user" in done.err
        monkeypatch.setenv("MIRROR_CONNECT_PASSWORD", "hunter22")
        assert mirror("status", "--worker", guarded.url, "--user", "ada").code == 0

    def test_the_password_of_a_context_is_for_its_user_and_url_alone(
        self, guarded: Served, home: Path, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kcctl(home, currentContext="c", c={"cluster": guarded.url, "username": "ada", "password": "hunter22"})
        assert mirror("status").code == 0
        assert mirror("status", "--worker", guarded.url).code == 2
        other = mirror("status", "--user", "bob")
        assert "there is no terminal to ask for the password of bob" in other.err
        monkeypatch.setenv("MIRROR_CONNECT_PASSWORD", "another")
        assert mirror("status").code == 2

    def test_a_login_in_the_url_works_and_is_not_shown(self, guarded: Served, mirror: Mirror) -> None:
        url = guarded.url.replace("http://", "http://ada:hunter22@")
        assert mirror("status", "--worker", url).code == 0
        done = mirror("status", "nope", "--worker", url)
        assert (done.code, "hunter22" in done.err, guarded.url in done.err) == (2, False, True)
