"""The rights of docs/rights.md are enough for all that a link does; each one that is missing is named.

Clusters with an authorizer and four users, who get what the tables say and nothing else: by the commands of
docs/guide/security.md, which grant just that (tests/unit/docs/test_guide_acls.py).
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBindingFilter,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    OffsetSpec,
)

from deploy.local import Listener, LocalCluster
from tests.brokers import commit, committed, flushed, started
from tests.e2e import guide_acls
from tests.e2e.product import ROOT, Product, mirror_config
from tests.e2e.rights_table import Row, grant, revoke, rows
from tests.waiting import WaitTimedOut, wait_for, wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

PATIENCE_S: Final = 180.0
SOURCE, CHECKPOINT, HEARTBEAT, ELSEWHERE = "mirror-source", "mirror-checkpoint", "mirror-heartbeat", "mirror-elsewhere"
TOPIC, MOVED, NEW, GROUP = "orders", "orders-moved", "orders-new", "orders-app"
# Heading in the tables → login, and whether it is one of the source cluster.
USERS: Final = {
    "the worker's user": ("worker", False),
    "the producing user": ("writer", False),
    "the source user": ("source", True),
    "the target user": ("target", False),
}
# Rows for brokers that are not here.
NOT_HERE: Final = "before Kafka 2.8"


@dataclass
class World:
    source: LocalCluster
    target: LocalCluster
    product: Product

    def cluster(self, row: Row) -> LocalCluster:
        return self.source if USERS[row.user][1] else self.target

    def traces(self) -> list[str]:
        """What all connectors and tasks have in their status."""
        found = self.product.call("GET", "/connectors?expand=status")
        parts = [part for each in found.values() for part in (each["status"]["connector"], *each["status"]["tasks"])]
        return [part["trace"] for part in parts if part.get("trace")]

    def produce(self, topic: str = TOPIC, partition: int = 0) -> None:
        producer = Producer(self.source.internal_librdkafka())
        for number in range(10):
            producer.produce(topic, b"%d" % number, partition=partition)
        flushed(producer)

    def restart(self, name: str) -> None:
        self.product.call("POST", f"/connectors/{name}/restart?includeTasks=true")

    def commit(self, offset: int) -> None:
        commit(self.source, GROUP, TOPIC, offset)

    def committed(self) -> int:
        """The offset that the group has committed on the target, -1 for none."""
        return committed(self.target, GROUP, f"A.{TOPIC}").get(0, -1)

    def wait_copied(self, topic: str, end: int) -> None:
        """Until partition 0 on the target ends there."""

        def reached() -> bool:
            with contextlib.suppress(KafkaException):
                asked = self.target.admin().list_offsets({TopicPartition(topic, 0): OffsetSpec.latest()})
                return next(iter(asked.values())).result(180).offset >= end
            return False

        wait_for(reached, f"{topic} ends at {end}", PATIENCE_S)

    def set_config(self, topic: str, name: str, value: str) -> None:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET))
        for done in self.source.admin().incremental_alter_configs([resource]).values():
            done.result(180)

    def grow(self, topic: str) -> None:
        for done in self.source.admin().create_partitions([NewPartitions(topic, 2)]).values():
            done.result(180)


def clients(cluster: LocalCluster, user: str, *prefixes: str) -> dict[str, str]:
    return {f"{each}{name}": value for each in prefixes for name, value in cluster.client_properties(user).items()}


def config(world: World, connector_class: str, topics: str = TOPIC, **settings: str) -> dict[str, str]:
    made = mirror_config(world.source, world.target, topics, **settings)
    return {
        **made,
        "connector.class": f"org.apache.kafka.connect.mirror.Mirror{connector_class}Connector",
        "sync.topic.configs.enabled": "true",
        "sync.topic.configs.interval.seconds": "1",
        "sync.topic.acls.enabled": "true",
        "sync.topic.acls.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "offset.lag.max": "0",
        "groups": "orders.*",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        **clients(world.source, "source", "source.cluster."),
        **clients(world.target, "target", "target.cluster."),
    }


def guarded(name: str, users: list[str]) -> LocalCluster:
    logins = {each: f"{each}-pw" for each in users}
    return LocalCluster(name, listeners=[Listener.SASL_PLAINTEXT], users=logins, authorizer=True)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """All connectors of a link, by users that have the rights of the tables, after everything has been copied."""
    with ExitStack() as stack:
        source, target = (
            guarded(f"rights-{side}", users)
            for side, users in (("source", ["source"]), ("target", ["worker", "writer", "target"]))
        )
        stack.enter_context(started(source, target))
        own = {**clients(target, "worker", ""), **clients(target, "writer", "producer.")}
        own |= clients(target, "target", "consumer.", "admin.")
        product = Product(target, group="mirror", properties=own)
        stack.callback(product.close)
        world = World(source, target, product)
        guide_acls.grant_all(source, target)
        for topic in (TOPIC, MOVED):
            source.create_topic(topic)
            world.produce(topic)
        grant(source, [Row("", "READ", "topic", TOPIC, "").binding("somebody")])
        product.start()
        product.put(SOURCE, config(world, "Source", f"{TOPIC}|{NEW}"))
        product.put(ELSEWHERE, config(world, "Source", MOVED) | {"offset-syncs.topic.location": "target"})
        product.put(HEARTBEAT, config(world, "Heartbeat"))
        for name in (SOURCE, ELSEWHERE, HEARTBEAT):
            product.wait_running(name)
        for topic in (TOPIC, MOVED):
            world.wait_copied(f"A.{topic}", 10)
        world.commit(5)
        product.put(CHECKPOINT, config(world, "Checkpoint"))
        product.wait_running(CHECKPOINT)
        yield world


# Enough.


def copied_acl(world: World) -> bool:
    wanted = Row("", "READ", "topic", f"A.{TOPIC}", "").binding("somebody")
    kept = (wanted.restype, wanted.name, wanted.resource_pattern_type, wanted.principal, "*", wanted.operation)
    return bool(world.target.admin().describe_acls(AclBindingFilter(*kept, wanted.permission_type)).result(180))


def test_with_these_rights_everything_is_done_and_nothing_is_missed(world: World) -> None:
    world.wait_copied("heartbeats", 2)
    # Until what lies where is recorded, syncs lead the group to a position before this one, and never behind it.
    wait_for(lambda: world.committed() >= 5, "the group's position is there", PATIENCE_S)
    assert world.committed() == 5
    wait_for(lambda: copied_acl(world), "the ACL is copied", PATIENCE_S)
    world.set_config(TOPIC, "retention.ms", "123456789")
    world.grow(TOPIC)
    wait_for_state(lambda: "grew remote topic" in world.product.log_text(), "the topic grows", PATIENCE_S)
    wait_for_state(lambda: "retention.ms" in world.product.log_text(), "its config follows", PATIENCE_S)
    # A broker that is slow to answer may have a line for a moment. What is not authorized stays in the log.
    wait_for_state(lambda: world.traces() == [], "no trace is left", PATIENCE_S)
    words = ("authoriz", "denied", "grant ")
    assert [line for line in world.product.log_text().splitlines() if any(each in line.lower() for each in words)] == []


def test_with_these_rights_verify_compares_the_copy(world: World) -> None:
    command = [
        sys.executable,
        "-m",
        "mirror_connect.cli",
        "verify",
        SOURCE,
        "--worker",
        str(world.product.rest.base_url),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


# Needed.


class Missing(NamedTuple):
    """A right that is denied: of `row`, to the thing called `name`. `then` shows it; `line` is what a user is told to do."""

    user: str
    operation: str
    kind: str
    name: str
    then: Callable[[World], Any] = lambda world: world.produce()
    line: str = ""

    def __str__(self) -> str:
        return "_".join(filter(None, (self.user.split()[1], self.operation, self.kind, self.name))).replace(" ", "_")


def in_soak(*missing: Any) -> Any:
    """A right like another one of the same user: `make soak` has it."""
    return pytest.param(Missing(*missing), marks=pytest.mark.long)


def new_topic(world: World) -> None:
    world.source.create_topic(NEW)


def more_partitions(world: World) -> None:
    world.grow(MOVED)


def other_config(world: World) -> None:
    world.set_config(TOPIC, "retention.ms", "234567890")


def other_acl(world: World) -> None:
    grant(world.source, [Row("", "READ", "topic", TOPIC, "").binding("somebody-else")])


def further_commit(world: World) -> None:
    world.commit(7)


def nothing(_: World) -> None: ...


WRITER, SOURCE_USER, TARGET_USER = "the producing user", "the source user", "the target user"
RUNS, SYNCS, SYNCS_ON_TARGET = (
    "mm2-offset-runs.A.internal",
    "mm2-offset-syncs.B.internal",
    "mm2-offset-syncs.A.internal",
)
MISSING: Final = [
    Missing(WRITER, "WRITE", "topic", f"A.{TOPIC}"),
    in_soak(WRITER, "WRITE", "topic", RUNS),
    Missing(WRITER, "WRITE", "topic", "mirror-offsets"),
    in_soak(WRITER, "WRITE", "topic", "heartbeats"),
    Missing(
        WRITER,
        "WRITE",
        "transactional id",
        f"mirror-{SOURCE}-0",
        lambda world: world.restart(SOURCE),
        f"WRITE and DESCRIBE on transactional id mirror-{SOURCE}-0",
    ),
    Missing(SOURCE_USER, "READ", "topic", TOPIC),
    Missing(SOURCE_USER, "DESCRIBE_CONFIGS", "topic", TOPIC, nothing),
    Missing(SOURCE_USER, "DESCRIBE", "cluster", "", nothing, "DESCRIBE on the cluster"),
    Missing(SOURCE_USER, "WRITE", "topic", SYNCS),
    in_soak(SOURCE_USER, "READ", "topic", SYNCS, lambda world: world.restart(CHECKPOINT)),
    # As for those on the source, and as long: it is tried again after half a minute.
    in_soak(TARGET_USER, "WRITE", "topic", SYNCS_ON_TARGET, lambda world: world.produce(MOVED)),
    Missing(TARGET_USER, "CREATE", "topic", f"A.{NEW}", new_topic),
    Missing(TARGET_USER, "ALTER", "topic", f"A.{MOVED}", more_partitions),
    in_soak(TARGET_USER, "ALTER_CONFIGS", "topic", f"A.{TOPIC}", other_config),
    in_soak(TARGET_USER, "DESCRIBE", "cluster", "", nothing, "DESCRIBE on the cluster"),
    Missing(TARGET_USER, "ALTER", "cluster", "", other_acl, "ALTER on the cluster"),
    in_soak(TARGET_USER, "READ", "topic", RUNS, lambda world: world.restart(SOURCE)),
    in_soak(TARGET_USER, "READ", "topic", "A.checkpoints.internal", lambda world: world.restart(CHECKPOINT)),
    Missing(TARGET_USER, "READ", "group", GROUP, further_commit),
]


def row_of(missing: Missing) -> Row:
    """The row of the tables that gives the right: there is one, or the tables lack it."""
    (found,) = [
        row
        for row in rows()
        if (row.user, row.operation, row.kind) == missing[:3]
        and (row.name == missing.name or (row.name.endswith("*") and missing.name.startswith(row.name[:-1])))
    ]
    return found


@pytest.mark.parametrize("missing", MISSING, ids=str)
def test_a_missing_right_is_in_the_status_while_it_is_missing(world: World, missing: Missing) -> None:
    row = row_of(missing)
    denied = row.binding(USERS[row.user][0], deny=True, name=missing.name)
    wanted = missing.line or f"{missing.operation} on {missing.kind} {missing.name}"
    grant(world.cluster(row), [denied])
    try:
        missing.then(world)

        def told() -> bool:
            world.product.check_alive()
            return any(f"grant {wanted}" in line and row.user in line for line in lines(world.traces()))

        wait_told(world, told, wanted)
    finally:
        revoke(world.cluster(row), denied)
    if "restart the task" in "\n".join(world.traces()):
        world.restart(SOURCE)
    wait_for_state(lambda: world.traces() == [], f"nothing is missing any more; {world.traces()}", PATIENCE_S)


def lines(traces: list[str]) -> list[str]:
    return [line for trace in traces for line in trace.splitlines()]


def wait_told(world: World, told: Callable[[], bool], wanted: str) -> None:
    try:
        wait_for_state(told, f"the status names {wanted}", PATIENCE_S)
    except WaitTimedOut as error:
        raise WaitTimedOut(f"{error}; it has {world.traces()}\n{world.product.log_tail(15)}") from None


# The worker's own.


@pytest.fixture(scope="module")
def ended(world: World) -> World:
    """The worker has been stopped."""
    world.product.stop()
    return world


WORKER: Final = "the worker's user"
OWN: Final = [
    Missing(WORKER, "READ", "group", "mirror"),
    *(in_soak(WORKER, "READ", "topic", f"mirror-{kind}") for kind in ("configs", "offsets", "status")),
    in_soak(WORKER, "WRITE", "topic", "mirror-status"),
    Missing(
        WORKER,
        "WRITE",
        "transactional id",
        "connect-cluster-mirror",
        line="WRITE and DESCRIBE on transactional id connect-cluster-mirror",
    ),
]


@pytest.mark.parametrize("missing", OWN, ids=str)
def test_a_worker_says_which_right_it_lacks(ended: World, missing: Missing) -> None:
    row = row_of(missing)
    denied = row.binding(USERS[row.user][0], deny=True, name=missing.name)
    wanted = missing.line or f"{missing.operation} on {missing.kind} {missing.name}"
    before = len(ended.product.log_text())
    grant(ended.target, [denied])
    try:
        ended.product.launch()
        wait_for_state(
            lambda: f"grant {wanted} to {row.user}" in ended.product.log_text()[before:],
            f"{wanted} is named in {ended.product.log_tail(5)}",
            PATIENCE_S,
        )
    finally:
        ended.product.process.terminate()
        ended.product.wait_ended()
        revoke(ended.target, denied)
