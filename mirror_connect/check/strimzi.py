"""Strimzi's resources: KafkaConnector, KafkaConnect and KafkaMirrorMaker2 as the workers and connectors they ask for.

Logins and certificates come from secrets, by config providers that the operator declares: they are not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from mirror_connect.check.document import CLASS, CONNECTOR, WORKER, Document
from mirror_connect.check.json_lines import Node
from mirror_connect.check.judgement import Setting

_GROUP: Final = "kafka.strimzi.io/"
_MIRROR: Final = "org.apache.kafka.connect.mirror."
_CONNECTORS: Final[Mapping[str, str]] = {
    "sourceConnector": "MirrorSourceConnector",
    "checkpointConnector": "MirrorCheckpointConnector",
    "heartbeatConnector": "MirrorHeartbeatConnector",
}
_PATTERNS: Final[Mapping[str, str]] = {
    "topicsPattern": "topics",
    "topicsExcludePattern": "topics.exclude",
    "groupsPattern": "groups",
    "groupsExcludePattern": "groups.exclude",
}
# Of a worker in the resource → its property.
_OF_WORKERS: Final[Mapping[str, str]] = {
    "bootstrapServers": "bootstrap.servers",
    "groupId": "group.id",
    "configStorageTopic": "config.storage.topic",
    "offsetStorageTopic": "offset.storage.topic",
    "statusStorageTopic": "status.storage.topic",
}
# What the operator sets where the resource doesn't.
_DEFAULTS: Final[Mapping[str, str]] = {
    "bootstrap.servers": "localhost:9092",
    "group.id": "connect-cluster",
    "config.storage.topic": "connect-cluster-configs",
    "offset.storage.topic": "connect-cluster-offsets",
    "status.storage.topic": "connect-cluster-status",
    "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
}
# What the operator writes for them are references to its config providers.
_LOGIN: Final[Mapping[str, str]] = {"authentication": "sasl.jaas.config", "tls": "security.protocol"}
_Members = Mapping[str, Node]


def strimzi_documents(resource: Node) -> Iterator[Document]:
    """The workers and connectors of a resource; none of another one."""
    members = _members(resource)
    if not (_text(members.get("apiVersion")) or "").startswith(_GROUP):
        return
    name = _text(_members(members.get("metadata")).get("name")) or "unnamed"
    spec = _members(members.get("spec"))
    match _text(members.get("kind")):
        case "KafkaConnector":
            yield Document(CONNECTOR, name, {"name": Setting("name", name), **_connector(spec)})
        case "KafkaConnect":
            yield _worker(name, spec)
        case "KafkaMirrorMaker2":
            yield from _mirror_maker(name, spec)


def _connector(spec: _Members) -> dict[str, Setting]:
    found = _renamed(spec, {"class": CLASS, "tasksMax": "tasks.max"})
    return found | _config(spec)


def _worker(name: str, spec: _Members) -> Document:
    given = _renamed(spec, _OF_WORKERS) | _config(spec)
    # Without a line: it stands nowhere in the resource.
    return Document(WORKER, name, given, defaults={key: value for key, value in _DEFAULTS.items() if key not in given})


def _mirror_maker(name: str, spec: _Members) -> Iterator[Document]:
    clusters = {_text(_members(each).get("alias")): _members(each) for each in _items(spec.get("clusters"))}
    # Since the resource's version v1 the target is told once, and each source where it is mirrored.
    target = _members(spec.get("target"))
    connect = target or clusters.get(_text(spec.get("connectCluster")), {})
    yield _worker(name, connect)
    for mirror in map(_members, _items(spec.get("mirrors"))):
        ends = {
            "source": _members(mirror.get("source")) or clusters.get(_text(mirror.get("sourceCluster")), {}),
            "target": target or clusters.get(_text(mirror.get("targetCluster")), {}),
        }
        shared: dict[str, Setting] = {}
        for side, cluster in ends.items():
            renames = {"alias": "alias", "bootstrapServers": "bootstrap.servers"}
            shared |= _renamed(cluster, {key: f"{side}.cluster.{value}" for key, value in renames.items()})
            for login, setting in _LOGIN.items():
                if login in cluster:
                    reference = f"${{operator:{login}}}"
                    shared[f"{side}.cluster.{setting}"] = Setting(login, reference, cluster[login].line, literal=False)
        shared |= _renamed(mirror, _PATTERNS)
        aliases = "->".join(_text(cluster.get("alias")) or "" for cluster in ends.values())
        for key, kind in _CONNECTORS.items():
            if key in mirror:
                connector = f"{aliases}.{kind}"
                own = {"name": Setting("name", connector), CLASS: Setting(key, _MIRROR + kind, mirror[key].line)}
                spec_of_it = _members(mirror[key])
                found = own | shared | _renamed(spec_of_it, {"tasksMax": "tasks.max"}) | _config(spec_of_it)
                yield Document(CONNECTOR, connector, found)


def _renamed(members: _Members, names: Mapping[str, str]) -> dict[str, Setting]:
    return {
        names[key]: Setting(key, _text(node), node.line)
        for key, node in members.items()
        if key in names and not isinstance(node.value, dict | list)
    }


def _config(spec: _Members) -> dict[str, Setting]:
    return {key: Setting(key, _text(node), node.line) for key, node in _members(spec.get("config")).items()}


def _members(node: Node | None) -> _Members:
    return node.value if node is not None and isinstance(node.value, dict) else {}


def _items(node: Node | None) -> list[Node]:
    return node.value if node is not None and isinstance(node.value, list) else []


def _text(node: Node | None) -> str | None:
    return node.value if node is not None and isinstance(node.value, str) else None
