"""The tool that starts clusters for tests, demo and benchmarks: every listener, restarts, kills, and nothing left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from deploy.local import Listener, LocalCluster, LocalError, start_all
from deploy.local.free_ports import free_port, give_back
from deploy.local.java_process import BROKER, class_archive
from deploy.local.kafka_tools import run_tool
from tests.paths import ROOT

pytestmark = pytest.mark.brokers
LOGINS = [
    pytest.param(Listener.SASL_PLAINTEXT, "PLAIN", id="plain"),
    pytest.param(Listener.SASL_PLAINTEXT, "SCRAM-SHA-256", id="scram_256"),
    pytest.param(Listener.SASL_PLAINTEXT, "SCRAM-SHA-512", id="scram_512", marks=pytest.mark.long),
    pytest.param(Listener.SASL_SSL, "PLAIN", id="plain_over_tls"),
    pytest.param(Listener.SSL, "", id="client_certificate"),
]
SASL = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "admin",
    "sasl.password": "admin-secret",
}
TOPIC_COMMAND = "org.apache.kafka.tools.TopicCommand"
LIST = ["--bootstrap-server", "{bootstrap}", "--command-config", "{config}", "--list"]


@pytest.fixture(scope="module")
def guarded() -> Iterator[LocalCluster]:
    """Every listener, an authorizer, and a topic that only super users may see."""
    with LocalCluster(
        "guarded",
        listeners=list(Listener),
        # A password with what JAAS, .properties files and Latin-1 each have to escape.
        users={"alice": 'a"l\\ice =ü€', "nobody": "nobody-secret"},
        mechanisms=["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"],
        authorizer=True,
        super_users=["alice", "CN=client"],
        tls_client_auth="required",
    ) as cluster:
        cluster.create_topic("orders")
        yield cluster


def topics(settings: Mapping[str, object]) -> set[str]:
    return set(AdminClient(dict(settings)).list_topics(timeout=60).topics)


def write(cluster: LocalCluster, topic: str, value: bytes) -> None:
    producer = Producer(cluster.librdkafka())
    producer.produce(topic, value, partition=0)
    assert producer.flush(60) == 0


def read(cluster: LocalCluster, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({**cluster.librdkafka(), "group.id": "reader", "auto.offset.reset": "earliest"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [message.value() for message in consumer.consume(count, timeout=60)]
    finally:
        consumer.close()


@pytest.mark.parametrize(("listener", "mechanism"), LOGINS)
def test_librdkafka_logs_in_and_is_allowed(guarded: LocalCluster, listener: Listener, mechanism: str) -> None:
    assert "orders" in topics(guarded.librdkafka("alice", listener, mechanism or None))


# Each is a start of Java, and most tests of this folder log in as one of these.
@pytest.mark.long
@pytest.mark.parametrize(("listener", "mechanism"), LOGINS)
def test_java_client_properties_log_in_and_are_allowed(
    guarded: LocalCluster, listener: Listener, mechanism: str, tmp_path: Path
) -> None:
    properties = guarded.client_properties("alice", listener, mechanism or None)
    assert run_tool(TOPIC_COMMAND, LIST, properties=properties, directory=tmp_path).split() == ["orders"]


@pytest.mark.parametrize(
    ("listener", "user"),
    [
        pytest.param(Listener.SASL_PLAINTEXT, "nobody", id="a_user_without_rights"),
        pytest.param(Listener.PLAINTEXT, None, id="an_anonymous_client"),
    ],
)
def test_authorizer_hides_topics_from(guarded: LocalCluster, listener: Listener, user: str | None) -> None:
    assert "orders" not in topics(guarded.librdkafka(user, listener))


def test_wrong_password_is_refused(guarded: LocalCluster) -> None:
    settings = guarded.librdkafka("alice", Listener.SASL_PLAINTEXT) | {"sasl.password": "wrong"}
    with pytest.raises(KafkaException) as caught:
        AdminClient(settings).list_topics(timeout=3)
    assert caught.value.args[0].code() == KafkaError._TRANSPORT


def test_no_password_is_in_the_arguments_of_a_process_or_in_a_repr(guarded: LocalCluster) -> None:
    told = " ".join(psutil.Process(guarded.brokers[0].pid).cmdline()) + repr(guarded) + repr(guarded.brokers)
    assert not [secret for secret in ("nobody-secret", 'a"l\\ice', "password=") if secret in told]


# Tests that kill and suspend brokers find all of this out, too.
@pytest.mark.long
def test_data_and_ports_outlive_stop_and_kill() -> None:
    with LocalCluster("restarted") as cluster:
        before = cluster.bootstrap_servers
        cluster.create_topic("kept")
        write(cluster, "kept", b"one")
        cluster.brokers[0].restart()
        write(cluster, "kept", b"two")
        cluster.brokers[0].kill()
        assert not cluster.brokers[0].alive
        cluster.start()
        assert (read(cluster, "kept", 2), cluster.bootstrap_servers) == ([b"one", b"two"], before)


@pytest.mark.long
def test_suspended_broker_answers_again_when_resumed(source_cluster_of_own: LocalCluster) -> None:
    broker = source_cluster_of_own.brokers[0]
    broker.suspend()
    with pytest.raises(KafkaException):
        AdminClient(source_cluster_of_own.librdkafka()).list_topics(timeout=1)
    broker.resume()
    assert AdminClient(source_cluster_of_own.librdkafka()).list_topics(timeout=60).brokers.keys() == {1}


@pytest.fixture
def source_cluster_of_own() -> Iterator[LocalCluster]:
    with LocalCluster("suspended") as cluster:
        yield cluster


# Files that need three brokers have them go on without one of them, too.
@pytest.mark.long
def test_three_brokers_go_on_without_one_of_them() -> None:
    with LocalCluster("three", 3, heap="256m") as cluster:
        cluster.create_topic("spread", 3, replication=3)
        cluster.brokers[0].kill()
        producer = Producer(cluster.librdkafka())
        for partition in range(3):
            producer.produce("spread", b"value", partition=partition)
        assert producer.flush(60) == 0


@pytest.mark.long
def test_directory_that_was_given_is_kept_and_opened_again(tmp_path: Path) -> None:
    with LocalCluster("kept", directory=tmp_path / "kept") as cluster:
        cluster.create_topic("old")
        write(cluster, "old", b"value")
        identity = cluster.cluster_id
    with LocalCluster("kept", directory=tmp_path / "kept") as again:
        assert (again.cluster_id, read(again, "old", 1)) == (identity, [b"value"])


def test_dump_log_shows_batches_and_records(source_cluster: LocalCluster, topic_name: Callable[[str], str]) -> None:
    topic = topic_name("dumped")
    source_cluster.create_topic(topic)
    write(source_cluster, topic, b"the value")
    dump = source_cluster.dump_log(topic, 0)
    assert ("baseOffset: 0" in dump, "payload: the value" in dump) == (True, True)


def test_a_broker_maps_the_archive_of_its_classes(source_cluster: LocalCluster) -> None:
    """Java says nothing of one that it doesn't take; each start would take twice the processor time."""
    mapped = {Path(region.path) for region in psutil.Process(source_cluster.brokers[0].pid).memory_maps()}
    assert class_archive(BROKER) in mapped


def test_deleted_topic_is_gone(source_cluster: LocalCluster, topic_name: Callable[[str], str]) -> None:
    topic = topic_name("deleted")
    source_cluster.create_topic(topic, 3, {"cleanup.policy": "compact"})
    source_cluster.delete_topic(topic)
    assert topic not in topics(source_cluster.librdkafka())


@pytest.mark.long
def test_broker_property_that_kafka_refuses_is_told_in_one_line() -> None:
    with pytest.raises(LocalError, match=r"broker 1 of refused did not start: .*num\.io\.threads"):
        LocalCluster("refused", properties={"num.io.threads": "none"}).__enter__()


@pytest.mark.long
def test_closing_removes_processes_and_files() -> None:
    clusters = [LocalCluster("first"), LocalCluster("second")]
    start_all(*clusters)
    pids = [cluster.brokers[0].pid for cluster in clusters]
    for cluster in clusters:
        cluster.close()
    assert ([pid for pid in pids if psutil.pid_exists(pid)], [c for c in clusters if c.directory.exists()]) == ([], [])


def test_nothing_survives_a_kill_of_the_process_that_started_it() -> None:
    script = (
        "from deploy.local import LocalCluster; import time; c = LocalCluster('orphan').start();"
        "print(c.brokers[0].pid, c.directory, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid, directory = process.stdout.readline().split()
        process.kill()
    assert until(lambda: not psutil.pid_exists(int(pid)) and not Path(directory).exists())


# The demo ends in the same ways.
@pytest.mark.long
def test_command_line_stays_until_ctrl_c_and_leaves_nothing() -> None:
    port = free_port()
    give_back(port)
    command = [sys.executable, "-m", "deploy.local", "up", f"by-hand:{port}", "--sasl"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            said = [process.stdout.readline() for _ in range(3)]
            directory = Path(said[1].split(": ")[1].strip()).parent
            assert said[0].split()[1] == f"127.0.0.1:{port}"
            settings = {"bootstrap.servers": f"localhost:{port}"} | SASL
            assert AdminClient(settings).list_topics(timeout=60).brokers.keys() == {1}
            os.killpg(process.pid, signal.SIGINT)
            assert (process.wait(60), directory.exists()) == (0, False)
        finally:
            process.kill()


@pytest.mark.long
def test_a_port_that_is_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "deploy.local", "up", f"by-hand:{port}"]
        said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    line = f"port {port} on 127.0.0.1 is in use: choose another one, or end what listens there\n"
    assert (said.returncode, said.stderr) == (1, line)


def test_what_is_no_port_is_named() -> None:
    command = [sys.executable, "-m", "deploy.local", "up", "by-hand:kafka"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (said.returncode, "'kafka' is no port: give a number from 1 to 65535" in said.stderr) == (2, True)


def until(condition: Callable[[], bool], seconds: float = 180.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True
