"""The commands of guides that users follow work here, as written but for hosts and paths (background_commands.py)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import httpx
import pytest

from deploy.demo.run_directory import fill_in
from deploy.demo.steps import USERS_1, USERS_2
from deploy.local import Listener, LocalCluster, free_port
from tests.brokers import commit, committed, started
from tests.e2e import background_commands as told
from tests.e2e.ends import end_offsets, wait_ends
from tests.e2e.identity_topics import produce
from tests.e2e.users_shell import Shell, Started
from tests.waiting import wait_for, wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

GROUP, REMOTE, HELLO = "my-cg", "kafka-1.test", "Hello, Kafka!"
TODAY: Final = {row.command: row.today for row in told.COMMANDS}
CONNECTORS: Final = [f"mirror-{kind}-connector" for kind in ("checkpoint", "heartbeat", "source")]
PATIENCE_S: Final = 360.0
# Of the guides, but for groups: their "*" is no regular expression, and Kafka refuses it, too.
VENDORS_FILE: Final = """clusters = <source_cluster_alias>, <target_cluster_alias>
<target_cluster_alias>.bootstrap.servers = hostname1:9092,hostname2:9092,hostname3:9092
<source_cluster_alias>.bootstrap.servers = hostname4:9092,hostname5:9092,hostname6:9092
<source_cluster_alias>-><target_cluster_alias>.enabled = true
topics =<test_topic_name>
groups = .*
sync.topic.acls.enabled = false
emit.heartbeats.interval.seconds = 5
refresh.topics.interval.seconds = 1
"""
GEO_FILE: Final = "clusters = primary, secondary\nprimary->secondary.enabled = true"
TWO_WAYS_FILE: Final = "clusters = us-west, us-east\nus-west->us-east.enabled = true\nus-east->us-west.enabled = true"
LOCATIONS: Final = ("west", "east", "north")
LOCATIONS_FILE: Final = "\n".join(
    (
        "clusters: west-1, west-2, east-1, east-2, north-1, north-2",
        *(f"{each}-1->{each}-2.enabled = true\n{each}-2->{each}-1.enabled = true" for each in LOCATIONS),
        *(f"{a}-1->{b}-1.enabled = true" for a in LOCATIONS for b in LOCATIONS if a != b),
    )
)
ALIASES: Final = ("primary", "secondary", "us-west", "us-east", *(f"{each}-{n}" for each in LOCATIONS for n in (1, 2)))
# What the guides expect three brokers for.
ONE_BROKER: Final = "".join(
    f"{name}replication.factor = 1\n"
    for name in (
        "",
        *(f"{each}.topic." for each in ("offset-syncs", "checkpoints", "heartbeats")),
        *(f"{each}.storage." for each in ("config", "offset", "status")),
    )
)


@dataclass
class Desk:
    """Both clusters, and a shell in which localhost and hostname are one of them."""

    clusters: dict[str, LocalCluster]
    shell: Shell
    rest: httpx.Client

    def at(self, cluster: str, listener: str = "SASL_PLAINTEXT") -> dict[str, str]:
        """Hosts as they are in that cluster's container."""
        address = self.clusters[cluster].bootstrap(listener)
        port = address.rpartition(":")[2]
        hosts = ("localhost:9092", "hostname:9092", "dc1-kafka:9092")
        return {**dict.fromkeys(hosts, address), "/dev/tcp/127.0.0.1/9092": f"/dev/tcp/127.0.0.1/{port}"}

    def address(self, cluster: str) -> str:
        """Where it takes connections without a login."""
        return self.clusters[cluster].bootstrap("PLAINTEXT")

    def run(self, command: str, cluster: str, listener: str = "SASL_PLAINTEXT", typed: str = "") -> str:
        return self.shell.run(TODAY[command], self.at(cluster, listener), typed=typed)

    def consume(self, command: str, cluster: str, topic: str) -> Started:
        """A console consumer, once its group has a committed offset in both partitions."""
        consumer = self.shell.start(TODAY[command], self.at(cluster))

        def joined() -> bool:
            consumer.check_alive()
            return len(committed(self.clusters[cluster], GROUP, topic, range(2))) == 2

        wait_for_state(joined, f"{GROUP} reads {topic}", PATIENCE_S)
        return consumer

    def wait_running(self, without_tasks: str) -> None:
        """Until the three connectors and their tasks are RUNNING; one may have no task yet."""

        def running() -> bool:
            found = self.rest.get("/connectors?expand=status").json()
            parts = {name: [each["status"]["connector"], *each["status"]["tasks"]] for name, each in found.items()}
            return sorted(parts) == CONNECTORS and all(
                {part["state"] for part in each} == {"RUNNING"} and (len(each) > 1 or name == without_tasks)
                for name, each in parts.items()
            )

        wait_for_state(running, f"{CONNECTORS} are running", PATIENCE_S)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """The article's two clusters, its files as deploy/demo has them, and nothing started but the brokers."""
    directory = tmp_path_factory.mktemp("desk")
    listeners = [Listener.SASL_PLAINTEXT, Listener.PLAINTEXT]
    clusters = {
        "kafka1": LocalCluster("kafka-1", listeners=listeners, users=USERS_1),
        "kafka2": LocalCluster("kafka-2", listeners=listeners, users=USERS_2),
    }
    with ExitStack() as stack:
        stack.enter_context(started(*clusters.values()))
        port = free_port()
        hosts = {"KAFKA1": clusters["kafka1"].bootstrap_servers, "KAFKA2": clusters["kafka2"].bootstrap_servers}
        fill_in(directory, {**hosts, "PORT": str(port)})
        # The article waits for two minutes, because these are 60 s.
        checkpoint = directory / "connectors" / "mirror-checkpoint-connector.json"
        checkpoint.write_text(checkpoint.read_text().replace('"60"', '"1"'))
        places = {
            "/opt/kafka/config/connect.properties": f"{directory}/connect.properties",
            "/opt/kafka/config/client.properties": f"{directory}/client.properties",
            "/opt/kafka/custom-scripts/": f"{directory}/",
            "/opt/kafka/bin/": f"{directory}/bin/",
            "/usr/lib/kafka/bin/": f"{directory}/bin/",
            "http://localhost:8083": f"http://127.0.0.1:{port}",
        }
        login = {
            "CONNECT_REST_API": f"http://127.0.0.1:{port}",
            "CONNECT_USERNAME": "init",
            "CONNECT_PASSWORD": "init-secret",
            "CONNECT_ADVERTISED_HOST": "127.0.0.1",
            "KAFKA_OPTS": f"-Djava.security.auth.login.config={directory}/restapi-jaas.conf",
        }
        shell = stack.enter_context(Shell(directory, places, login))
        shell.write(
            "client.properties",
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="admin" password="admin-secret";\n',
        )
        (directory / "deploy-connectors.sh").chmod(0o755)
        rest = httpx.Client(base_url=places["http://localhost:8083"], auth=("init", "init-secret"), timeout=30)
        stack.callback(rest.close)
        yield Desk(clusters, shell, rest)


@pytest.fixture(scope="module")
def worker(desk: Desk) -> Iterator[Started]:
    """What the article's containers run: topics, worker, connectors, and the health of all."""
    for cluster in ("kafka1", "kafka2"):
        desk.run(told.BROKER_HEALTH, cluster)
        assert "Created topic test." in desk.run(told.CREATE, cluster)
    worker = desk.shell.start(TODAY[told.WORKER])
    said = desk.shell.run(TODAY[told.DEPLOY])
    assert said.count("HTTP/1.1 201 Created") == len(CONNECTORS), said
    assert "[INFO] Finished deploying the connectors" in said
    desk.shell.run(TODAY[told.WORKER_HEALTH])
    yield worker
    assert worker.terminate() == 0


# `make demo` goes the same way up to the failover (test_demo.py), and test_guide.py starts a link by a page's commands.
@pytest.mark.long
def test_the_demo_of_the_article_works_command_by_command(desk: Desk, worker: Started) -> None:
    source, target = desk.clusters["kafka1"], desk.clusters["kafka2"]
    desk.wait_running(without_tasks="mirror-checkpoint-connector")
    wait_for(lambda: end_offsets(target, REMOTE), "the remote topic is there", PATIENCE_S)

    # Replication: what comes to kafka-1 while the consumer reads kafka-2.
    consumer = desk.consume(told.CONSUME_BOTH, "kafka2", REMOTE)
    desk.run(told.PRODUCE, "kafka1")
    wait_for(lambda: HELLO in consumer.text(), "the record is printed", PATIENCE_S)
    consumer.interrupt()
    assert consumer.text().count(HELLO) == 1

    # Failover: the group reads on kafka-1, more is produced, and it goes on where it was on kafka-2.
    consumer = desk.consume(told.CONSUME_TEST, "kafka1", "test")
    desk.run(told.PRODUCE, "kafka1")
    wait_for(lambda: HELLO in consumer.text(), "the record is printed", PATIENCE_S)
    consumer.interrupt()
    there = committed(source, GROUP, "test", range(2))
    assert sum(there.values()) == 2
    desk.run(told.PRODUCE, "kafka1")
    wait_ends(target, REMOTE, end_offsets(source, "test"))
    wait_for(lambda: committed(target, GROUP, REMOTE, range(2)) == there, f"{GROUP} is at {there}", PATIENCE_S)
    ends = end_offsets(target, REMOTE)
    consumer = desk.shell.start(TODAY[told.CONSUME_BOTH], desk.at("kafka2"))
    wait_for(lambda: committed(target, GROUP, REMOTE, range(2)) == ends, f"{GROUP} has read to {ends}", PATIENCE_S)
    consumer.interrupt()
    assert consumer.text().count(HELLO) == 1
    worker.check_alive()


# It starts Spark once more, and six of Kafka's tools.
@pytest.mark.long
def test_the_vendors_tools_show_the_replica(desk: Desk) -> None:
    desk.shell.places |= {
        "<test_topic_name>": "guided",
        "<source_cluster_alias>": "dc-1",
        "<target_cluster_alias>": "dc-2",
    }
    hosts = {f"hostname{number}:9092": desk.address("kafka2" if number < 4 else "kafka1") for number in range(1, 7)}
    desk.shell.places |= hosts
    desk.shell.write("mm2.properties", VENDORS_FILE + ONE_BROKER)
    mirror_maker = desk.shell.start(TODAY[told.MM2_VENDOR])
    assert "Created topic guided." in desk.run(told.CREATE_SOURCE, "kafka1", "PLAINTEXT")
    desk.run(told.PRODUCE_SOURCE, "kafka1", "PLAINTEXT", typed="one\ntwo\n")
    mirror_maker.wait_copied(desk.clusters["kafka2"], "dc-1.guided", 2)
    internal = {f"mm2-{what}.dc-1.internal" for what in ("configs", "offsets", "status")}
    assert {"dc-1.guided", *internal} <= set(desk.run(told.LIST, "kafka2", "PLAINTEXT").split())
    consumer = desk.shell.start(TODAY[told.CONSUME_REPLICA], desk.at("kafka2", "PLAINTEXT"))
    wait_for(lambda: consumer.output().count("\n") >= 2, f"both records are printed; {consumer.text()}", PATIENCE_S)
    consumer.interrupt()
    assert consumer.output() == "one\ntwo\n"
    commit(desk.clusters["kafka1"], "KafkaMirror", "guided", 1)
    lag = desk.run(told.OFFSET_CHECKER, "kafka1", "PLAINTEXT").split()
    assert lag[lag.index("KafkaMirror") :][:6] == ["KafkaMirror", "guided", "0", "1", "2", "1"]
    assert mirror_maker.terminate() == 0


# Each starts Spark once more.
@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "file", "source", "target"),
    [
        pytest.param(told.MM2, GEO_FILE, "primary", "secondary", id="all_flows"),
        pytest.param(told.MM2_NEAR, GEO_FILE, "primary", "secondary", id="near_a_cluster"),
        pytest.param(told.MM2_US_WEST, TWO_WAYS_FILE, "us-east", "us-west", id="on_two_lines"),
        *(
            pytest.param(command, LOCATIONS_FILE, f"{name}-1", f"{name}-2", id=f"near_two_clusters_{name}")
            for command, name in zip(told.MM2_LOCATIONS, ("west", "east", "north"), strict=True)
        ),
    ],
)
def test_a_dedicated_process_copies_until_it_is_killed(
    desk: Desk, command: str, file: str, source: str, target: str
) -> None:
    topic = f"geo-{source}"
    desk.clusters["kafka1"].create_topic(topic)
    produce(desk.clusters["kafka1"], topic, [{"value": b"seen", "partition": 0}])
    brokers = {alias: "kafka2" if alias == target or alias.endswith("-2") else "kafka1" for alias in ALIASES}
    addresses = [f"{alias}.bootstrap.servers = {desk.address(brokers[alias])}" for alias in ALIASES if alias in file]
    topics = [f"topics = {topic}", "refresh.topics.interval.seconds = 1"]
    text = "\n".join((file.strip(), *addresses, *topics, ONE_BROKER))
    desk.shell.write("connect-mirror-maker.properties", text)
    mirror_maker = desk.shell.start(TODAY[command])
    mirror_maker.wait_copied(desk.clusters["kafka2"], f"{source}.{topic}", 1)
    desk.shell.run(TODAY[told.KILL], {"<MirrorMaker pid>": str(mirror_maker.process.pid)})
    assert mirror_maker.wait_ended() == 0
