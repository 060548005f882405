"""The command: exit codes, a table within 100 columns, JSON, one line for what is unreadable."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, cast

import javaproperties
import pytest

from mirror_connect.check import __main__ as check_main
from tests.paths import ROOT

FIXTURES = ROOT / "tests" / "fixtures" / "check"


COMMAND = (sys.executable, "-m", "mirror_connect.cli", "check")


def _check(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, cwd=ROOT, check=False, stdin=subprocess.DEVNULL
    )


def test_a_file_without_refusals_is_0_and_its_table_fits() -> None:
    done = _check(FIXTURES / "demo-heartbeat.json")
    assert (done.returncode, done.stderr) == (0, "")
    path, *table = done.stdout.splitlines()
    assert (path, max(map(len, table)) <= 100) == (str(FIXTURES / "demo-heartbeat.json"), True)
    assert "\x1b" not in done.stdout
    assert re.search(r"^different +11  emit\.heartbeat\.enabled = true +Unknown", done.stdout, re.MULTILINE)
    assert re.search(r"^same +2  name = mirror-heartbeat", done.stdout, re.MULTILINE)
    assert "11 settings: 0 refused, 2 different, 0 not judged, 9 same" in done.stdout


def test_a_file_with_refusals_is_1_and_quiet_leaves_out_what_is_the_same() -> None:
    done = _check("--quiet", FIXTURES / "msk-iam-source.json")
    assert done.returncode == 1
    assert "\nsame " not in done.stdout
    assert f"{sys.executable} -m mirror_connect.cli verify msk-iam-source --worker http://localhost:8083" in done.stdout


@pytest.mark.parametrize("on_path", [True, False])
def test_the_command_of_verify_begins_as_this_one_was_started(on_path: bool) -> None:
    directory = Path(sys.executable).parent
    path = f"{directory}{os.pathsep}" if on_path else ""
    command = "mirror-connect" if on_path else str(directory / "mirror-connect")
    done = subprocess.run(
        [command, "check", "--json", FIXTURES / "cloud-migration.mm2.properties"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PATH": f"{path}{os.defpath}"},
    )
    (link,) = json.loads(done.stdout)["links"]
    assert link["verify"].startswith(f"{command} verify ")
    assert link["verify"].count(f"<({command} check ") == 2


def test_json_of_several_files() -> None:
    done = _check("--json", FIXTURES / "demo-heartbeat.json", FIXTURES / "transforms-source.json")
    assert done.returncode == 0
    assert [each["refused"] for each in json.loads(done.stdout)] == [0, 0]


def test_what_is_unreadable_or_no_worker_is_2_and_one_line(tmp_path: Path) -> None:
    for argument, text in (
        (tmp_path / "none", "Could not read the file"),
        ("http://127.0.0.1:1", "it can't be reached"),
        ("http://", "it names no host"),
        (ROOT / "Makefile", "neither connector.class nor clusters nor group.id"),
    ):
        done = _check(argument)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert text in done.stderr
    for wrong in ((), ("--nope", "x"), ("http://127.0.0.1:1", "--user", "ann")):
        done = _check(*wrong)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_client_properties_of_a_cluster_are_printed_as_a_file_has_them(tmp_path: Path) -> None:
    file = FIXTURES / "cloud-migration.mm2.properties"
    done = _check(file, "--client", "cloud")
    assert (done.returncode, done.stderr) == (0, "")
    assert javaproperties.loads(done.stdout)["sasl.mechanism"] == "PLAIN"
    for wrong in ((file, "--client", "moon"), (FIXTURES / "demo-heartbeat.json", "--client", "cloud")):
        done = _check(*wrong)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    said: str


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Done]]:
    """The command in this process."""

    def run(*arguments: str | Path) -> Done:
        monkeypatch.setattr(sys, "argv", ["check", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            check_main.main()
        said = capsys.readouterr()
        return Done(cast("int", ended.value.code), said.out, said.err)

    yield run
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        pytest.param("http://[::1", "the URL: it is not valid", id="a_url_that_is_none"),
        pytest.param("http://user:hush@", "the URL: it names no host", id="a_login_without_a_host"),
        pytest.param("http://user:hu#hush@host:1", "the URL: it is not valid", id="a_number_sign_in_a_password"),
        pytest.param("http://127.0.0.1:1/#hush@host:1", "http://127.0.0.1:1: it can't be reached", id="behind_a_path"),
    ],
)
def test_a_url_that_can_not_be_used_is_2_and_its_password_is_in_no_line(
    command: Callable[..., Done], argument: str, text: str
) -> None:
    done = command(argument)
    assert (done.code, done.out, done.said.count("\n")) == (2, "", 1)
    assert done.said.startswith(f"mirror-connect: {text}")
    assert "hu" not in done.said


def test_a_name_in_yaml_that_is_a_list_is_2_and_its_line(command: Callable[..., Done], tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("kind: KafkaConnect\n? [a]\n: b\n")
    done = command(file)
    assert (done.code, done.said) == (
        2,
        f"mirror-connect: Could not read the file {file}: a name must be text, on line 2\n",
    )


def test_an_unexpected_error_is_2_with_its_trace(command: Callable[..., Done], monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(*_: object) -> NoReturn:
        raise IndexError

    monkeypatch.setattr(check_main, "check_file", bug)
    done = command("x")
    assert (done.code, done.out) == (2, "")
    assert done.said.endswith("\nmirror-connect: check ended because of an unexpected error, IndexError\n")


def test_one_that_is_unreadable_is_in_its_place_and_the_others_are_checked(
    command: Callable[..., Done], tmp_path: Path
) -> None:
    missing, good = tmp_path / "none", FIXTURES / "demo-heartbeat.json"
    done = command("--json", missing, good)
    first, second = json.loads(done.out)
    assert (done.code, first["checked"], second["checked"]) == (2, str(missing), str(good))
    assert done.said == f"mirror-connect: {first['unreadable']}\n"


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    for name in ("cloud-migration.mm2.properties", "transforms-source.json"):
        done = subprocess.run(
            ["bash", "-c", f'"$0" -m mirror_connect.cli check --json <(cat {FIXTURES / name})', sys.executable],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=ROOT,
            check=False,
        )
        assert sum(len(part["properties"]) for part in json.loads(done.stdout)["parts"]) > 5, done.stderr


PROVIDERS = """config.providers = env
config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider
"""


def test_client_properties_need_only_what_their_own_cluster_refers_to(
    command: Callable[..., Done], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "mm2.properties"
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required username=u password=${env:%s};"
    of_clusters = "".join(
        f"{alias}.bootstrap.servers = {alias}:1\n{alias}.sasl.jaas.config = {login % alias}\n" for alias in "AB"
    )
    file.write_text(f"clusters = A, B\nA->B.enabled = true\n{PROVIDERS}{of_clusters}")
    monkeypatch.setenv("A", "hush")
    monkeypatch.delenv("B", raising=False)
    readable, other = command(file, "--client", "A"), command(file, "--client", "B")
    assert (readable.code, "password\\=hush" in readable.out or "password=hush" in readable.out) == (0, True)
    assert (other.code, other.out) == (2, "")
    assert "sasl.jaas.config: the reference ${env:B} has no value" in other.said


@pytest.mark.parametrize(
    ("ended", "code"),
    [
        (0, 0),
        (1, 1),
        (2, 2),
        (-9, 2),
        (130, 2),
    ],
)
def test_the_exit_code_is_that_of_verify_and_never_0_if_it_was_killed(
    command: Callable[..., Done], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ended: int, code: int
) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text("clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n")
    started: list[list[str]] = []

    def verify(given: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        started.append(given)
        return subprocess.CompletedProcess(given, ended, stdout='{"a": 1}' if ended == 1 else '{"a')

    monkeypatch.setattr(subprocess, "run", verify)
    done = command("--verify", file)
    told = f"mirror-connect: A->B is not compared: verify ended with code {ended}\n"
    assert (done.code, done.said) == (code, told if ended not in (0, 1, 2) else "")
    assert started[0][:5] == [sys.executable, "-P", "-m", "mirror_connect.cli", "verify"]


# Rich writes colours as `ESC [ 3x m`; bold is none.
ANY_ESCAPE = re.compile(r"\x1b\[[\d;]*m")
COLOUR = re.compile(r"\x1b\[(?:\d+;)*3\d")


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [
        pytest.param({"TERM": "xterm"}, True, id="a_terminal"),
        pytest.param({"TERM": "xterm", "NO_COLOR": "1"}, False, id="no_color"),
        pytest.param({"TERM": "dumb"}, False, id="a_dumb_terminal"),
    ],
)
def test_a_terminal_has_colours_unless_it_or_its_user_wants_none(environment: dict[str, str], coloured: bool) -> None:
    own = {
        name: value
        for name, value in os.environ.items()
        if name not in ("NO_COLOR", "FORCE_COLOR", "TERM", "COLORTERM")
    }
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, str(FIXTURES / "demo-heartbeat.json")],
        stdout=theirs,
        stdin=subprocess.DEVNULL,
        env=own | environment,
    ) as process:
        os.close(theirs)
        shown = b""
        # The end of a terminal without writers is an error.
        with contextlib.suppress(OSError):
            while piece := os.read(ours, 4096):
                shown += piece
        os.close(ours)
    text = shown.decode()
    assert (process.returncode, "11 settings: 0 refused" in ANY_ESCAPE.sub("", text)) == (0, True)
    assert (COLOUR.search(text) is not None) is coloured
    assert "dumb" not in environment.values() or "\x1b" not in text


def test_an_interrupt_is_one_line_and_130() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with subprocess.Popen([*COMMAND, url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            silent.settimeout(60)
            connection, _ = silent.accept()
            connection.recv(1)
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=60)
            connection.close()
    assert (process.returncode, out, errors.strip()) == (130, "", "mirror-connect: interrupted")


def test_an_interrupt_while_the_command_is_loaded_is_one_line_and_130() -> None:
    # In the place of the command's module, whose import takes a second.
    program = (
        "import sys, signal; from mirror_connect.cli import __main__ as cli; from importlib import import_module\n"
    )
    program += "def load(name): signal.raise_signal(signal.SIGINT); return import_module(name)\n"
    program += "cli.import_module = load; sys.argv = ['mirror-connect', 'check', 'x']; cli.main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "mirror-connect: interrupted\n")
