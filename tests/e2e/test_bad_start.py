"""A worker that can't start says why in its last line, with what to do, ends with a code that means something, and soon."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer

from deploy.local import LocalCluster

pytestmark = pytest.mark.brokers

WRONG_SETTINGS, MACHINE, CLUSTER = 2, 3, 4
PASSWORD: Final = "right-horse-battery"
WRONG_PASSWORD: Final = "wrong-staple-correct"
NOBODY: Final = "127.0.0.1:1"
EXTENSION: Final = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
LIMIT_S: Final = 360.0


@dataclass(frozen=True)
class Ended:
    """How a worker ended."""

    code: int
    said: str

    @property
    def last_line(self) -> str:
        """What a user looks at first."""
        return self.said.rstrip().splitlines()[-1]

    def because(self, code: int, *words: str) -> None:
        """Asserts the exit code, the words in the last line, and that neither a stack trace nor a password was shown."""
        assert (self.code, self.last_line.startswith("mirror-connect: ")) == (code, True), self.said
        assert [word for word in words if word not in self.last_line] == []
        assert "Traceback" not in self.said, self.said
        assert PASSWORD not in self.said
        assert WRONG_PASSWORD not in self.said


def launch(
    file: Path, environment: Mapping[str, str], *program: str, within: Sequence[str] = ()
) -> subprocess.Popen[str]:
    """`within`: a command that runs the rest of its arguments."""
    return subprocess.Popen(
        [*within, sys.executable, *(program or ("-m", "mirror_connect.app")), str(file)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "MIRROR_CONNECT_LOG_LEVEL": "DEBUG", **environment},
    )


def ended(process: subprocess.Popen[str], seconds: float = LIMIT_S) -> Ended:
    try:
        said = process.communicate(timeout=seconds)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        pytest.fail(f"the worker hangs: {process.communicate()[1][-2000:]}")
    return Ended(process.returncode, said)


def properties(bootstrap: str, **changes: str | None) -> dict[str, str]:
    """Minimal worker properties; a dot in a name is written `__`, None takes a property out."""
    found = {
        "bootstrap.servers": bootstrap,
        "group.id": "bad-start",
        "config.storage.topic": "bad-configs",
        "offset.storage.topic": "bad-offsets",
        "status.storage.topic": "bad-status",
        "listeners": "http://127.0.0.1:0",
        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    }
    for prefix in ("config", "offset", "status"):
        found[f"{prefix}.storage.replication.factor"] = "1"
    given = {name.replace("__", "."): value for name, value in changes.items()}
    return {name: value for name, value in {**found, **given}.items() if value is not None}


def written(directory: Path, given: Mapping[str, str]) -> Path:
    file = directory / "worker.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    return file


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., Ended]:
    """`start(properties, VARIABLE=value)` runs a worker to its end."""

    def run(given: Mapping[str, str], **environment: str) -> Ended:
        return ended(launch(written(tmp_path, given), environment))

    return run


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalCluster]:
    """A cluster that wants a login."""
    with LocalCluster("strict", listeners=["SASL_PLAINTEXT"], users={"worker": PASSWORD}) as cluster:
        yield cluster


def login(broker: LocalCluster, password: str = PASSWORD, **changes: str | None) -> dict[str, str]:
    return properties(
        broker.bootstrap_servers,
        security__protocol="SASL_PLAINTEXT",
        sasl__mechanism="PLAIN",
        sasl__jaas__config="org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="worker" password="{password}";',
        **changes,
    )


# Settings.


def test_without_a_properties_file_the_usage_is_shown() -> None:
    done = subprocess.run([sys.executable, "-m", "mirror_connect.app"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (WRONG_SETTINGS, "usage: connect-distributed.sh worker.properties\n")


def test_a_properties_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    ended(launch(tmp_path / "no.properties", {})).because(WRONG_SETTINGS, f"{tmp_path}/no.properties", "No such file")


def test_a_directory_instead_of_a_properties_file_is_named(tmp_path: Path) -> None:
    ended(launch(tmp_path, {})).because(WRONG_SETTINGS, str(tmp_path), "Is a directory")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param({"group__id": None}, ("group.id",), id="group_missing"),
        pytest.param({"key__converter": None}, ("key.converter",), id="converter_missing", marks=pytest.mark.long),
        pytest.param(
            {"session__timeout__ms": "soon"}, ("session.timeout.ms", "soon"), id="no_number", marks=pytest.mark.long
        ),
        pytest.param(
            {"listeners": "ftp://here:1"}, ("listeners", "ftp"), id="listener_protocol", marks=pytest.mark.long
        ),
        pytest.param({"security__protocol": "SECRET"}, ("security.protocol", "SECRET"), id="security_protocol"),
        pytest.param(
            {"security__protocol": "SASL_PLAINTEXT", "sasl__mechanism": "PLAIN", "sasl__jaas__config": PASSWORD},
            ("sasl.jaas.config",),
            id="login_that_is_none",
        ),
        pytest.param(
            {
                "config__providers": "file",
                "config__providers__file__class": "org.apache.kafka.common.config.provider.FileConfigProvider",
                "client__id": "${file:/nowhere/secrets.properties:key}",
            },
            ("/nowhere/secrets.properties",),
            id="file_of_a_provider",
        ),
    ],
)
def test_a_wrong_setting_is_named(
    start: Callable[..., Ended], changes: dict[str, str | None], words: tuple[str, ...]
) -> None:
    start(properties(NOBODY, **changes)).because(WRONG_SETTINGS, *words)


# This machine.


def test_a_login_file_that_is_not_there_is_named(start: Callable[..., Ended], tmp_path: Path) -> None:
    option = f"-Djava.security.auth.login.config={tmp_path}/jaas.conf"
    found = start(properties(NOBODY, rest__extension__classes=EXTENSION), KAFKA_OPTS=option)
    found.because(MACHINE, f"{tmp_path}/jaas.conf", "No such file")


@pytest.mark.long
def test_a_users_file_that_is_not_there_is_named(start: Callable[..., Ended], tmp_path: Path) -> None:
    jaas = tmp_path / "jaas.conf"
    module = EXTENSION.replace("BasicAuthSecurityRestExtension", "PropertyFileLoginModule")
    jaas.write_text(f'KafkaConnect {{\n  {module} required\n  file="{tmp_path}/users";\n}};\n')
    option = f"-Djava.security.auth.login.config={jaas}"
    found = start(properties(NOBODY, rest__extension__classes=EXTENSION), KAFKA_OPTS=option)
    found.because(MACHINE, f"{tmp_path}/users", "No such file")


@pytest.mark.long
def test_basic_auth_without_a_login_file_says_how_to_name_one(start: Callable[..., Ended]) -> None:
    found = start(properties(NOBODY, rest__extension__classes=EXTENSION), KAFKA_OPTS="")
    found.because(MACHINE, "KAFKA_OPTS", "-Djava.security.auth.login.config=")


def test_a_port_in_use_is_named(start: Callable[..., Ended]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = start(properties(NOBODY, listeners=f"http://127.0.0.1:{port}"))
    found.because(MACHINE, f"127.0.0.1:{port}", "in use", "listeners")


def test_a_machine_without_java_is_told_what_to_install(
    start: Callable[..., Ended], broker: LocalCluster, tmp_path: Path
) -> None:
    start(login(broker), PATH=str(tmp_path), JAVA_HOME="").because(MACHINE, "java", "PATH", "17")


@pytest.mark.long
def test_a_java_home_without_java_is_named(start: Callable[..., Ended], broker: LocalCluster, tmp_path: Path) -> None:
    start(login(broker), JAVA_HOME=str(tmp_path)).because(MACHINE, f"JAVA_HOME={tmp_path}", "17")


def test_a_java_that_is_too_old_is_named(start: Callable[..., Ended], broker: LocalCluster, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.21\" 2023-10-17' >&2\n")
    java.chmod(0o755)
    start(login(broker), JAVA_HOME=str(tmp_path)).because(MACHINE, str(java), "Java 11", "17")


# Namespaces of its own: whoever may make them may mount in them, root or not, and nothing is left of it afterwards.
OWN_MOUNTS: Final = (
    ("unshare", "--user", "--map-root-user", "--mount"),
    ("unshare", "--mount"),
)


@pytest.fixture
def with_tiny(tmp_path: Path) -> tuple[Path, Sequence[str]]:
    """A directory, and a command that runs another one for which that is a file system with room for 4 MiB."""
    directory = tmp_path / "tiny"
    directory.mkdir()
    mounted = ("sh", "-c", 'mount -t tmpfs -o size=4m tmpfs "$0" && exec "$@"', str(directory))
    for own in OWN_MOUNTS:
        with contextlib.suppress(FileNotFoundError):
            if subprocess.run([*own, *mounted, "true"], capture_output=True, check=False).returncode == 0:
                return directory, (*own, *mounted)
    pytest.skip("this machine lets nobody but root mount a file system, not even in a namespace of one's own")


def test_a_temporary_directory_without_room_is_named(
    broker: LocalCluster, tmp_path: Path, with_tiny: tuple[Path, Sequence[str]]
) -> None:
    tiny, within = with_tiny
    found = ended(launch(written(tmp_path, login(broker)), {"TMPDIR": str(tiny)}, within=within))
    found.because(MACHINE, str(tiny), "4 MiB", "TMPDIR")


# Its cluster.


def test_wrong_credentials_are_told_at_once(start: Callable[..., Ended], broker: LocalCluster) -> None:
    found = start(login(broker, WRONG_PASSWORD))
    found.because(CLUSTER, broker.bootstrap_servers, "sasl.mechanism PLAIN", "user worker", "Authentication failed")


# test_group_membership.py has the refusal, and tests/unit/app/group how long it is waited for.
@pytest.mark.long
def test_a_group_that_a_consumer_holds_is_named(tmp_path: Path, broker: LocalCluster) -> None:
    broker.create_topic("read")
    with_topics = {name: f"held-{name}" for name in ("config", "offset", "status")}
    for name, topic in with_topics.items():
        # With the topics there already, the group is joined beside other steps.
        broker.create_topic(topic, config={"cleanup.policy": "compact"}, partitions=1 if name == "config" else 2)
    changes = {f"{name}__storage__topic": topic for name, topic in with_topics.items()}
    consumer = Consumer({**broker.librdkafka("worker"), "group.id": "held"})
    consumer.subscribe(["read"])
    while not consumer.assignment():
        consumer.poll(0.2)
    try:
        # The shortest session that brokers take: for so long it may be one that was killed.
        held = {"group__id": "held", "session__timeout__ms": "6000", "heartbeat__interval__ms": "2000"}
        # Both at the same time, as each waits for as long.
        waiting = []
        for name, given in (("made", login(broker, **held)), ("there", login(broker, **held, **changes))):
            (tmp_path / name).mkdir()
            waiting.append(launch(written(tmp_path / name, given), {}))
        for each in [ended(process) for process in waiting]:
            each.because(CLUSTER, "group.id held is in use", "set another group.id", "waited 9 s")
    finally:
        consumer.close()


def test_a_cluster_that_stays_away_is_named(tmp_path: Path) -> None:
    # The same worker with less patience: a minute of waiting proves nothing more.
    hasty = "from mirror_connect.app import __main__, worker; worker.UNREACHABLE_GIVE_UP_S = 1.0; __main__.main()"
    file = written(tmp_path, properties(NOBODY))
    ended(launch(file, {}, "-c", hasty)).because(CLUSTER, NOBODY, "refused", "bootstrap.servers", "brokers run")
