"""The pages of docs/guide, followed: every command in its order, with two clusters of this machine (guide_pages.py)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import pytest

from deploy.local import LocalCluster, free_port
from deploy.local.connect import ConnectWorker, DedicatedMirrorMaker
from tests.brokers import commit, committed, messages, started
from tests.e2e.ends import end_offsets, wait_ends
from tests.e2e.guide_pages import GUIDE, Follower
from tests.e2e.identity_topics import produce
from tests.e2e.product import PATIENCE_S, mirror_config
from tests.e2e.reading import values
from tests.e2e.users_shell import Shell, Started
from tests.paths import ROOT
from tests.waiting import wait_for, wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

GROUP, TOPIC, REMOTE, BACK = "shop-1", "orders", "A.orders", "B.orders"
PARTITIONS: Final = range(3)
# Some time in 2020: MirrorMaker 1 keeps timestamps.
BEGAN_MS: Final = 1_600_000_000_000
DEDICATED: Final = "dedicated"
MM2_SETTINGS: Final = {
    "topics": DEDICATED,
    "refresh.topics.interval.seconds": "1",
    "B.offset.flush.interval.ms": "1000",
}
VERIFIED: Final = re.compile(r"[Ee]qual")


@dataclass
class Walk:
    """Clusters A and B, the shell, and the worker once a page has started it."""

    a: LocalCluster
    b: LocalCluster
    shell: Shell
    rest: httpx.Client
    worker: Started | None = None

    def wait_running(self, *names: str) -> None:
        """Until these connectors have tasks, and all of them are RUNNING."""
        assert self.worker is not None
        worker = self.worker

        def running() -> bool:
            worker.check_alive()
            found = self.rest.get("/connectors?expand=status").json()
            states = [found.get(name, {}).get("status") for name in names]
            parts = [[each["connector"], *each["tasks"]] for each in states if each]
            return len(parts) == len(names) and all(
                len(each) > 1 and {part["state"] for part in each} == {"RUNNING"} for each in parts
            )

        wait_for_state(running, f"{names} are running", PATIENCE_S)

    def lag(self, said: str, topic: str) -> int:
        """LAG of all partitions, as kafka-consumer-groups.sh prints it."""
        rows = [line.split() for line in said.splitlines()]
        # Where the group has read nothing there is no offset to lead it to, and the tool has a dash.
        lags = [row[5] for row in rows if row[:2] == [GROUP, topic]]
        assert lags, f"{GROUP} has no offsets in {topic}: {said}"
        return sum(int(each) for each in lags if each != "-")

    def wait_group(self, cluster: LocalCluster, topic: str, total: int) -> None:
        """Until the group has committed offsets in each partition, which are `total` in sum."""
        wait_for(
            lambda: sum(committed(cluster, GROUP, topic, PARTITIONS).values()) == total,
            f"{GROUP} has read {total} of {topic} on {cluster.name}",
            PATIENCE_S,
        )

    def read_to_end(self, cluster: LocalCluster, pattern: str, *topics: str) -> int:
        """What the group's consumer reads of all topics that match, until it has committed their ends."""
        address = cluster.bootstrap_servers
        consumer = self.shell.start(
            f"kafka-console-consumer.sh --bootstrap-server {address} --include '{pattern}' --group {GROUP} "
            "--from-beginning --command-property metadata.max.age.ms=1000"
        )
        ends = {topic: end_offsets(cluster, topic) for topic in topics}

        def at_end() -> bool:
            consumer.check_alive()
            return all(committed(cluster, GROUP, topic, PARTITIONS) == ends[topic] for topic in topics)

        wait_for(at_end, f"{GROUP} has read {ends}", PATIENCE_S)
        consumer.interrupt()
        return consumer.output().count("\n")

    def produce(self, cluster: LocalCluster, first: int, last: int) -> None:
        self.shell.run(
            f"seq {first} {last} | kafka-console-producer.sh --bootstrap-server {cluster.bootstrap_servers} --topic orders"
        )


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    """The clusters, and a checkout whose samples name them."""
    directory = tmp_path_factory.mktemp("guide")
    a, b = LocalCluster("A"), LocalCluster("B")
    with ExitStack() as stack:
        stack.enter_context(started(a, b))
        port = free_port()
        places = {
            "localhost:9192": a.bootstrap_servers,
            "localhost:9092": b.bootstrap_servers,
            "localhost:8083": f"127.0.0.1:{port}",
            "127.0.0.1:8083": f"127.0.0.1:{port}",
        }
        shell = stack.enter_context(Shell(directory, places))
        shell.copy((ROOT / "deploy" / "sample").iterdir(), "deploy/sample")
        (directory / ".cache").symlink_to(ROOT / ".cache")
        rest = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=90)
        stack.callback(rest.close)
        yield Walk(a, b, shell, rest)


@pytest.fixture(scope="module")
def linked(walk: Walk) -> Walk:
    """A copies to B, as from-nothing.md makes it: 1,000 records, of which the group has read 600 on A."""
    page = Follower("from-nothing", walk.shell)
    assert "Created topic orders." in page.run("kafka TopicCommand")
    page.run("seq 1 1000 | kafka")
    walk.worker = page.start("bin/connect-distributed.sh")

    def answers() -> bool:
        try:
            return walk.rest.get("/connectors").is_success
        except httpx.TransportError:
            return False

    wait_for_state(answers, "the worker answers", PATIENCE_S)
    page.run("curl -X PUT")
    walk.wait_running("mirror-source")
    assert {task["state"] for task in json.loads(page.run("curl -s"))["tasks"]} == {"RUNNING"}
    assert sorted(map(int, page.run("kafka consumer.ConsoleConsumer").split())) == list(range(1, 1001))
    assert VERIFIED.search(page.run(".venv/bin/mirror-connect verify"))
    page.run("curl -X PUT")
    page.run("curl -X PUT")
    page.run("kafka consumer.ConsoleConsumer")
    walk.wait_running("mirror-heartbeat")
    walk.wait_group(walk.b, REMOTE, 600)
    assert walk.lag(page.run("kafka consumer.group.ConsumerGroupCommand"), REMOTE) == 400
    page.close()
    return walk


def test_from_nothing_ends_with_a_mirrored_topic_and_group(linked: Walk) -> None:
    assert end_offsets(linked.b, REMOTE) == end_offsets(linked.a, TOPIC)
    linked.wait_running("mirror-source", "mirror-checkpoint", "mirror-heartbeat")


# A broker is killed in it, and a dozen of Kafka's tools are started.
@pytest.mark.long
def test_failover_and_fail_back_skip_nothing_and_repeat_nothing(linked: Walk) -> None:
    a, b = linked.a, linked.b
    page = Follower("failover", linked.shell)
    page.run("kafka-topics.sh")

    # Planned: the group reads the other 400 on A, and nothing is left to read on B.
    assert linked.read_to_end(a, "orders", TOPIC) == 400
    assert linked.lag(page.run("kafka-consumer-groups.sh"), TOPIC) == 0
    assert "not copied yet" not in page.run(".venv/bin/mirror-connect verify")
    linked.wait_group(b, REMOTE, 1000)
    assert linked.lag(page.run("kafka-consumer-groups.sh"), REMOTE) == 0
    page.run("curl -X PUT")
    linked.produce(b, 1001, 1100)
    both = r"^([A-Z]\.)?orders$"
    assert linked.read_to_end(b, both, TOPIC, REMOTE) == 100

    # A is gone: the status says so. It comes back with its records.
    a.kill()
    status = page.page.commands[page.page.commands.index(next(each for each in page.page.commands if "jq -r" in each))]
    page.run("curl -s")
    wait_for_state(lambda: a.bootstrap_servers in linked.shell.run(status), "the trace names A", PATIENCE_S)
    a.start()
    linked.produce(a, 1101, 1110)
    wait_ends(b, REMOTE, end_offsets(a, TOPIC))

    # Fail-back, by a link in the other direction.
    page.run("curl -X PUT")
    page.run("curl -X PUT")
    assert linked.read_to_end(b, both, TOPIC, REMOTE) == 10
    said = page.run("kafka-consumer-groups.sh")
    assert linked.lag(said, TOPIC) == linked.lag(said, REMOTE) == 0
    linked.wait_running("back-source", "back-checkpoint")
    wait_ends(a, BACK, end_offsets(b, TOPIC))
    for _ in range(2):
        assert "not copied yet" not in page.run(".venv/bin/mirror-connect verify")
    linked.wait_group(a, BACK, 100)
    assert linked.lag(page.run("kafka-consumer-groups.sh"), BACK) == 0
    page.run("kafka-consumer-groups.sh")
    linked.produce(a, 1111, 1115)
    assert linked.read_to_end(a, both, TOPIC, BACK) == 5
    for begins in ("curl -X PUT", "curl -X DELETE", "curl -X DELETE"):
        page.run(begins)
    page.close()
    linked.wait_running("mirror-source", "mirror-checkpoint")


def test_the_folder_of_a_topology_makes_its_connectors(linked: Walk) -> None:
    folder, names = "active-active", ("west-to-east", "east-to-west")
    linked.shell.places |= {
        "west-kafka:9092": linked.a.bootstrap_servers,
        "east-kafka:9092": linked.b.bootstrap_servers,
    }
    linked.shell.copy((GUIDE / "topologies" / folder).glob("*.json"), folder)
    for cluster in (linked.a, linked.b):
        cluster.create_topic("new-orders")
    page = Follower("topologies", linked.shell)
    page.run("for file in *.json", folder=folder)
    page.close()
    linked.wait_running(*names)
    wait_for(lambda: end_offsets(linked.a, "east.new-orders"), "east's orders are on west", PATIENCE_S)
    wait_for(lambda: end_offsets(linked.b, "west.new-orders"), "west's orders are on east", PATIENCE_S)
    for name in names:
        assert linked.rest.delete(f"/connectors/{name}").is_success
    assert not end_offsets(linked.a, "east.west.new-orders")


# A dozen of programs start in it.
@pytest.mark.long
def test_a_connector_goes_on_where_mirror_maker_1_has_committed(linked: Walk) -> None:
    """What MirrorMaker 1 leaves is a topic of the same name and a group on the source: both are made here by hand."""
    a, b, topic = linked.a, linked.b, "clicks"
    for cluster, last in ((a, 150), (b, 100)):
        # Or a broker that looks for what is too old would take them away, half a minute after its start.
        cluster.create_topic(topic, config={"retention.ms": "-1"})
        rows = ({"value": b"%d" % number, "partition": 0, "timestamp": BEGAN_MS + number} for number in range(last))
        produce(cluster, topic, rows)
    commit(a, "mirror-maker-group", topic, 100)
    page = Follower("from-mirrormaker1", linked.shell)
    for _ in range(2):
        assert "PartitionCount: 1" in page.run("kafka-topics.sh")
    for begins in (
        "kafka-consumer-groups.sh",
        "curl -X POST",
        "kafka-consumer-groups.sh",
        "curl -X PATCH",
        "curl -X PUT",
    ):
        page.run(begins)
    wait_ends(b, topic, {0: 150})
    page.run("curl -s")
    assert "not copied yet" not in page.run(".venv/bin/mirror-connect verify")
    page.close()
    assert values(b, topic, 1) == [[b"%d" % number for number in range(150)]]


# Java starts three times in it, and our programs twice.
@pytest.mark.long
@pytest.mark.mm2
def test_a_consumer_reads_on_while_connect_is_replaced_and_comes_back(walk: Walk, tmp_path: Path) -> None:
    a, b, topic, remote = walk.a, walk.b, "billing", "A.billing"
    a.create_topic(topic, 3)
    java = ConnectWorker(b, {"offset.flush.interval.ms": "1000"}, group="moved", heap="512m")
    with ExitStack() as stack:
        stack.callback(java.close)
        places = {"localhost:8083": java.rest_url.removeprefix("http://")}
        shell = stack.enter_context(Shell(tmp_path, places))
        page = Follower("from-mirrormaker2", shell)
        file = "".join(f"{name}={value}\n" for name, value in java.properties.items())
        shell.write("connect-distributed.properties", file)

        def copy(first: int) -> None:
            """The next hundred records, until they are on the target and their source offsets are committed."""
            shell.run(
                f"seq {first} {first + 99} | kafka-console-producer.sh "
                f"--bootstrap-server {a.bootstrap_servers} --topic {topic}"
            )
            wait_ends(b, remote, end_offsets(a, topic))
            last = sum(end - 1 for end in end_offsets(a, topic).values() if end)
            rest = f"{java.rest_url}/connectors/mirror-source/offsets"

            def stored() -> bool:
                found = httpx.get(rest, timeout=30).json()["offsets"]
                return sum(int(each["offset"]["offset"]) for each in found) == last

            wait_for(stored, "the source offsets are committed", PATIENCE_S)

        java.start()
        config = mirror_config(a, b, topic)
        wait_for_state(
            lambda: java.request("PUT", "/connectors/mirror-source/config", config)[0] in (200, 201), "it is created"
        )
        java.wait_running("mirror-source")
        copy(1)
        reader = shell.start(
            f"kafka-console-consumer.sh --bootstrap-server {b.bootstrap_servers} --topic {remote} "
            "--group invoices --from-beginning"
        )
        mm2 = DedicatedMirrorMaker(a, b, MM2_SETTINGS, aliases=("A", "B"), heap="512m")
        stack.callback(mm2.close)
        shell.write("mm2.properties", "".join(f"{name}={value}\n" for name, value in mm2.properties.items()))
        for begins in (
            ".venv/bin/mirror-connect check http",
            ".venv/bin/mirror-connect check mm2",
            ".venv/bin/mirror-connect verify",
        ):
            page.run(begins)
        shell.places["PID"] = str(java.process.pid)
        page.run("kill PID")
        wait_for_state(lambda: not java.process.alive, "Java has ended", PATIENCE_S)
        ours = page.start("bin/connect-distributed.sh")
        running = f"curl -sf {java.rest_url}/connectors/mirror-source/tasks/0/status | grep RUNNING"
        wait_for_state(lambda: shell.run(f"{running} || true"), "our task is running", PATIENCE_S)
        copy(101)
        assert "mirror-source" in json.loads(page.run("curl -s"))
        page.run(".venv/bin/mirror-connect verify")
        shell.places["PID"] = str(ours.process.pid)
        page.run("kill PID")
        assert ours.wait_ended() == 0
        java.start()
        copy(201)
        java.stop()
        wait_for(lambda: reader.output().count("\n") >= 300, "the consumer has read everything", PATIENCE_S)
        reader.interrupt()
        assert sorted(map(int, reader.output().split())) == list(range(1, 301))
        replace_dedicated(walk, shell, page, mm2)
        page.close()


def replace_dedicated(walk: Walk, shell: Shell, page: Follower, java: DedicatedMirrorMaker) -> None:
    """The second half of from-mirrormaker2.md, up to its last command."""
    a, b, topic = walk.a, walk.b, DEDICATED
    a.create_topic(topic)
    shell.places["'orders.*'"] = f"'{topic}.*'"

    def copy(first: int) -> None:
        produce(a, topic, ({"value": b"%d" % number, "partition": 0} for number in range(first, first + 100)))
        wait_ends(b, f"A.{topic}", {0: first + 100})

        def stored() -> bool:
            found = [
                message.value()
                for partition in end_offsets(b, "mm2-offsets.A.internal")
                for message in messages(b, "mm2-offsets.A.internal", partition, isolation="read_committed")
            ]
            return b'{"offset":%d}' % (first + 99) in found

        wait_for(stored, "the source offset is committed", PATIENCE_S)

    java.start()
    copy(0)
    shell.places["PID"] = str(java.process.pid)
    page.run("kill PID")
    wait_for_state(lambda: not java.process.alive, "Java has ended", PATIENCE_S)
    ours = page.start("bin/connect-mirror-maker.sh")
    copy(100)
    page.run(".venv/bin/mirror-connect verify --source")
    assert ours.terminate() == 0
    assert values(b, f"A.{topic}", 1) == [[b"%d" % number for number in range(200)]]
