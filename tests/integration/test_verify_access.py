"""What `verify` needs to read two clusters: a login over TLS, the right to read the topics; and that it keeps to a rate."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from deploy.local import Listener, LocalCluster
from mirror_connect.verify.link import described_link
from mirror_connect.verify.run import NOT_COMPARED, Options, Report, Watcher, verify
from tests.integration.mirror_rig import fresh_topic, produce
from tests.integration.rights import allow

pytestmark = pytest.mark.brokers

NOW = int(time.time() * 1000) - 3_600_000
ROWS = [{"key": b"%d" % number, "value": b"v" * 200, "timestamp": NOW + number} for number in range(200)]


@pytest.fixture(scope="module")
def guarded() -> Iterator[LocalCluster]:
    """Source and target in one."""
    users = {name: f"{name}-secret" for name in ("admin", "reader")}
    with LocalCluster(
        "guarded", listeners=[Listener.SASL_SSL], users=users, authorizer=True, super_users=["admin"]
    ) as made:
        yield made


def copied(cluster: LocalCluster, rows: list[dict[str, object]]) -> str:
    topic = fresh_topic("access")
    for name, these in ((topic, ROWS), (f"A.{topic}", rows)):
        cluster.create_topic(name)
        produce(cluster, name, these, **{"enable.idempotence": True})
    return topic


def may_read(cluster: LocalCluster, name: str) -> None:
    allow(cluster, "User:reader", ResourceType.TOPIC, name, AclOperation.READ)


async def verified(
    source: Mapping[str, str], target: Mapping[str, str], topic: str, options: Options | None = None
) -> Report:
    settings = {"topics": topic, "source.cluster.alias": "A"}
    link = described_link(source=source, target=target, settings=settings)
    return await verify(link, options or Options(), Watcher())


async def test_who_may_read_the_topics_may_compare_them(guarded: LocalCluster) -> None:
    # A doubled record: who wrote it is asked for over TLS with the same login.
    topic = copied(guarded, [*ROWS[:100], *ROWS[99:]])
    reader = guarded.client_properties("reader")
    may_read(guarded, topic)
    may_read(guarded, f"A.{topic}")
    report = await verified(reader, reader, topic)
    (found,) = [each.findings for each in report.results]
    assert found.error is None
    assert [(str(each.kind), each.source, each.target) for each in found.listed] == [("doubled", (99, 99), (100, 100))]
    assert found.equal == len(ROWS)


async def test_who_may_see_a_topic_and_not_read_it_is_told(guarded: LocalCluster) -> None:
    topic = copied(guarded, ROWS)
    admin, reader = guarded.client_properties("admin"), guarded.client_properties("reader")
    may_read(guarded, topic)
    await asyncio.to_thread(allow, guarded, "User:reader", ResourceType.TOPIC, f"A.{topic}", AclOperation.DESCRIBE)
    report = await verified(admin, reader, topic)
    (found,) = [each.findings for each in report.results]
    assert (report.outcome, found.compared) == (NOT_COMPARED, 0)
    assert (found.error or "").startswith(f"target partition A.{topic}-0 can't be read: the cluster denied it (")
    assert (found.error or "").endswith(f"): grant READ on topic A.{topic} to the target user")


async def test_a_rate_is_kept_to(guarded: LocalCluster) -> None:
    topic = fresh_topic("rate")
    rows = [{"value": b"%07d" % number + b"x" * 9_993, "timestamp": NOW + number} for number in range(1_200)]
    for name in (topic, f"A.{topic}"):
        guarded.create_topic(name)
        produce(guarded, name, rows)
    admin = guarded.client_properties("admin")
    report = await verified(admin, admin, topic, Options(rate=1e6))
    assert report.results[0].findings.equal == 1_200
    # 12 MB from each side at 1 MB/s. A second's worth may be saved up. The last part that is read, which may be a third of
    # all, is not waited for.
    assert 5 < report.seconds < 60
