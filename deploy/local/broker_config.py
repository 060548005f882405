"""A local broker's server.properties and formatted storage, and the settings of its clients."""

from __future__ import annotations

import base64
import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from deploy.local.tls_material import TlsMaterial

HOST: Final = "127.0.0.1"
# For brokers among themselves and this package's tools, always with a password. So an authorizer needs no super user
# ANONYMOUS, which would let every client of a plaintext listener do everything.
INTERNAL: Final = "INTERNAL"
CONTROLLER: Final = "CONTROLLER"
INTERNAL_USER: Final = "local-internal"
PLAIN: Final = "PLAIN"
SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ZOOKEEPER_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"


class Listener(StrEnum):
    """The kinds of listener a cluster can offer to clients; also the listener's name."""

    PLAINTEXT = "PLAINTEXT"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SSL = "SSL"
    SASL_SSL = "SASL_SSL"

    @property
    def sasl(self) -> bool:
        """Whether clients log in with a user and a password."""
        return self.startswith("SASL")

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.endswith("SSL")


@dataclass(frozen=True)
class Login:
    """The login of a client at a listener."""

    listener: Listener
    user: str = ""
    password: str = field(default="", repr=False)
    mechanism: str = PLAIN


@dataclass(frozen=True)
class ClusterConfig:
    """What the brokers of a cluster share."""

    name: str
    cluster_id: str
    brokers: int
    listeners: tuple[Listener, ...]
    mechanisms: tuple[str, ...]
    users: Mapping[str, str]
    internal_password: str
    authorizer: bool
    super_users: tuple[str, ...]
    tls: TlsMaterial | None
    tls_client_auth: str
    inner_login: bool = True
    zookeeper_port: int | None = None
    host: str = HOST

    def __repr__(self) -> str:
        """Without the passwords."""
        return f"ClusterConfig({self.name!r}, brokers={self.brokers})"

    @property
    def internal_login(self) -> Login:
        """The super user of brokers and tools."""
        if not self.inner_login:
            return Login(Listener.PLAINTEXT)
        return Login(Listener.SASL_PLAINTEXT, INTERNAL_USER, self.internal_password)

    @property
    def voters(self) -> int:
        """An even number of voters survives no more than one less does; the quorum is broker 1, or brokers 1 to 3."""
        return 3 if self.brokers >= 3 else 1


def random_id() -> str:
    """A Kafka uuid: 16 bytes in url-safe base64, never with a leading dash, which would look like an option."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def plain_jaas(user: str, password: str, mechanism: str = PLAIN) -> str:
    """The `sasl.jaas.config` of a client."""
    module = "plain.PlainLoginModule" if mechanism == PLAIN else "scram.ScramLoginModule"
    return f"org.apache.kafka.common.security.{module} required username={_quoted(user)} password={_quoted(password)};"


def server_properties(
    config: ClusterConfig,
    node: int,
    ports: Mapping[int, Mapping[str, int]],
    log_dir: Path,
    extra: Mapping[str, str],
) -> dict[str, str]:
    """All properties of broker `node` (1 …). `ports`: node → listener → port. `extra` overrides the others."""
    controller = node <= config.voters
    names = [*config.listeners, INTERNAL]
    advertised = [f"{name}://{config.host}:{ports[node][name]}" for name in names]
    voters = ",".join(f"{number}@{config.host}:{ports[number][CONTROLLER]}" for number in range(1, config.voters + 1))
    replication = str(min(config.brokers, 3))
    protocols = [f"{name}:{name}" for name in config.listeners]
    inner = "SASL_PLAINTEXT" if config.inner_login else "PLAINTEXT"
    quorum = {
        "node.id": str(node),
        "process.roles": "broker,controller" if controller else "broker",
        "controller.quorum.voters": voters,
        "controller.listener.names": CONTROLLER,
        "listener.security.protocol.map": ",".join([*protocols, f"{INTERNAL}:{inner}", f"{CONTROLLER}:{inner}"]),
        "listeners": ",".join(
            [*advertised, *([f"{CONTROLLER}://{config.host}:{ports[node][CONTROLLER]}"] if controller else [])]
        ),
    }
    zookeeper = {
        "broker.id": str(node),
        "zookeeper.connect": f"{HOST}:{config.zookeeper_port}",
        "zookeeper.session.timeout.ms": "5000",
        "listener.security.protocol.map": ",".join([*protocols, f"{INTERNAL}:{inner}"]),
        "listeners": ",".join(advertised),
    }
    properties = {
        **(quorum if config.zookeeper_port is None else zookeeper),
        "inter.broker.listener.name": INTERNAL,
        "advertised.listeners": ",".join(advertised),
        "log.dirs": str(log_dir),
        "offsets.topic.replication.factor": replication,
        "offsets.topic.num.partitions": "5",
        "transaction.state.log.replication.factor": replication,
        "transaction.state.log.num.partitions": "5",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": replication,
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "log.cleaner.dedupe.buffer.size": "4194304",
        # A killed broker may register again only after its old session has ended: by default nine seconds of waiting.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "auto.create.topics.enable": "false",
        **_internal_properties(config),
        **_sasl_properties(config),
        **_tls_properties(config),
        **_authorizer_properties(config),
    }
    return properties | dict(extra)


def _internal_properties(config: ClusterConfig) -> dict[str, str]:
    if not config.inner_login:
        return {}
    user, password = INTERNAL_USER, config.internal_password
    jaas = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required"
        f" username={_quoted(user)} password={_quoted(password)} user_{user}={_quoted(password)};"
    )
    properties = {"sasl.mechanism.inter.broker.protocol": PLAIN, "sasl.mechanism.controller.protocol": PLAIN}
    for name in (INTERNAL.lower(), CONTROLLER.lower()):
        properties[f"listener.name.{name}.sasl.enabled.mechanisms"] = PLAIN
        properties[f"listener.name.{name}.plain.sasl.jaas.config"] = jaas
    return properties


def _sasl_properties(config: ClusterConfig) -> dict[str, str]:
    properties = {}
    users = " ".join(f"user_{user}={_quoted(password)}" for user, password in config.users.items())
    for listener in config.listeners:
        if listener.sasl:
            prefix = f"listener.name.{listener.lower()}"
            properties[f"{prefix}.sasl.enabled.mechanisms"] = ",".join(config.mechanisms)
            for mechanism in config.mechanisms:
                module = (
                    f"plain.PlainLoginModule required {users}"
                    if mechanism == PLAIN
                    else "scram.ScramLoginModule required"
                )
                name = f"{prefix}.{mechanism.lower()}.sasl.jaas.config"
                properties[name] = f"org.apache.kafka.common.security.{module.rstrip()};"
    return properties


def _tls_properties(config: ClusterConfig) -> dict[str, str]:
    if config.tls is None:
        return {}
    return {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(config.tls.server.pkcs12),
        "ssl.keystore.password": config.tls.password,
        "ssl.key.password": config.tls.password,
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(config.tls.truststore_pkcs12),
        "ssl.truststore.password": config.tls.password,
        "ssl.client.auth": config.tls_client_auth,
    }


def _authorizer_properties(config: ClusterConfig) -> dict[str, str]:
    if not config.authorizer:
        return {}
    inner = INTERNAL_USER if config.inner_login else "ANONYMOUS"
    users = [f"User:{user}" for user in (inner, *config.super_users)]
    kind = AUTHORIZER if config.zookeeper_port is None else ZOOKEEPER_AUTHORIZER
    return {"authorizer.class.name": kind, "super.users": ";".join(users)}


def client_properties(config: ClusterConfig, login: Login, bootstrap: str) -> dict[str, str]:
    """Java client properties, with a client certificate if the brokers request one."""
    properties = {"bootstrap.servers": bootstrap, "security.protocol": str(login.listener)}
    if login.listener.sasl:
        properties["sasl.mechanism"] = login.mechanism
        properties["sasl.jaas.config"] = plain_jaas(login.user, login.password, login.mechanism)
    if login.listener.tls and config.tls is not None:
        properties["ssl.truststore.type"] = "PKCS12"
        properties["ssl.truststore.location"] = str(config.tls.truststore_pkcs12)
        properties["ssl.truststore.password"] = config.tls.password
        if config.tls_client_auth != "none":
            properties["ssl.keystore.type"] = "PKCS12"
            properties["ssl.keystore.location"] = str(config.tls.client.pkcs12)
            properties["ssl.keystore.password"] = config.tls.password
            properties["ssl.key.password"] = config.tls.password
    return properties


def librdkafka_settings(config: ClusterConfig, login: Login, bootstrap: str) -> dict[str, str]:
    """The same for confluent-kafka."""
    settings = {"bootstrap.servers": bootstrap, "security.protocol": str(login.listener)}
    if login.listener.sasl:
        settings |= {
            "sasl.mechanism": login.mechanism,
            "sasl.username": login.user,
            "sasl.password": login.password,
        }
    if login.listener.tls and config.tls is not None:
        settings["ssl.ca.location"] = str(config.tls.authority_pem)
        if config.tls_client_auth != "none":
            settings["ssl.certificate.location"] = str(config.tls.client.certificate_pem)
            settings["ssl.key.location"] = str(config.tls.client.key_pem)
    return settings


def format_storage(log_dir: Path, cluster_id: str, node: int, bootstrap_checkpoint: Path) -> None:
    """Writes the files of `kafka-storage format` without starting Java; existing ones are kept.

    meta.properties is version 1 of MetaPropertiesVersion.java; bootstrap.checkpoint holds feature levels only, so the one
    that the real tool wrote once for this version of Kafka fits every cluster.
    """
    log_dir.mkdir(parents=True, exist_ok=True)
    meta = log_dir / "meta.properties"
    if meta.exists():
        return
    shutil.copyfile(bootstrap_checkpoint, log_dir / "bootstrap.checkpoint")
    lines = ["version=1", f"cluster.id={cluster_id}", f"node.id={node}", f"directory.id={random_id()}"]
    meta.write_text("\n".join(lines) + "\n")


def stored_cluster_id(directory: Path) -> str | None:
    """The cluster id of the formatted brokers below `directory`; None if there are none."""
    for meta in sorted(directory.glob("broker-*/data/meta.properties")):
        for line in meta.read_text().splitlines():
            if line.startswith("cluster.id="):
                return line.removeprefix("cluster.id=")
    return None


def write_properties(path: Path, properties: Mapping[str, str]) -> Path:
    """A Java .properties file that only its owner can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{_escaped(name, ' :=#!')}={_escaped(value, '')}\n" for name, value in properties.items())
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)
    return path


def check_listeners(listeners: Sequence[str]) -> tuple[Listener, ...]:
    """The listeners by name; ValueError names an unknown one."""
    return tuple(Listener(name) for name in listeners)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _escaped(text: str, special: str) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    for sign in special:
        text = text.replace(sign, f"\\{sign}")
    if text.startswith(" "):
        text = f"\\{text}"
    # A .properties file is Latin-1: everything beyond ASCII is written as UTF-16 escapes.
    return "".join(sign if ord(sign) < 128 else "".join(f"\\u{unit:04x}" for unit in _utf16(sign)) for sign in text)


def _utf16(sign: str) -> list[int]:
    data = sign.encode("utf-16-be")
    return [int.from_bytes(data[start : start + 2], "big") for start in range(0, len(data), 2)]
