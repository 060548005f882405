"""Topics that appear, grow, vanish and have other names: the running connector follows the source."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from deploy.local import LocalCluster
from tests.brokers import messages
from tests.e2e.ends import end_offsets, wait_ends
from tests.e2e.identity_topics import produce
from tests.e2e.product import TASK, Product, mirror_config
from tests.e2e.reading import batches, values
from tests.waiting import wait_for, wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
# refresh.topics.interval.seconds is 1 in these tests: this long, and what should have been done by a look was done.
SEVERAL_LOOKS_S = 3.5


@pytest.fixture(scope="module")
def third_cluster() -> Iterator[LocalCluster]:
    """A cluster of two brokers that creates a topic for whoever asks about one."""
    with LocalCluster("third", brokers=2, properties={"auto.create.topics.enable": "true"}) as cluster:
        yield cluster


@dataclass(frozen=True)
class Flow:
    """A connector of the shared worker, with the clusters it may copy between; deleted after its test."""

    product: Product
    connector: str
    source: LocalCluster
    target: LocalCluster


@pytest.fixture
def flow(
    product: Product, topic_name: Callable[[str], str], source_cluster: LocalCluster, target_cluster: LocalCluster
) -> Iterator[Flow]:
    """A connector that does not exist yet."""
    name = topic_name("follower")
    yield Flow(product, name, source_cluster, target_cluster)
    if product.status(name):
        product.delete(name)


def write(cluster: LocalCluster, topic: str, partitions: Sequence[int], text: str = "v") -> None:
    """A record into each of these partitions."""
    settings = {"topic.metadata.refresh.interval.ms": 500, "allow.auto.create.topics": False}
    produce(cluster, topic, [{"value": f"{text} {p}", "partition": p} for p in partitions], **settings)


def partition_count(cluster: LocalCluster, topic: str) -> int:
    """0 if there is no such topic; asking creates none."""
    known = cluster.admin().list_topics(timeout=60).topics
    return len(known[topic].partitions) if topic in known else 0


def statuses_written(product: Product, connector: str) -> list[bytes]:
    """Every status that was ever written of the connector's tasks."""
    prefix = f"status-task-{connector}-".encode()
    found = messages(product.cluster, f"{product.group}-status", 0)
    return [message.value() for message in found if message.key().startswith(prefix)]


def writers(cluster: LocalCluster, topic: str, partitions: int) -> set[tuple[int, int]]:
    """The producer ids and epochs behind the batches of a topic: a task that is started again gets another epoch."""
    return {batch.producer for partition in range(partitions) for batch in batches(cluster, topic, partition)}


@pytest.mark.kafka_test("MirrorConnectorsIntegrationBaseTest.testReplication")
def test_topics_and_partitions_join_the_running_task(
    flow: Flow,
    topic_name: Callable[[str], str],
) -> None:
    prefix = topic_name("joining")
    first, later = f"{prefix}-first", f"{prefix}-later"
    flow.source.create_topic(first, 2)
    flow.product.put(flow.connector, mirror_config(flow.source, flow.target, f"{prefix}-.*"))
    write(flow.source, first, range(2))
    wait_ends(flow.target, f"A.{first}", {0: 1, 1: 1})
    flow.product.wait_running(flow.connector)
    tasks, statuses = flow.product.pids(TASK), statuses_written(flow.product, flow.connector)

    flow.source.create_topic(later, 3)
    write(flow.source, later, range(3))
    wait_ends(flow.target, f"A.{later}", {0: 1, 1: 1, 2: 1})
    flow.source.grow_topic(first, 5)
    write(flow.source, first, range(5))
    wait_ends(flow.target, f"A.{first}", {0: 2, 1: 2, 2: 1, 3: 1, 4: 1})

    assert partition_count(flow.target, f"A.{first}") == 5
    assert partition_count(flow.target, f"A.{later}") == 3
    # Processes that other tests' tasks have left may end meanwhile; none begins.
    assert flow.product.pids(TASK) <= tasks
    assert statuses_written(flow.product, flow.connector) == statuses
    assert len(writers(flow.target, f"A.{first}", 5) | writers(flow.target, f"A.{later}", 3)) == 1


def test_tasks_max_deals_every_partition_to_one_of_the_tasks(
    flow: Flow,
    topic_name: Callable[[str], str],
) -> None:
    topics = [topic_name("dealt") for _ in range(2)]
    for topic in topics:
        flow.source.create_topic(topic, 4)
        write(flow.source, topic, range(4))
    config = mirror_config(flow.source, flow.target, ",".join(topics), tasks_max="3")
    flow.product.put(flow.connector, config)
    flow.product.wait_running(flow.connector, tasks=3)
    for topic in topics:
        wait_ends(flow.target, f"A.{topic}", dict.fromkeys(range(4), 1))

    tasks = flow.product.call("GET", f"/connectors/{flow.connector}/tasks")
    dealt = [task["config"]["task.assigned.partitions"].split(",") for task in tasks]
    assert sorted(itertools.chain.from_iterable(dealt)) == sorted(
        f"{topic}-{partition}" for topic in topics for partition in range(4)
    )
    assert sorted(map(len, dealt)) == [2, 3, 3]
    assert [values(flow.target, f"A.{topic}", 4) for topic in topics] == [
        values(flow.source, topic, 4) for topic in topics
    ]


def test_only_what_is_asked_for_is_copied(
    flow: Flow,
    topic_name: Callable[[str], str],
) -> None:
    prefix = topic_name("chosen")
    wanted = [f"{prefix}-a", f"{prefix}-b-internal"]
    unwanted = [
        f"{prefix}-excluded",
        f"not-{prefix}-a",  # a pattern matches whole names only
        f"__{prefix}",
        f"mm2-offset-syncs.{prefix}.internal",
        f"{prefix}.checkpoints.internal",
        f"B.{prefix}-a",  # it came from the target
    ]
    for topic in (*wanted, *unwanted):
        flow.source.create_topic(topic)
        write(flow.source, topic, [0])
    topics = f"{prefix}.*,__{prefix},mm2-offset-syncs.*{prefix}.*,B.{prefix}.*"
    config = mirror_config(flow.source, flow.target, topics, topics_exclude=f"{prefix}-excl.*,__consumer.*")
    flow.product.put(flow.connector, config)
    for topic in wanted:
        wait_ends(flow.target, f"A.{topic}", {0: 1})
    time.sleep(SEVERAL_LOOKS_S)
    there = {topic for topic in flow.target.admin().list_topics(timeout=60).topics if prefix in topic}
    assert there == {f"A.{topic}" for topic in wanted}


@pytest.mark.kafka_test("IdentityReplicationIntegrationTest.testReplication")
@pytest.mark.parametrize(
    ("settings", "remote"),
    [
        pytest.param({"replication_policy_class": IDENTITY}, "{}", id="identity_keeps_the_name"),
        pytest.param({"replication_policy_separator": "_"}, "A_{}", id="separator_of_ones_own"),
    ],
)
def test_the_policy_names_the_remote_topic(
    flow: Flow,
    topic_name: Callable[[str], str],
    settings: dict[str, str],
    remote: str,
) -> None:
    topic = topic_name("named")
    flow.source.create_topic(topic, 2)
    write(flow.source, topic, range(2), "by name")
    flow.product.put(flow.connector, mirror_config(flow.source, flow.target, topic, **settings))
    wait_ends(flow.target, remote.format(topic), {0: 1, 1: 1})
    there = [name for name in flow.target.admin().list_topics(timeout=60).topics if name.endswith(topic)]
    assert there == [remote.format(topic)]


def test_a_topic_deleted_at_the_source_is_not_created_again_and_disturbs_no_other(
    flow: Flow,
    third_cluster: LocalCluster,
    topic_name: Callable[[str], str],
) -> None:
    prefix = topic_name("vanishing")
    going, staying = f"{prefix}-going", f"{prefix}-staying"
    for topic in (going, staying):
        third_cluster.create_topic(topic)
        write(third_cluster, topic, [0])
    flow.product.put(flow.connector, mirror_config(third_cluster, flow.target, f"{prefix}-.*"))
    for topic in (going, staying):
        wait_ends(flow.target, f"A.{topic}", {0: 1})

    third_cluster.delete_topic(going)
    time.sleep(SEVERAL_LOOKS_S)
    write(third_cluster, staying, [0])
    wait_ends(flow.target, f"A.{staying}", {0: 2})

    assert partition_count(third_cluster, going) == 0
    flow.product.wait_running(flow.connector)
    assert values(flow.target, f"A.{going}", 1) == [[b"v 0"]]


def test_a_topic_made_again_fails_a_task_that_is_to_stop_at_it_and_is_copied_whole_when_told_to_copy(
    flow: Flow,
    topic_name: Callable[[str], str],
) -> None:
    topic = topic_name("again")
    # Nothing but the positions tells which topic they are of.
    config = {
        **{k: v for k, v in mirror_config(flow.source, flow.target, topic).items() if not k.startswith("offset-syncs")},
        "emit.offset-syncs.enabled": "false",
        "on.topic.recreated": "stop",
    }
    flow.source.create_topic(topic)
    write(flow.source, topic, [0, 0], "former")
    flow.product.put(flow.connector, config)
    wait_ends(flow.target, f"A.{topic}", {0: 2})
    committed = lambda: b'{"offset":1}' in positions(flow.target, flow.product.group, flow.connector).values()  # noqa: E731
    wait_for(committed, "the position is committed")
    flow.source.delete_topic(topic)
    flow.source.create_topic(topic)
    write(flow.source, topic, [0] * 5, "new")

    flow.product.wait_states(flow.connector, ["RUNNING", "FAILED"])
    trace = flow.product.status(flow.connector)["tasks"][0]["trace"]
    assert f"source topic {topic} was deleted and created again (its id was " in trace
    assert "partition 0 is stalled; to copy the new one from its beginning, set on.topic.recreated=copy" in trace
    flow.product.put(flow.connector, {**config, "on.topic.recreated": "copy"})
    wait_ends(flow.target, f"A.{topic}", {0: 7})
    assert values(flow.target, f"A.{topic}", 1) == [[b"former 0"] * 2 + [b"new 0"] * 5]
    line = f"UTC source topic {topic} was deleted and created again (its id was "
    told = lambda: any(line in str(task.get("trace")) for task in flow.product.status(flow.connector)["tasks"])  # noqa: E731
    wait_for_state(told, "the status tells of it")


def positions(cluster: LocalCluster, group: str, connector: str) -> dict[bytes, bytes]:
    """What the group's offset topic on a cluster says of a connector; empty if there is no such topic."""
    topic = f"{group}-offsets"
    found: dict[bytes, bytes] = {}
    for partition in range(partition_count(cluster, topic)):
        for message in messages(cluster, topic, partition):
            if message.key().startswith(f'["{connector}"'.encode()):
                found[message.key()] = message.value()
    return found


def test_data_and_positions_go_to_the_cluster_that_the_connector_names(
    flow: Flow,
    third_cluster: LocalCluster,
    topic_name: Callable[[str], str],
) -> None:
    topic = topic_name("elsewhere")
    flow.source.create_topic(topic, 2)
    write(flow.source, topic, range(2), "before")
    flow.product.put(flow.connector, mirror_config(flow.source, third_cluster, topic, replication_factor="2"))
    wait_ends(third_cluster, f"A.{topic}", {0: 1, 1: 1})
    flow.product.call("POST", f"/connectors/{flow.connector}/restart?includeTasks=true")
    flow.product.wait_running(flow.connector)
    write(flow.source, topic, range(2), "after")
    wait_ends(third_cluster, f"A.{topic}", {0: 2, 1: 2})

    assert values(third_cluster, f"A.{topic}", 2) == [[b"before 0", b"after 0"], [b"before 1", b"after 1"]]
    assert end_offsets(flow.target, f"A.{topic}") == {}
    described = third_cluster.admin().list_topics(timeout=60).topics[f"A.{topic}"]
    assert {len(partition.replicas) for partition in described.partitions.values()} == {2}
    keys = {
        b'["%s",{"cluster":"A","partition":%d,"topic":"%s"}]' % (flow.connector.encode(), p, topic.encode())
        for p in (0, 1)
    }
    wait_for(
        lambda: positions(third_cluster, flow.product.group, flow.connector) == dict.fromkeys(keys, b'{"offset":1}'),
        "both positions are committed on the third cluster",
    )
    assert positions(flow.target, flow.product.group, flow.connector) == {}
