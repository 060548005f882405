"""Every way to log in and to encrypt, by both clients, against a real broker."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping

import pytest

from deploy.local import Listener, LocalCluster
from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.admin_errors import AdminError
from mirror_connect.kafka_io.admin.topic_admin import NewRemote, create_topics, grow_topics
from mirror_connect.kafka_io.client.cluster import Cluster
from tests.fakes.token_endpoint import TokenEndpoint
from tests.waiting import PATIENCE_S, wait_for_state

pytestmark = pytest.mark.brokers

PASSWORD = "right-pass word=1"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
TRUSTS = ("JKS", "PKCS12", "PEM")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    listeners = (Listener.PLAINTEXT, Listener.SASL_PLAINTEXT, Listener.SSL, Listener.SASL_SSL)
    oauth = "listener.name.sasl_plaintext.oauthbearer."
    properties = {
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": ",".join((*MECHANISMS, "OAUTHBEARER")),
        f"{oauth}sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="broker";',
    }
    with LocalCluster(
        "settings",
        listeners=listeners,
        users={"connect": PASSWORD},
        mechanisms=MECHANISMS,
        tls_client_auth="required",
        properties=properties,
    ) as made:
        made.create_topic("grows", 1)
        yield made


def tls(cluster: LocalCluster, kind: str) -> dict[str, str]:
    material = cluster.tls
    assert material is not None
    trust, key = {
        "JKS": (material.truststore_jks, material.client.jks),
        "PKCS12": (material.truststore_pkcs12, material.client.pkcs12),
        "PEM": (material.authority_pem, material.client.pem),
    }[kind]
    files = {"ssl.truststore.location": str(trust), "ssl.truststore.type": kind}
    files |= {"ssl.keystore.location": str(key), "ssl.keystore.type": kind}
    if kind != "PEM":
        files |= {"ssl.truststore.password": material.password, "ssl.keystore.password": material.password}
    return files


def over_tls(cluster: LocalCluster, kind: str) -> dict[str, str]:
    given = {"bootstrap.servers": cluster.bootstrap(Listener.SSL), "security.protocol": "SSL"}
    return given | tls(cluster, kind)


Client = Callable[[dict[str, str]], Awaitable[str | None]]


async def id_by_wire(properties: dict[str, str]) -> str | None:
    client = Cluster(properties, "test")
    try:
        await client.connect()
        return client.cluster_id
    finally:
        await client.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_logs_in_with_a_password(cluster: LocalCluster, mechanism: str) -> None:
    properties = cluster.client_properties("connect", Listener.SASL_PLAINTEXT, mechanism)
    assert ClusterAdmin(properties, "cluster", 30).cluster_id() == cluster.cluster_id


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_our_own_connections_log_in_with_a_password(cluster: LocalCluster, mechanism: str) -> None:
    properties = cluster.client_properties("connect", Listener.SASL_PLAINTEXT, mechanism)
    assert await id_by_wire(properties) == cluster.cluster_id


@pytest.mark.parametrize("kind", TRUSTS)
def test_librdkafka_shows_and_checks_certificates(cluster: LocalCluster, kind: str) -> None:
    assert ClusterAdmin(over_tls(cluster, kind), "cluster", 30).cluster_id() == cluster.cluster_id


@pytest.mark.parametrize("kind", TRUSTS)
async def test_our_own_connections_show_and_check_certificates(cluster: LocalCluster, kind: str) -> None:
    assert await id_by_wire(over_tls(cluster, kind)) == cluster.cluster_id


async def test_both_clients_log_in_over_tls(cluster: LocalCluster) -> None:
    properties = cluster.client_properties("connect", Listener.SASL_SSL, "SCRAM-SHA-512") | tls(cluster, "PKCS12")
    found = ClusterAdmin(properties, "cluster", 30).cluster_id(), await id_by_wire(properties)
    assert found == (cluster.cluster_id, cluster.cluster_id)


# A certificate for another name: 127.0.0.2 leads to the same broker by a forwarder, and is in no certificate.


@pytest.fixture
def other_name(cluster: LocalCluster) -> Iterator[str]:
    target = int(cluster.bootstrap(Listener.SSL).rsplit(":", 1)[1])
    listening = socket.create_server(("127.0.0.2", 0))

    def pump(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        finally:
            source.close()
            sink.close()

    def serve() -> None:
        while True:
            try:
                near, _ = listening.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", target))
            for ends in ((near, far), (far, near)):
                threading.Thread(target=pump, args=ends, daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"127.0.0.2:{listening.getsockname()[1]}"
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join(10)


def test_librdkafka_refuses_a_certificate_of_another_host(cluster: LocalCluster, other_name: str) -> None:
    properties = over_tls(cluster, "PEM") | {"bootstrap.servers": other_name}
    with pytest.raises(ClusterUnreachable, match="certificate verify failed"):
        ClusterAdmin(properties, "source cluster", 20).cluster_id()


async def test_our_own_connections_refuse_a_certificate_of_another_host(cluster: LocalCluster, other_name: str) -> None:
    properties = over_tls(cluster, "PEM") | {"bootstrap.servers": other_name}
    with pytest.raises(ClusterUnreachable, match="certificate"):
        await id_by_wire(properties)


async def test_the_check_of_the_host_can_be_switched_off_for_both_clients(
    cluster: LocalCluster, other_name: str
) -> None:
    properties = over_tls(cluster, "PEM") | {"bootstrap.servers": other_name}
    properties["ssl.endpoint.identification.algorithm"] = ""
    found = ClusterAdmin(properties, "cluster", 30).cluster_id(), await id_by_wire(properties)
    assert found == (cluster.cluster_id, cluster.cluster_id)


# OAuth: a token endpoint that hands out unsigned tokens, which a broker without further settings accepts.


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    with TokenEndpoint() as made:
        yield made


def with_tokens(cluster: LocalCluster, endpoint: TokenEndpoint, secret: str) -> dict[str, str]:
    return endpoint.client_properties(cluster.bootstrap(Listener.SASL_PLAINTEXT), secret)


async def test_both_clients_log_in_with_client_credentials(cluster: LocalCluster, endpoint: TokenEndpoint) -> None:
    properties = with_tokens(cluster, endpoint, "oauth-secret")
    found = ClusterAdmin(properties, "cluster", 30).cluster_id(), await id_by_wire(properties)
    assert found == (cluster.cluster_id, cluster.cluster_id)


async def test_refused_client_credentials_are_told_by_both_clients(
    cluster: LocalCluster, endpoint: TokenEndpoint
) -> None:
    properties = with_tokens(cluster, endpoint, "not-the-secret")
    texts = []
    with pytest.raises(NotAuthorized) as by_wire:
        await id_by_wire(properties)
    texts.append(str(by_wire.value))
    with pytest.raises(NotAuthorized) as by_admin:
        ClusterAdmin(properties, "source cluster", 20).cluster_id()
    texts.append(str(by_admin.value))
    assert all("invalid_client" in text for text in texts)
    assert not any("not-the-secret" in text for text in texts)


# What goes wrong.


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_told_at_once_with_user_and_cluster(cluster: LocalCluster, mechanism: str) -> None:
    properties = cluster.client_properties("connect", Listener.SASL_PLAINTEXT, mechanism)
    properties["sasl.jaas.config"] = properties["sasl.jaas.config"].replace(PASSWORD, "wrong-password")
    with pytest.raises(NotAuthorized) as caught:
        ClusterAdmin(properties, "source cluster", 60).topics()
    where = properties["bootstrap.servers"]
    told = str(caught.value)
    assert told.startswith(
        f"The source cluster at {where} refused the credentials (sasl.mechanism {mechanism}, user connect): "
    )
    assert "wrong-password" not in told


def test_nobody_listening_is_told_with_the_address() -> None:
    with pytest.raises(
        ClusterUnreachable, match=r"^The source cluster at 127\.0\.0\.1:1 can't be reached: .*Connection refused"
    ):
        ClusterAdmin({"bootstrap.servers": "127.0.0.1:1"}, "source cluster", 4).topics()


def test_a_name_without_an_address_is_told_as_such() -> None:
    with pytest.raises(
        ClusterUnreachable, match=r"No resolvable bootstrap urls given in bootstrap\.servers .*no-such-host"
    ):
        ClusterAdmin({"bootstrap.servers": "no-such-host.invalid:9092"}, "source cluster", 20).topics()


PLAIN, TLS, LOGIN, LOGIN_TLS = Listener.PLAINTEXT, Listener.SSL, Listener.SASL_PLAINTEXT, Listener.SASL_SSL


# What a client is told to speak, and what the listener that it is sent to speaks.
STRANGERS = {
    "tls_is_wanted": (PLAIN, TLS),
    "tls_is_wanted_beside_the_login": (LOGIN, LOGIN_TLS),
    "a_login_is_wanted": (PLAIN, LOGIN),
    "a_login_is_wanted_beside_tls": (TLS, LOGIN_TLS),
    "tls_is_not_there": (TLS, PLAIN),
    "a_login_is_not_taken": (LOGIN, PLAIN),
    "a_login_is_not_taken_beside_tls": (LOGIN_TLS, TLS),
}


async def told(client: Client, cluster: LocalCluster, given: Listener, listener: Listener) -> str:
    """The line that a client ends with that is sent to a listener of another protocol; its address is left out."""
    where = cluster.bootstrap(listener)
    properties = tls(cluster, "PEM") if given.tls else {}
    properties |= cluster.client_properties("connect", given, "PLAIN") if given.sasl else {}
    with pytest.raises((ClusterUnreachable, NotAuthorized)) as caught:
        await client(properties | {"bootstrap.servers": where, "security.protocol": given})
    assert where in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("given", "listener"), STRANGERS.values(), ids=STRANGERS)
async def test_a_connection_of_another_protocol_is_told_which_one_its_listener_has(
    cluster: LocalCluster, given: Listener, listener: Listener
) -> None:
    line = await told(id_by_wire, cluster, given, listener)
    assert f"security.protocol has to be {listener}, not {given}" in line


async def test_librdkafka_at_a_listener_of_another_protocol_is_told_which_one_it_has(cluster: LocalCluster) -> None:
    async def by_admin(properties: dict[str, str]) -> str | None:
        return await asyncio.to_thread(ClusterAdmin(properties, "source cluster", 60).cluster_id)

    # All at once: each waits five seconds for a broker that may only be starting.
    lines = await asyncio.gather(*(told(by_admin, cluster, *pair) for pair in STRANGERS.values()))
    right = [f"security.protocol has to be {listener}, not {given}" for given, listener in STRANGERS.values()]
    wrong = [(each, line) for each, line in zip(right, lines, strict=True) if each not in line or "\n" in line]
    assert wrong == []


# Administration.


@pytest.fixture
def admin(cluster: LocalCluster) -> ClusterAdmin:
    return ClusterAdmin(cluster.client_properties(listener=Listener.PLAINTEXT), "cluster", 30)


def test_topics_are_listed_with_their_partitions(admin: ClusterAdmin) -> None:
    admin.create_topic("listed", 3, 1)
    assert told_of(admin, {"listed": 3}) == {"listed": 3}


def test_a_topic_is_created_with_its_settings(admin: ClusterAdmin) -> None:
    admin.create_topic("compacted", 1, 1, {"cleanup.policy": "compact"})
    wait_for_state(lambda: "compacted" in admin.topics(), "the broker tells of the topic")
    found = admin.topic_configs(["compacted"])["compacted"]
    assert (found["cleanup.policy"].value, found["cleanup.policy"].is_default, found["retention.ms"].is_default) == (
        "compact",
        False,
        True,
    )


def test_a_topic_that_exists_is_not_created_again(admin: ClusterAdmin) -> None:
    with pytest.raises(AdminError, match="topic grows was not created: Topic 'grows' already exists"):
        admin.create_topic("grows", 1, 1)


def test_more_replicas_than_brokers_are_refused_in_one_line(admin: ClusterAdmin) -> None:
    with pytest.raises(AdminError, match=r"topic wide was not created: .*replication factor of 3") as caught:
        admin.create_topic("wide", 1, 3)
    assert "\n" not in str(caught.value)


def told_of(admin: ClusterAdmin, wanted: Mapping[str, object]) -> dict[str, int]:
    """What the brokers tell of these topics once they tell of all, or in the end: the controller is ahead of them."""
    until = time.monotonic() + PATIENCE_S
    while True:
        there = admin.topics()
        found = {name: there[name] for name in wanted if name in there}
        if (len(found) == len(wanted) and 1 not in found.values()) or time.monotonic() > until:
            return found
        time.sleep(0.2)


def test_a_topic_grows(admin: ClusterAdmin) -> None:
    admin.create_topic("growing", 1, 1)
    assert grow_topics(admin, {"growing": 4}) == {}
    assert told_of(admin, {"growing": 4}) == {"growing": 4}


def test_many_topics_are_created_at_once_and_those_that_exist_are_told(admin: ClusterAdmin) -> None:
    wanted = {f"many-{number}": NewRemote(2, 1, {"cleanup.policy": "compact"}) for number in range(300)}
    refused = create_topics(admin, wanted | {"grows": NewRemote(1, 1)})
    assert [str(error).split(" (", 1)[0] for error in refused.values()] == [
        "topic grows was not created: Topic 'grows' already exists."
    ]
    assert told_of(admin, wanted) == dict.fromkeys(wanted, 2)


def test_ends_of_partitions_are_known(admin: ClusterAdmin) -> None:
    assert admin.end_offsets([("grows", 0)]) == {("grows", 0): 0}


def test_asking_for_an_unknown_topic_does_not_create_it(admin: ClusterAdmin) -> None:
    with pytest.raises(AdminError, match="configs of topic nothing-here"):
        admin.topic_configs(["nothing-here"])
    assert "nothing-here" not in admin.topics()
