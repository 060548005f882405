"""Sources and targets of Kafka 2.8 (with ZooKeeper) and 3.9 beside 4.3: the whole product, in every direction."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import pytest

from deploy.local import Listener, LocalCluster, LocalError
from deploy.local.kafka_jars import ensure
from deploy.local.kafka_releases import OLD_VERSIONS
from mirror_connect.app.worker_connectors.acl_sync import AclSync
from mirror_connect.connectors import connector_definition
from mirror_connect.connectors.acls import AclBinding, Resource
from mirror_connect.connectors.mirror.acl_rules import Copies
from mirror_connect.connectors.records.checkpoints import Checkpoint
from mirror_connect.connectors.records.heartbeats import Heartbeat
from mirror_connect.connectors.task_protocol import RUNNING
from mirror_connect.kafka_io.admin.acl_admin import create_acls, topic_acls
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.topic_config_admin import describe_topic_configs
from mirror_connect.kafka_io.producer.produce_outcome import FencedError
from tests.brokers import committed, messages, started
from tests.e2e.ends import wait_ends
from tests.e2e.identity_topics import TEXT, produce
from tests.e2e.old_kafka import KINDS, LATER, READ, RECORDS, RETENTION, OldLink
from tests.e2e.product import Product, mirror_config
from tests.e2e.reading import data_batches, records
from tests.integration.mirror_rig import OFFSETS_PARTITIONS, OFFSETS_TOPIC, running, spec_for
from tests.waiting import wait_for, wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark]
OLDEST, OLD = OLD_VERSIONS


@pytest.fixture(scope="module")
def old_clusters() -> Iterator[dict[str, LocalCluster]]:
    """One of each old release, with an authorizer; who comes without a password may do everything."""
    made = {}
    for version in OLD_VERSIONS:
        try:
            ensure(version, tries=1)
        except LocalError as error:
            pytest.skip(str(error))
        made[version] = LocalCluster(
            f"kafka-{version.replace('.', '-')}",
            listeners=[Listener.PLAINTEXT, Listener.SASL_PLAINTEXT],
            users={"reader": "secret"},
            authorizer=True,
            super_users=["ANONYMOUS"],
            version=version,
        )
    with started(*made.values()):
        yield made


@pytest.fixture(
    scope="module",
    # What the middle release can do lies between the other two. In each run ACLs go to and from both, records to the oldest.
    params=[
        f"{OLDEST}-4.3.1",
        pytest.param(f"{OLD}-4.3.1", marks=pytest.mark.long),
        pytest.param(f"4.3.1-{OLDEST}", marks=pytest.mark.long),
        pytest.param(f"4.3.1-{OLD}", marks=pytest.mark.long),
    ],
)
def link(
    request: pytest.FixtureRequest,
    old_clusters: dict[str, LocalCluster],
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
) -> Iterator[OldLink]:
    """Everything copied in one direction; the worker lives on the target, as a Connect worker does."""
    source_version, target_version = request.param.split("-")
    alias = request.param.replace(".", "")
    with contextlib.ExitStack() as stack:
        if target_version in old_clusters:
            target = old_clusters[target_version]
            product = stack.enter_context(Product(target, group=f"on-{target_version}"))
        else:
            target, product = target_cluster, request.getfixturevalue("product")
        made = OldLink(product, old_clusters.get(source_version, source_cluster), target, alias)
        made.write()
        made.connect()
        made.change()
        made.wait_copied()
        yield made
        for kind in KINDS:
            product.delete(made.name(kind))


def differences(link: OldLink, kind: str, partitions: int = 1) -> list[str]:
    """The first difference of each partition, offsets and kind of timestamp apart."""
    found = []
    for partition in range(partitions):
        was = list(records(link.source, link.topic(kind), partition, isolation="read_committed"))
        came = list(records(link.target, link.remote(kind), partition))
        assert was
        pairs = [(a, b) for a, b in zip(was, came, strict=False) if a[1:5] != b[1:5]][:1]
        found += [f"{a} came as {b}" for a, b in pairs]
        if len(was) != len(came):
            found.append(f"{len(was)} came as {len(came)}")
    return found


def test_batches_of_every_codec_are_the_same_bytes(link: OldLink) -> None:
    for codec in TEXT:
        was = data_batches(link.source, link.topic(codec), 0)
        assert data_batches(link.target, link.remote(codec), 0) == was, codec
        assert sum(each[4] for each in was) == RECORDS


def test_committed_transactions_are_there_and_aborted_ones_are_not(link: OldLink) -> None:
    assert differences(link, "tx", 2) == []


def test_partitions_that_join_are_copied(link: OldLink) -> None:
    came = [record.value for record in records(link.target, link.remote("growing"), 2)]
    assert came == [record.value for record in records(link.source, link.topic("growing"), 2)]
    assert len(came) == LATER


def test_a_config_that_only_the_source_knows_keeps_no_other_from_following(link: OldLink) -> None:
    topic = link.remote("configured")
    admin = ClusterAdmin(link.target.client_properties(), "target cluster")

    def followed() -> bool:
        configs = describe_topic_configs(admin, [topic]).configs[topic]
        return RETENTION in [each.value for each in configs if each.name == "retention.ms"]

    wait_for(followed, "retention.ms has followed")

    def told() -> bool:
        lines = [each for each in link.product.log_text().splitlines() if "know no such config" in each]
        return any(link.name("Source") in each for each in lines)

    if link.unknown:
        wait_for_state(told, "the log tells of the other one")
    assert told() is bool(link.unknown)


def test_a_group_goes_on_with_the_next_record(link: OldLink) -> None:
    # Until the copying task has recorded what lies where, a group gets no further than syncs lead it.
    wait_for(
        lambda: committed(link.target, link.group, link.remote("group")) == {0: READ},
        "the group goes on with the next record",
    )


def test_its_checkpoint_says_the_same(link: OldLink) -> None:
    wanted = Checkpoint(link.group, link.remote("group"), 0, READ, READ)
    topic = f"{link.alias}.checkpoints.internal"
    wait_for(
        lambda: wanted in [Checkpoint.decode(m.key(), m.value()) for m in messages(link.target, topic, 0)],
        "the checkpoint is there",
    )


def test_heartbeats_say_that_the_link_is_alive(link: OldLink) -> None:
    def beats() -> set[str]:
        return {Heartbeat.decode(m.key(), m.value()).source_alias for m in messages(link.target, "heartbeats", 0)}

    wait_for(lambda: link.alias in beats(), "a heartbeat is there")


def test_verify_finds_source_and_target_equal(link: OldLink) -> None:
    code, report = link.verify()
    assert (code, report["outcome"]) == (0, "equal"), report


def test_a_topic_that_is_made_again_is_copied_from_its_beginning(link: OldLink) -> None:
    link.source.delete_topic(link.remade)
    link.source.create_topic(link.remade)
    produce(link.source, link.remade, [{"value": b"of the new one %d" % n, "partition": 0} for n in range(LATER)])
    remote = f"{link.alias}.{link.remade}"
    wait_ends(link.target, remote, {0: RECORDS + LATER})
    came = [record.value for record in records(link.target, remote, 0)]
    assert came[RECORDS:] == [b"of the new one %d" % n for n in range(LATER)]


def test_no_connector_and_no_task_has_a_complaint_but_of_the_topic_made_again(link: OldLink) -> None:
    def traces() -> list[str]:
        found = [link.product.status(link.name(kind)) for kind in KINDS]
        return [
            each["trace"] for status in found for each in (status["connector"], *status["tasks"]) if "trace" in each
        ]

    def well() -> bool:
        lines = [line for trace in traces() for line in trace.splitlines()]
        happened = "Events since the task started:"
        return all(line == happened or "was deleted and created again" in line for line in lines)

    # The topic that was made again has been one for a while.
    wait_for_state(well, "nobody complains")
    for kind in KINDS:
        link.product.wait_running(link.name(kind))


def test_messages_of_every_format_that_the_source_has_are_copied(link: OldLink) -> None:
    for magic, kind in link.formats.items():
        # Offset, length, partition leader epoch or CRC, and then the format.
        segments = sorted(link.source.partition_directory(link.topic(kind), 0).glob("*.log"))
        assert [segment.read_bytes()[16] for segment in segments] == [magic]
        was, came = list(records(link.source, link.topic(kind), 0)), list(records(link.target, link.remote(kind), 0))
        assert [each[:4] for each in came] == [each[:4] for each in was]
        # Format 0 has no timestamps, which librdkafka shows as 0.
        assert [each.timestamp for each in came] == [each.timestamp if magic else -1 for each in was]


@pytest.mark.parametrize(("source", "target"), [(OLDEST, OLD), (OLD, OLDEST)])
def test_acls_go_from_one_authorizer_to_the_other(
    old_clusters: dict[str, LocalCluster], source: str, target: str
) -> None:
    topic = f"rights-of-{source}"
    here, there = (ClusterAdmin(old_clusters[version].client_properties(), version) for version in (source, target))
    assert create_acls(here, [_may_read(topic)]) == {}
    wait_for_state(lambda: _may_read(topic) in (topic_acls(here) or ()), "the source has its ACL")
    config = mirror_config(old_clusters[source], old_clusters[target], topic, name="rights")
    settings = connector_definition(config["connector.class"]).settings(config)
    assert AclSync(settings, Unremembered()).sync(here, there, {topic: f"A.{topic}"}) == []
    wait_for(lambda: _may_read(f"A.{topic}") in (topic_acls(there) or ()), "the target has it too")


class Unremembered:
    """Of a connector that copies for the first time, and is not seen again."""

    def load(self) -> Copies:
        return {}

    def save(self, copies: Mapping[Resource, Copies]) -> None:
        pass


def _may_read(topic: str) -> AclBinding:
    return AclBinding("TOPIC", "LITERAL", topic, "User:reader", "*", "READ", "ALLOW")


@pytest.mark.soak
@pytest.mark.parametrize("version", [OLDEST, pytest.param(OLD, marks=pytest.mark.long)])
async def test_a_task_that_has_a_successor_is_fenced(
    old_clusters: dict[str, LocalCluster], source_cluster: LocalCluster, version: str
) -> None:
    target, topic = old_clusters[version], f"fenced-on-{version}"
    for cluster, name in ((source_cluster, topic), (target, f"A.{topic}")):
        cluster.create_topic(name)
    target.create_topic(OFFSETS_TOPIC, OFFSETS_PARTITIONS, {"cleanup.policy": "compact"})
    spec = spec_for(source_cluster, target, {topic: 1})
    row = [{"value": b"v", "partition": 0}]
    async with running(spec) as first:
        produce(source_cluster, topic, row)
        await first.copied(1)
        async with running(spec, target) as second:
            await second.until(lambda: second.link.state == RUNNING)
            produce(source_cluster, topic, row)
            await second.copied(1)
            produce(source_cluster, topic, row)
            with pytest.raises(FencedError, match=spec.transactional_id):
                await first.copied(10_000)
