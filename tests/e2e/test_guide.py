"""The pages of docs/guide, followed: every command in its order, with two clusters of this machine (guide_pages.py)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import httpx
import pytest

from deploy.local import LocalCluster, free_port
from tests.brokers import commit, committed, started
from tests.e2e.ends import end_offsets, wait_ends
from tests.e2e.guide_pages import GUIDE, Follower
from tests.e2e.identity_topics import produce
from tests.e2e.product import PATIENCE_S
from tests.e2e.reading import values
from tests.e2e.users_shell import Shell, Started
from tests.paths import ROOT
from tests.waiting import wait_for, wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

GROUP, TOPIC, REMOTE, BACK = "shop-1", "orders", "A.orders", "B.orders"
PARTITIONS: Final = range(3)
# Some time in 2020: MirrorMaker 1 keeps timestamps.
BEGAN_MS: Final = 1_600_000_000_000
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
        for folder in (".venv", ".cache"):
            (directory / folder).symlink_to(ROOT / folder)
        rest = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30)
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
    assert "not copied yet" not in page.run("mirror-connect verify")
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
        assert "not copied yet" not in page.run("mirror-connect verify")
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


def test_a_connector_goes_on_where_mirror_maker_1_has_committed(linked: Walk) -> None:
    """What MirrorMaker 1 leaves is a topic of the same name and a group on the source: both are made here by hand."""
    a, b, topic = linked.a, linked.b, "clicks"
    for cluster, last in ((a, 150), (b, 100)):
        cluster.create_topic(topic)
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
    assert "not copied yet" not in page.run("mirror-connect verify")
    page.close()
    assert values(b, topic, 1) == [[b"%d" % number for number in range(150)]]
