"""A task whose users lack a right on a real broker with ACLs: told by topic and operation, and others are copied."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from deploy.local import Listener, LocalCluster
from mirror_connect.app.worker_connectors.target_choice import Target, TargetChooser
from mirror_connect.app.worker_connectors.task_fencing import TaskFencing
from mirror_connect.connectors.errors import NotAuthorized
from mirror_connect.connectors.task_protocol import TaskSpec
from tests.integration.mirror_rig import (
    OFFSETS_PARTITIONS,
    OFFSETS_TOPIC,
    fresh_topic,
    messages,
    produce,
    running,
    spec_for,
)
from tests.integration.rights import allow

pytestmark = pytest.mark.brokers

READER, WRITER, NOBODY = "User:reader", "User:writer", "nobody"
TOPIC, TRANSACTIONAL_ID = ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID
ROWS = [{"value": b"%d" % number} for number in range(100)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Source and target in one: the users are what differs."""
    users = {name: f"{name}-secret" for name in ("admin", "reader", "writer", NOBODY)}
    with LocalCluster(
        "rights", listeners=[Listener.SASL_PLAINTEXT], users=users, authorizer=True, super_users=["admin"]
    ) as made:
        made.create_topic(OFFSETS_TOPIC, OFFSETS_PARTITIONS)
        allow(made, WRITER, TOPIC, OFFSETS_TOPIC, AclOperation.WRITE)
        yield made


def mirrored(cluster: LocalCluster, *rights: str) -> str:
    """A topic with records, and its remote topic; `rights`: READ for the reader, WRITE for the writer."""
    topic = fresh_topic("rights")
    for name in (topic, f"A.{topic}"):
        cluster.create_topic(name)
    produce(cluster, topic, ROWS)
    if "READ" in rights:
        allow(cluster, READER, TOPIC, topic, AclOperation.READ)
    if "WRITE" in rights:
        allow(cluster, WRITER, TOPIC, f"A.{topic}", AclOperation.WRITE)
    return topic


def spec(cluster: LocalCluster, topics: list[str], *, writer: str = "writer", transactions: bool = True) -> TaskSpec:
    found = spec_for(
        cluster,
        cluster,
        dict.fromkeys(topics, 1),
        consumer=cluster.client_properties("reader"),
        producer=cluster.client_properties(writer),
    )
    if transactions:
        rights = (AclOperation.WRITE, AclOperation.DESCRIBE)
        allow(cluster, WRITER, TRANSACTIONAL_ID, found.transactional_id, *rights)
    return found


def unwritten(topic: str) -> str:
    right = f"grant WRITE on topic {topic} to the producing user"
    return f"Not authorized to write to topic {topic} on the target; {right}; it is tried again"


def came(cluster: LocalCluster, topic: str) -> list[bytes | None]:
    return [message.value() for message in messages(cluster, f"A.{topic}")]


WANTED = [row["value"] for row in ROWS]


class Targets(TargetChooser):
    """What the connectors' clients would be."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._producer = cluster.client_properties("writer")

    async def chosen(self, resolved: Mapping[str, str]) -> Target:
        del resolved
        return Target(True, self._producer, {})


async def test_a_topic_that_may_not_be_written_to_is_named_and_copied_when_it_may(cluster: LocalCluster) -> None:
    good, bad = mirrored(cluster, "READ", "WRITE"), mirrored(cluster, "READ")
    async with running(spec(cluster, [good, bad])) as task:
        await task.copied(100)
        await task.until(lambda: bool(task.link.log_lines))
        assert task.link.log_lines == [unwritten(f"A.{bad}")]
        await task.until(lambda: task.link.problem_lines == tuple(task.link.log_lines))
        assert (came(cluster, good), came(cluster, bad)) == (WANTED, [])
        allow(cluster, WRITER, TOPIC, f"A.{bad}", AclOperation.WRITE)
        await task.copied(200)
        await task.until(lambda: task.link.problem_lines == ())
        await task.finish()
    assert came(cluster, bad) == WANTED


@pytest.mark.parametrize("sees", [True, False], ids=["may_describe_it", "may_not_even_see_it"])
async def test_a_topic_that_may_not_be_read_is_named_and_read_when_it_may(cluster: LocalCluster, sees: bool) -> None:
    good, bad = mirrored(cluster, "READ", "WRITE"), mirrored(cluster, "WRITE")
    if sees:
        allow(cluster, READER, TOPIC, bad, AclOperation.DESCRIBE)
    async with running(spec(cluster, [good, bad])) as task:
        await task.copied(100)
        await task.until(lambda: bool(task.link.log_lines))
        assert task.link.log_lines == [
            f"source partition {bad}-0 can't be read: not authorized; grant READ on topic {bad} to the source user"
        ]
        await task.until(lambda: task.link.problem_lines == (task.link.log_lines[0],))
        assert (came(cluster, good), came(cluster, bad)) == (WANTED, [])
        allow(cluster, READER, TOPIC, bad, AclOperation.READ)
        await task.copied(200)
        await task.until(lambda: task.link.problem_lines == ())
        await task.finish()
    assert came(cluster, bad) == WANTED


async def test_a_user_that_may_write_nothing_fails_the_task_with_the_right_that_is_missing(
    cluster: LocalCluster,
) -> None:
    async with running(spec(cluster, [mirrored(cluster, "READ")], writer=NOBODY)) as task:
        with pytest.raises(NotAuthorized, match=r"^[^\n]*grant IDEMPOTENT_WRITE on the cluster [^\n]*$"):
            await task.copied(1)


async def test_without_the_transactional_id_it_is_said_once_and_copied(cluster: LocalCluster) -> None:
    topic = mirrored(cluster, "READ", "WRITE")
    wanted = spec(cluster, [topic], transactions=False)
    async with running(wanted) as task:
        await task.copied(100)
        await task.until(lambda: bool(task.link.problem_lines))
        await task.finish()
    assert len(task.link.log_lines) == 1
    right = f"WRITE and DESCRIBE on transactional id {wanted.transactional_id} to the producing user"
    assert f"grant {right}" in task.link.log_lines[0]
    assert task.link.problem_lines == tuple(task.link.log_lines)
    assert came(cluster, topic) == WANTED


async def test_without_the_transactional_id_exactly_once_is_refused_and_copies_when_it_may(
    cluster: LocalCluster,
) -> None:
    topic = mirrored(cluster, "READ", "WRITE")
    wanted = replace(spec(cluster, [topic], transactions=False), exactly_once=True)
    right = f"WRITE and DESCRIBE on transactional id {wanted.transactional_id} to the producing user"
    async with running(wanted) as task:
        with pytest.raises(NotAuthorized, match=f"grant {right}"):
            await task.copied(1)
    # Nor may the leader fence former tasks, which comes first.
    fencing = TaskFencing(Targets(cluster), lambda _: wanted.transactional_id, lambda: 8.0)
    with pytest.raises(NotAuthorized, match=f"grant {right}"):
        await fencing.fence("c", {}, [0])
    assert came(cluster, topic) == []
    allow(cluster, WRITER, TRANSACTIONAL_ID, wanted.transactional_id, AclOperation.WRITE, AclOperation.DESCRIBE)
    await fencing.fence("c", {}, [0])
    async with running(wanted) as task:
        await task.copied(100)
        await task.finish()
    assert came(cluster, topic) == WANTED


async def test_positions_that_may_not_be_written_are_named_while_records_are_copied(cluster: LocalCluster) -> None:
    topic, elsewhere = mirrored(cluster, "READ", "WRITE"), fresh_topic("offsets")
    cluster.create_topic(elsewhere, OFFSETS_PARTITIONS)
    async with running(replace(spec(cluster, [topic]), offsets_topic=elsewhere)) as task:
        await task.copied(100)
        await task.until(lambda: bool(task.link.log_lines))
        assert task.link.log_lines == [unwritten(elsewhere)]
        await task.until(lambda: task.link.problem_lines == tuple(task.link.log_lines))
        allow(cluster, WRITER, TOPIC, elsewhere, AclOperation.WRITE)
        await task.until(lambda: task.link.problem_lines == ())
        async with asyncio.timeout(180):
            while not any(True for _ in messages(cluster, elsewhere)):
                await asyncio.sleep(0.2)
        await task.finish()
