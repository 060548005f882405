"""What this machine lacks is told in one line that names it and says what to do."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from mirror_connect.app.environment import OPEN_FILES, allow_open_files, check_java, check_scratch, listen_on
from mirror_connect.app.errors import StartupError


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def fake_java(home: Path, script: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return java


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    return tmp_path


def answers(version: str, *modules: str) -> str:
    listed = "".join(f"{module}@{version}\\n" for module in ("java.base", *modules))
    return f"""case $1 in -version) echo 'openjdk version "{version}" 2024-01-01' >&2;; *) printf '{listed}';; esac"""


@pytest.mark.parametrize("version", ["17.0.9", "21", "25-ea"])
def test_java_that_spark_can_use_is_fine(home: Path, version: str) -> None:
    fake_java(home, answers(version, "java.management", "jdk.incubator.vector"))
    check_java()


RELEASE = 'IMPLEMENTOR="Somebody"\nJAVA_VERSION="{}"\nMODULES="java.base {} java.xml"\n'


def test_java_is_not_run_if_its_release_file_says_enough(home: Path) -> None:
    fake_java(home, "exit 1")
    (home / "release").write_text(RELEASE.format("17.0.15", "jdk.incubator.vector"))
    check_java()


@pytest.mark.parametrize(
    ("version", "module"),
    [("11.0.2", "jdk.incubator.vector"), ("21", "jdk.incubator.vector.not"), ("", "jdk.incubator.vector")],
)
def test_java_is_asked_where_its_release_file_does_not_promise_enough(home: Path, version: str, module: str) -> None:
    java = fake_java(home, answers("17.0.9", "jdk.incubator.foreign"))
    (home / "release").write_text(RELEASE.format(version, module))
    with pytest.raises(StartupError, match=rf"^{java} has no module jdk.incubator.vector, "):
        check_java()


def test_java_without_the_module_that_spark_adds(home: Path) -> None:
    java = fake_java(home, answers("17.0.9", "jdk.incubator.vector.not", "jdk.incubator.foreign"))
    with pytest.raises(StartupError, match=rf"^{java} has no module jdk.incubator.vector, .+ install a whole JDK"):
        check_java()


def test_java_is_found_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    java = fake_java(tmp_path, answers("17.0.1", "jdk.incubator.vector"))
    monkeypatch.setenv("PATH", f"{java.parent}:{os.environ['PATH']}")
    check_java()


def test_no_java_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(StartupError, match=r"^No java on the PATH: install Java 17 or newer"):
        check_java()


def test_no_java_in_java_home(home: Path) -> None:
    with pytest.raises(StartupError, match=rf"^No java in JAVA_HOME={home}: install Java 17 or newer"):
        check_java()


@pytest.mark.parametrize(("said", "version"), [("1.8.0_392", "8"), ("11.0.2", "11")])
def test_java_that_is_too_old(home: Path, said: str, version: str) -> None:
    fake_java(home, f"""echo 'java version "{said}"' >&2""")
    with pytest.raises(StartupError, match=rf"bin/java is Java {version}, but Spark needs Java 17 or newer"):
        check_java()


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        pytest.param("exit 1", r"-version does not work \(CalledProcessError\)", id="fails"),
        pytest.param("echo nonsense", "is Java unknown, but Spark needs Java 17", id="says_nothing"),
    ],
)
def test_java_that_is_broken(home: Path, script: str, complaint: str) -> None:
    fake_java(home, script)
    with pytest.raises(StartupError, match=complaint):
        check_java()


def test_java_that_cannot_be_executed(home: Path) -> None:
    (home / "bin" / "java").parent.mkdir()
    (home / "bin" / "java").write_bytes(b"\x00not a program")
    (home / "bin" / "java").chmod(0o755)
    with pytest.raises(StartupError, match=r"-version does not work \(OSError\)"):
        check_java()


def test_too_little_room_for_scratch_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1 << 30, (1 << 30) - (5 << 20), 5 << 20))
    with pytest.raises(StartupError, match=rf"^{tmp_path} has 5 MiB free, but Spark's scratch files need 64 MiB"):
        check_scratch()


def test_no_temporary_directory_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere/at/all")
    with pytest.raises(StartupError, match=r"^No temporary directory can be used .*: set TMPDIR to one that can"):
        check_scratch()


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield int(listener.getsockname()[1])


def test_a_port_in_use(taken: int) -> None:
    expected = (
        rf"^Can't listen on 127.0.0.1:{taken} \(Address already in use\): end what uses it or change listeners\.$"
    )
    with pytest.raises(StartupError, match=expected):
        listen_on("127.0.0.1", taken, "listeners")


def test_a_host_that_has_no_address() -> None:
    with pytest.raises(StartupError, match=r"^Can't listen on no-such-host.invalid:8083 \(.+\): change listeners\.$"):
        listen_on("no-such-host.invalid", 8083, "listeners")


def test_an_address_of_another_machine() -> None:
    with pytest.raises(StartupError, match=r"^Can't listen on 192.0.2.1:8083 \(.+\): change listeners\.$"):
        listen_on("192.0.2.1", 8083, "listeners")


def test_a_free_port_is_listened_on() -> None:
    with listen_on("127.0.0.1", 0, "listeners") as listener, socket.create_connection(listener.getsockname()):
        assert listener.gettimeout() == 0


@pytest.mark.parametrize("without", [False, True], ids=["as_it_is", "without_ipv6"])
def test_without_a_host_every_address_is_listened_on(monkeypatch: pytest.MonkeyPatch, without: bool) -> None:
    dual = socket.has_dualstack_ipv6()
    if without:
        monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    with listen_on("", 0, "listeners") as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), 20):
            pass
        if dual and not without:
            with socket.create_connection(("::1", port), 20):
                pass


def test_without_a_host_a_port_in_use_is_named(taken: int) -> None:
    with pytest.raises(StartupError, match=rf"^Can't listen on \*:{taken} \(Address already in use\)"):
        listen_on("", taken, "listeners")


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_an_address_of_ipv6_is_listened_on() -> None:
    with listen_on("::1", 0, "listeners") as listener, socket.create_connection(listener.getsockname()[:2], 20):
        assert listener.family is socket.AF_INET6


def test_as_many_files_may_be_open_as_the_machine_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, tuple[int, int]]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda what, limits: told.append((what, limits)))
    allow_open_files()
    assert told == [(resource.RLIMIT_NOFILE, (4096, 4096))]


@pytest.mark.parametrize("soft", [OPEN_FILES, OPEN_FILES + 1, resource.RLIM_INFINITY])
def test_a_process_that_may_open_enough_is_left_alone(monkeypatch: pytest.MonkeyPatch, soft: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: pytest.fail("changed"))
    allow_open_files()


def test_without_a_limit_of_the_machine_there_is_one_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: told.append(limits))
    allow_open_files()
    assert told == [(OPEN_FILES, resource.RLIM_INFINITY)]


def test_a_crash_leaves_no_memory_behind_also_of_what_the_worker_starts() -> None:
    child = (
        "import resource; print(resource.getrlimit(resource.RLIMIT_CORE), open('/proc/self/coredump_filter').read())"
    )
    script = (
        "import subprocess, sys; from mirror_connect.app.environment import leave_no_core; leave_no_core();"
        f"print(subprocess.run([sys.executable, '-c', {child!r}], capture_output=True, text=True).stdout)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["(0,", "0)", "00000000"]
