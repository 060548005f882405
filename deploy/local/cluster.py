"""A named Kafka cluster on loopback: brokers as processes, with the listeners, users and TLS that a test needs."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    NewPartitions,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from deploy.local.broker import Broker
from deploy.local.broker_config import (
    CONTROLLER,
    HOST,
    INTERNAL,
    PLAIN,
    SCRAM,
    ClusterConfig,
    Listener,
    Login,
    check_listeners,
    client_properties,
    librdkafka_settings,
    random_id,
    stored_cluster_id,
    write_properties,
)
from deploy.local.errors import LocalError, NotInTime
from deploy.local.free_ports import claimed, free_port, give_back
from deploy.local.kafka_jars import KAFKA_VERSION
from deploy.local.kafka_releases import release
from deploy.local.kafka_tools import run_tool
from deploy.local.started import Started
from deploy.local.tls_material import TlsMaterial, create_tls_material
from deploy.local.watchdog import watchdog
from deploy.local.zookeeper import ZooKeeper

__all__ = ["Listener", "LocalCluster", "start_all"]


class LocalCluster(Started):
    """Starts with `with` or `start()`. Every process ends with the block, or with the Python process that started it.

    `listeners`: for clients; the first is the default of every method with a listener. `users`: name → password, for every
    SASL listener and every mechanism of `mechanisms`. `super_users`: names of principals, such as `admin` or `CN=client`,
    if `authorizer` is on. `properties`: for all brokers; `broker_properties`: node → properties, nodes count from 1.
    `directory`: keeps data, logs and certificates, to be opened again; without it a temporary one. `heap`, `jvm_options`:
    of each broker; the defaults make it start soon and stay small. `port`: of the first broker's first listener,
    LocalError if it is taken. `host`: the address that brokers listen on. `version`: of Kafka; its jars must exist
    (`kafka_jars.ensure`). Before 3.0 the cluster has a ZooKeeper. Before 4.0 brokers talk to each other without a password,
    so with an authorizer the listeners for clients should authenticate them.
    """

    def __init__(
        self,
        name: str,
        brokers: int = 1,
        *,
        listeners: Sequence[str] = (Listener.PLAINTEXT,),
        users: Mapping[str, str] | None = None,
        mechanisms: Sequence[str] = (PLAIN,),
        authorizer: bool = False,
        super_users: Sequence[str] = (),
        tls_client_auth: str = "none",
        properties: Mapping[str, str] | None = None,
        broker_properties: Mapping[int, Mapping[str, str]] | None = None,
        directory: Path | None = None,
        heap: str = "384m",
        jvm_options: Sequence[str] | None = None,
        version: str = KAFKA_VERSION,
        port: int | None = None,
        host: str = HOST,
    ) -> None:
        self.name = name
        self.version = version
        self._temporary = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix=f"kafka-{name}-"))
        if self._temporary:
            watchdog().guard_directory(str(self.directory))
        else:
            self.directory.mkdir(parents=True, exist_ok=True)
        kinds = check_listeners(listeners)
        self.tls: TlsMaterial | None = None
        if any(kind.tls for kind in kinds):
            self.tls = create_tls_material(self.directory / "tls", host=host)
        kind_of_release = release(version)
        self._zookeeper: ZooKeeper | None = None
        if kind_of_release.zookeeper:
            self._zookeeper = ZooKeeper(name, free_port(HOST), self.directory / "zookeeper", version)
        self._config = ClusterConfig(
            name=name,
            cluster_id=stored_cluster_id(self.directory) or random_id(),
            brokers=brokers,
            listeners=kinds,
            mechanisms=tuple(mechanisms),
            users=dict(users or {}),
            internal_password=secrets.token_urlsafe(16),
            authorizer=authorizer,
            super_users=tuple(super_users),
            tls=self.tls,
            tls_client_auth=tls_client_auth,
            inner_login=kind_of_release.inner_login,
            zookeeper_port=self._zookeeper.port if self._zookeeper else None,
            host=host,
        )
        nodes = range(1, brokers + 1)
        names = [*kinds, INTERNAL, CONTROLLER]
        first = {} if port is None else {(1, str(kinds[0])): claimed(port, host)}
        self._ports = {
            node: {str(name): first.get((node, str(name))) or free_port(host) for name in names} for node in nodes
        }
        self.brokers = [
            Broker(
                self._config,
                node,
                self._ports,
                self.directory / f"broker-{node}",
                {**(properties or {}), **(broker_properties or {}).get(node, {})},
                heap=heap,
                jvm_options=jvm_options,
                version=version,
                zookeeper=self._zookeeper,
            )
            for node in nodes
        ]
        self._admin: AdminClient | None = None
        self._admin_lock = threading.Lock()

    def __repr__(self) -> str:
        return f"LocalCluster({self.name!r}, {self.bootstrap_servers})"

    # Start and stop.

    def start(self, seconds: float = 270.0) -> Self:
        """Starts every broker that does not run, and waits until the cluster is ready for clients."""
        if self._zookeeper is not None:
            self._zookeeper.start(seconds)
        for broker in self.brokers:
            broker.launch()
        self.wait_until_ready(seconds)
        self._create_scram_users()
        return self

    def stop(self) -> None:
        """Stops all brokers at once (SIGTERM). Ports and data stay, and `start()` uses them again."""
        self._at_once(lambda broker: broker.stop())

    def kill(self) -> None:
        """kill -9 all brokers."""
        self._at_once(lambda broker: broker.kill())

    def suspend(self) -> None:
        """SIGSTOP all brokers."""
        self._at_once(lambda broker: broker.suspend())

    def resume(self) -> None:
        """SIGCONT all brokers."""
        self._at_once(lambda broker: broker.resume())

    def close(self) -> None:
        """Ends everything and gives the ports back. A temporary directory is removed."""
        self._admin = None
        # Data of a temporary cluster is removed anyway, so a clean stop is not needed.
        self._at_once(lambda broker: broker.kill() if self._temporary else broker.stop())
        if self._zookeeper is not None:
            if self._temporary:
                self._zookeeper.kill()
            else:
                self._zookeeper.stop()
            give_back(self._zookeeper.port)
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)
            watchdog().forget_directory(str(self.directory))
        for ports in self._ports.values():
            for port in ports.values():
                give_back(port)

    def wait_until_ready(self, seconds: float = 270.0) -> None:
        """Returns when every running broker accepts connections and the metadata names all of them."""
        until = time.monotonic() + seconds
        running = [broker for broker in self.brokers if broker.alive]
        for broker in running:
            broker.wait_listening(max(0.1, until - time.monotonic()))
        while True:
            with contextlib.suppress(KafkaException):
                known = self.admin().list_topics(timeout=5).brokers
                if {broker.node for broker in running} <= set(known):
                    return
            if time.monotonic() > until:
                raise NotInTime(
                    f"cluster {self.name} has not all its brokers after {seconds:g} s (logs: {self.directory})"
                )
            time.sleep(0.1)

    # Clients.

    @property
    def cluster_id(self) -> str:
        """Kafka's id of the cluster. With ZooKeeper the first broker generates it."""
        return stored_cluster_id(self.directory) or self._config.cluster_id

    @property
    def bootstrap_servers(self) -> str:
        """`host:port,…` of the default listener."""
        return self.bootstrap()

    def bootstrap(self, listener: str | None = None) -> str:
        """`host:port,…` of `listener`; it stays the same over restarts."""
        name = str(listener or self._config.listeners[0])
        return ",".join(f"{self._config.host}:{broker.port(name)}" for broker in self.brokers)

    def client_properties(
        self, user: str | None = None, listener: str | None = None, mechanism: str | None = None
    ) -> dict[str, str]:
        """Java client properties, with secrets. `user`: for SASL listeners, by default the first one."""
        login = self._login(user, listener, mechanism)
        return client_properties(self._config, login, self.bootstrap(login.listener))

    def write_client_properties(self, user: str | None = None, listener: str | None = None) -> Path:
        """Writes them to a file for Kafka's command line tools, which only its owner can read."""
        properties = self.client_properties(user, listener)
        return write_properties(self.directory / "client.properties", properties)

    def librdkafka(
        self, user: str | None = None, listener: str | None = None, mechanism: str | None = None
    ) -> dict[str, Any]:
        """The same for confluent-kafka's clients."""
        login = self._login(user, listener, mechanism)
        return _quiet(librdkafka_settings(self._config, login, self.bootstrap(login.listener)))

    def internal_properties(self) -> dict[str, str]:
        """Java client properties of the internal super user, which every cluster has."""
        return client_properties(self._config, self._config.internal_login, self.bootstrap(INTERNAL))

    def admin(self) -> AdminClient:
        """A confluent-kafka admin client of that super user, kept for the life of the cluster."""
        with self._admin_lock:
            if self._admin is None:
                self._admin = AdminClient(self.internal_librdkafka())
            return self._admin

    def internal_librdkafka(self) -> dict[str, Any]:
        """Settings of that super user for confluent-kafka's clients."""
        return _quiet(librdkafka_settings(self._config, self._config.internal_login, self.bootstrap(INTERNAL)))

    # For tests.

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None, replication: int | None = None
    ) -> None:
        """Creates `name` and waits until every partition has a leader. The default replication is 1."""
        topic = NewTopic(name, partitions, replication or 1, config=dict(config or {}))
        self.admin().create_topics([topic], request_timeout=60)[name].result(60)
        self._until(lambda: self._has_leaders(name, partitions), f"topic {name} has no leaders")

    def grow_topic(self, name: str, partitions: int) -> None:
        """Adds partitions up to this number and waits until each has a leader: producers refuse unknown partitions."""
        self.admin().create_partitions([NewPartitions(name, partitions)], request_timeout=60)[name].result(60)
        self._until(lambda: self._has_leaders(name, partitions), f"topic {name} has no {partitions} partitions")

    def delete_topic(self, name: str) -> None:
        """Deletes `name` and waits until the brokers no longer know it and could create it again."""
        self.admin().delete_topics([name], request_timeout=60)[name].result(60)
        self._until(lambda: name not in self.admin().list_topics(timeout=5).topics, f"topic {name} is still there")
        if self._zookeeper is not None:
            # In ZooKeeper it exists for a while after no broker names it any more.
            self._until(lambda: self._could_create(name), f"topic {name} is not gone from ZooKeeper")

    def partition_directory(self, topic: str, partition: int, node: int = 1) -> Path:
        """The directory with a partition's segments on broker `node`."""
        return self.brokers[node - 1].log_dir / f"{topic}-{partition}"

    def dump_log(self, topic: str, partition: int, *, records: bool = True, node: int = 1) -> str:
        """The output of Kafka's DumpLogSegments for all segments of a partition: batches, and `records` with their data."""
        segments = sorted(self.partition_directory(topic, partition, node).glob("*.log"))
        if not segments:
            raise LocalError(f"broker {node} of {self.name} has no segment of {topic}-{partition}")
        files = ",".join(map(str, segments))
        return self.run_tool(
            release(self.version).log_dumper,
            ["--files", files, *(["--print-data-log"] if records else [])],
        )

    def run_tool(self, main_class: str, arguments: Iterable[str], seconds: float = 360.0) -> str:
        """Runs one of Kafka's tools and returns its standard output.

        `{config}` in an argument becomes the path of a properties file of the internal super user, `{bootstrap}` its
        servers. LocalError with the tool's last line if it fails.
        """
        return run_tool(
            main_class,
            list(arguments),
            properties=self.internal_properties(),
            directory=self.directory,
            seconds=seconds,
            version=self.version,
        )

    def _login(self, user: str | None, listener: str | None, mechanism: str | None) -> Login:
        kind = Listener(listener or self._config.listeners[0])
        if not kind.sasl:
            return Login(kind)
        chosen = user if user is not None else next(iter(self._config.users), None)
        if chosen is None or chosen not in self._config.users:
            raise LocalError(f"cluster {self.name} has no user {chosen}: give it users={{name: password}}")
        return Login(kind, chosen, self._config.users[chosen], mechanism or self._config.mechanisms[0])

    def _create_scram_users(self) -> None:
        # One request for each mechanism: librdkafka refuses a user twice in one request.
        for mechanism in self._config.mechanisms:
            if mechanism in SCRAM and self._config.users:
                upserts = [
                    UserScramCredentialUpsertion(user, ScramCredentialInfo(_scram(mechanism), 4096), password.encode())
                    for user, password in self._config.users.items()
                ]
                for done in self.admin().alter_user_scram_credentials(upserts, request_timeout=60).values():
                    done.result(60)

    def _could_create(self, topic: str) -> bool:
        asked = self.admin().create_topics([NewTopic(topic, 1, 1)], validate_only=True, request_timeout=60)
        try:
            asked[topic].result(60)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            return False
        return True

    def _has_leaders(self, topic: str, partitions: int) -> bool:
        found = self.admin().list_topics(topic, timeout=5).topics[topic].partitions
        return len(found) == partitions and all(partition.leader >= 0 for partition in found.values())

    def _until(self, condition: Callable[[], bool], problem: str, seconds: float = 180.0) -> None:
        until, cause = time.monotonic() + seconds, ""
        while True:
            try:
                if condition():
                    return
            except KafkaException as error:  # a late or lost answer: try again
                cause = f" ({error})"
            if time.monotonic() > until:
                raise NotInTime(f"cluster {self.name}: {problem} after {seconds:g} s{cause}")
            time.sleep(0.05)

    def _at_once(self, action: Callable[[Broker], None]) -> None:
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            list(pool.map(action, self.brokers))


def start_all(*clusters: LocalCluster) -> None:
    """Starts several clusters at the same time. If one fails, all are closed and its error is raised."""
    try:
        with ThreadPoolExecutor(max(1, len(clusters))) as pool:
            list(pool.map(lambda cluster: cluster.start(), clusters))
    except BaseException:
        for cluster in clusters:
            cluster.close()
        raise


def _quiet(settings: Mapping[str, str]) -> dict[str, Any]:
    # Tests stop and kill brokers all the time: otherwise librdkafka would write lines about that to standard error.
    return {**settings, "log_level": 0, "reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 500}


def _scram(mechanism: str) -> ScramMechanism:
    return ScramMechanism.SCRAM_SHA_256 if mechanism == SCRAM[0] else ScramMechanism.SCRAM_SHA_512
