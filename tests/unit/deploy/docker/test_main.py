"""What a container becomes, by its arguments and variables."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from deploy.docker import __main__ as entry
from deploy.docker.conventions import Mistake
from tests.paths import ROOT
from tests.unit.deploy.docker.test_conventions import CONFLUENT, DEBEZIUM


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An image with all scripts."""
    shutil.copytree(ROOT / "bin", tmp_path / "bin")
    monkeypatch.setattr(entry, "HOME", tmp_path)
    monkeypatch.setattr(entry, "CONFLUENTS_FILE", tmp_path / "kafka-connect.properties")
    return tmp_path


def started(home: Path, *arguments: str, **environment: str) -> list[str]:
    command = entry.plan(arguments, environment, home).command
    return [each.removeprefix(f"{home}/") for each in command]


@pytest.mark.parametrize("arguments", [(), ("run",), ("start",)])
@pytest.mark.parametrize("variables", [CONFLUENT, DEBEZIUM])
def test_variables_start_a_worker(home: Path, arguments: tuple[str, ...], variables: dict[str, str]) -> None:
    file = "mirror-connect-container/worker.properties"
    assert started(home, *arguments, **variables) == ["bin/connect-distributed.sh", file]
    assert (home / file).exists()


def test_only_confluents_convention_waits_for_brokers(home: Path) -> None:
    assert entry.plan((), CONFLUENT, home).await_brokers == "broker:29092"
    assert entry.plan((), DEBEZIUM, home).await_brokers == ""


def test_a_mounted_file_of_confluents_place_is_the_default(home: Path) -> None:
    (home / "kafka-connect.properties").write_text("group.id=g")
    assert started(home) == ["bin/connect-distributed.sh", "kafka-connect.properties"]


def test_without_anything_the_ways_are_named(home: Path) -> None:
    with pytest.raises(Mistake, match="set CONNECT_BOOTSTRAP_SERVERS and the others"):
        started(home)


@pytest.mark.parametrize(
    ("text", "more", "script"),
    [
        pytest.param("group.id=g", [], "connect-distributed.sh", id="worker"),
        pytest.param("clusters = A, B", [], "connect-mirror-maker.sh", id="dedicated"),
        pytest.param("clusters=A,B", ["--clusters", "B"], "connect-mirror-maker.sh", id="dedicated_with_options"),
        pytest.param("key.converter=x", ["source.json"], "connect-standalone.sh", id="standalone"),
        pytest.param("offset.storage.file.filename=/f", [], "connect-standalone.sh", id="standalone_by_rest"),
        pytest.param("group.id=g\noffset.storage.file.filename=/f", [], "connect-distributed.sh", id="both"),
    ],
)
def test_a_properties_file_says_what_it_is_for(home: Path, text: str, more: list[str], script: str) -> None:
    file = home / "any.properties"
    file.write_text(text)
    assert started(home, str(file), *more) == [f"bin/{script}", "any.properties", *more]


def test_a_file_that_can_not_be_read_is_named(home: Path) -> None:
    with pytest.raises(Mistake, match=r"none\.properties: No such file"):
        started(home, str(home / "none.properties"))


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        pytest.param(("verify", "--help"), ["bin/mirror-connect", "verify", "--help"], id="own_command"),
        pytest.param(("--version",), ["bin/mirror-connect", "--version"], id="option"),
        pytest.param(("bash", "-c", "true"), ["bash", "-c", "true"], id="shell"),
        pytest.param(("/opt/kafka/bin/x.sh", "y"), ["/opt/kafka/bin/x.sh", "y"], id="path"),
    ],
)
def test_other_arguments_are_a_command(home: Path, arguments: tuple[str, ...], command: list[str]) -> None:
    assert started(home, *arguments) == command


Usage = namedtuple("Usage", "free")


ROOM, NONE = 1 << 30, 5 << 20


@pytest.mark.parametrize(
    ("free", "read_only", "chosen"),
    [
        pytest.param({"tmp": ROOM, "prepared": ROOM}, [], "tmp", id="room_in_tmp"),
        pytest.param({"tmp": NONE, "prepared": ROOM}, [], "prepared", id="strimzis_small_tmp"),
        pytest.param({"tmp": NONE, "prepared": NONE}, [], "tmp", id="room_nowhere"),
        pytest.param({"tmp": ROOM, "prepared": ROOM}, ["tmp"], "prepared", id="tmp_is_read_only"),
        pytest.param({"named": ROOM, "tmp": ROOM}, ["prepared"], "named", id="named"),
        pytest.param({"named": ROOM, "tmp": ROOM}, ["named"], "tmp", id="the_named_one_is_read_only"),
    ],
)
def test_scratch_files_go_where_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: dict[str, int], read_only: list[str], chosen: str
) -> None:
    monkeypatch.setattr(entry, "TMP", tmp_path / "tmp")
    monkeypatch.setattr(entry.shutil, "disk_usage", lambda path: Usage(free[path.name]))
    monkeypatch.setattr(entry.os, "access", lambda path, _: path.name not in read_only)
    environment = {"TMPDIR": str(tmp_path / "named")} if "named" in free else {}
    assert entry.scratch_directory(environment, tmp_path / "prepared") == tmp_path / chosen


def test_where_nothing_can_be_written_the_places_to_mount_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry.os, "access", lambda *_: False)
    with pytest.raises(Mistake, match="mount a volume at /tmp or /var/lib/mirror-connect"):
        entry.scratch_directory({})


def test_brokers_are_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert entry.wait_for_brokers(f"127.0.0.1:1,PLAINTEXT://127.0.0.1:{port}", 5)
    assert not entry.wait_for_brokers(f"127.0.0.1:{port}", 0)


@pytest.mark.parametrize(("given", "seconds"), [("", 40), ("7", 7), ("0.5", 0.5)])
def test_the_variable_says_how_long_brokers_are_waited_for(given: str, seconds: float) -> None:
    assert entry._patience_s({"CONNECT_CUB_KAFKA_TIMEOUT": given}) == seconds


def test_a_time_that_is_no_number_is_named_where_it_counts_and_stops_nothing_else() -> None:
    with pytest.raises(Mistake, match=r"^CONNECT_CUB_KAFKA_TIMEOUT=abc is no number of seconds"):
        entry._patience_s({"CONNECT_CUB_KAFKA_TIMEOUT": "abc"})
    done = subprocess.run(
        [sys.executable, "-m", "deploy.docker", "true"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "CONNECT_CUB_KAFKA_TIMEOUT": "abc"},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0


def test_the_variable_of_the_waiting_is_not_called_one_without_effect(home: Path) -> None:
    variables = {**CONFLUENT, "CONNECT_CUB_KAFKA_TIMEOUT": "7", "CONNECT_CUB_KAFKA_MIN_BROKERS": "1"}
    notes = entry.plan((), variables, home).notes
    assert ("CONNECT_CUB_KAFKA_MIN_BROKERS" in notes[-1], "TIMEOUT" in notes[-1]) == (True, False)


def test_a_mistake_is_one_line_and_exit_code_2() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "deploy.docker"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "CONNECT_GROUP_ID": "g"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("mirror-connect: CONNECT_BOOTSTRAP_SERVERS, CONNECT_CONFIG_STORAGE_TOPIC")
