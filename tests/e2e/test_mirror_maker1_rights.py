"""MirrorMaker 1 over TLS and with logins, its users with the rights of docs/mirrormaker1.md and no others.

The files are as users of MirrorMaker write them: with stores of Java, whose type nobody names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pytest

from deploy.local import Listener, LocalCluster
from tests.brokers import started
from tests.e2e.mirror_makers import MirrorMaker, consumer_properties, offsets, produce, unique, values, wait_copied
from tests.e2e.rights_table import Row, grant, revoke, rows
from tests.paths import ROOT
from tests.waiting import wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long]

PAGE: Final = ROOT / "docs" / "mirrormaker1.md"
NOT_HERE: Final = "before Kafka 2.8"
SOURCE_USER, TARGET_USER = "the source user", "the target user"
GROUP, TOPIC = "mirror", "orders"
CLUSTER_REFUSES: Final = 4
LOGIN, CERTIFICATE = "login", "certificate"
MIRRORMAKER: Final = "mirrormaker"
LOGINS: Final = (MIRRORMAKER, "CN=client")


@dataclass
class Link:
    """Two clusters, and the same two users on both."""

    source: LocalCluster
    target: LocalCluster

    def cluster(self, row: Row) -> LocalCluster:
        return self.source if row.user == SOURCE_USER else self.target


@pytest.fixture(scope="module")
def link() -> Iterator[Link]:
    source, target = (
        LocalCluster(
            f"mm1-rights-{side}",
            listeners=[Listener.SASL_SSL, Listener.SSL],
            # The first one is of the test's own clients.
            users={"admin": "admin-pw", MIRRORMAKER: "a pass=word, of mm1"},
            super_users=["admin"],
            mechanisms=["SCRAM-SHA-512"],
            tls_client_auth="required",
            authorizer=True,
        )
        for side in ("source", "target")
    )
    with started(source, target):
        made = Link(source, target)
        for row in rights():
            # Both ways to log in are users that have the same rights.
            for login in LOGINS:
                grant(made.cluster(row), [row.binding(login)])
        yield made


def rights() -> list[Row]:
    return [row for row in rows(PAGE) if row.needed != NOT_HERE]


def client(cluster: LocalCluster, way: str, kind: str) -> dict[str, str]:
    """A client that logs in that way; its stores are JKS, as Java took for granted up to 8, or PKCS12, as it does since."""
    material = cluster.tls
    assert material is not None
    trust, key = {
        "JKS": (material.truststore_jks, material.client.jks),
        "PKCS12": (material.truststore_pkcs12, material.client.pkcs12),
    }[kind]
    listener = Listener.SASL_SSL if way == LOGIN else Listener.SSL
    found = cluster.client_properties(MIRRORMAKER, listener) if way == LOGIN else {}
    found = {name: value for name, value in found.items() if not name.startswith("ssl.")}
    found |= {"bootstrap.servers": cluster.bootstrap(listener), "security.protocol": str(listener)}
    found |= {"ssl.truststore.location": str(trust), "ssl.truststore.password": material.password}
    if way == CERTIFICATE:
        found |= {"ssl.keystore.location": str(key), "ssl.keystore.password": material.password}
        found |= {"ssl.key.password": material.password, "ssl.endpoint.identification.algorithm": ""}
    return found


def maker_of(link: Link, source: Mapping[str, str], target: Mapping[str, str], topics: str) -> MirrorMaker:
    quick = {name: value for name, value in consumer_properties(link.source, GROUP).items() if not name.startswith("s")}
    options = ("--whitelist", topics, "--offset.commit.interval.ms", "1000")
    return MirrorMaker([{**quick, **source}], link.target, *options, producer_file=target)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        pytest.param((LOGIN, "JKS"), (CERTIFICATE, "PKCS12"), id="scram_and_jks_to_certificate_in_pkcs12"),
        pytest.param((CERTIFICATE, "JKS"), (LOGIN, "PKCS12"), id="certificate_in_jks_to_scram_and_pkcs12"),
    ],
)
def test_with_these_rights_topics_are_made_and_copied_and_offsets_are_committed(
    link: Link, source: tuple[str, str], target: tuple[str, str]
) -> None:
    topic = unique(TOPIC)
    link.source.create_topic(topic, 3)
    expected = produce(link.source, topic, 0, 30)
    with maker_of(link, client(link.source, *source), client(link.target, *target), topic) as maker:
        maker.wait_running()
        wait_copied(link.target, topic, expected)
        wait_for_state(lambda: lags(link, topic) == {(10, 0)}, "the group has no lag", 60)
        assert maker.stop() == 0
        log = maker.log_text()
    assert len(values(link.target, topic)) == 30
    words = ("authoriz", "denied", "grant ")
    assert [line for line in log.splitlines() if any(each in line.lower() for each in words)] == []


def lags(link: Link, topic: str) -> set[tuple[int, int]]:
    return {each[:2] for (name, _), each in offsets(link.source, GROUP).items() if name == topic}


@pytest.mark.parametrize(
    ("missing", "line"),
    [
        pytest.param((SOURCE_USER, "READ", "group"), f"grant READ on group {GROUP}", id="group"),
        pytest.param((SOURCE_USER, "READ", "topic"), "grant READ on topic {topic}", id="source_topic"),
        pytest.param((TARGET_USER, "WRITE", "topic"), "grant WRITE on topic {topic}", id="target_topic"),
        pytest.param((TARGET_USER, "CREATE", "topic"), "grant CREATE on topic {topic}", id="create"),
    ],
)
def test_a_missing_right_is_named(link: Link, missing: tuple[str, str, str], line: str) -> None:
    topic = unique(TOPIC)
    link.source.create_topic(topic, 3)
    produce(link.source, topic, 0, 30)
    (row,) = [each for each in rights() if each[:3] == missing]
    denied = row.binding(MIRRORMAKER, deny=True, name=GROUP if row.kind == "group" else topic)
    grant(link.cluster(row), [denied])
    try:
        with maker_of(link, client(link.source, LOGIN, "JKS"), client(link.target, LOGIN, "JKS"), topic) as maker:
            maker.wait_logged(line.format(topic=topic))
    finally:
        revoke(link.cluster(row), denied)
