"""How MirrorMaker derives workers and connectors from an mm2.properties file: the rules of MirrorMakerConfig (4.3.1).

Pure functions from properties to properties. Most of them only move values, so they also serve with other values: with
each property's own name as its value, they say where a derived property comes from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from mirror_connect.connectors import DEFINITIONS
from mirror_connect.connectors.config.framework_settings import CONNECTOR_KEYS
from mirror_connect.connectors.config.security_settings import CLUSTER_CLIENT_NAMES
from mirror_connect.connectors.config.values import trim

HEARTBEATS: Final = "emit.heartbeats.enabled"
_BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
_PROVIDERS: Final = "config.providers"
_KINDS: Final = ("producer", "consumer", "admin")
# Top-level properties that go to every worker, over those of its target cluster. Java takes them by the beginning of
# their names, so tasks.max is one.
OF_WORKERS: Final = (
    *("offset.storage", "config.storage", "status.storage"),
    *("key.converter", "value.converter", "header.converter"),
    *("task", "worker", "replication.policy"),
)
# A regular expression of Java's, in which a dot matches no line end: `administrator.x` is one of these, too.
_OF_CLIENTS: Final = re.compile(r"(?:consumer|producer|admin)[^\n\r\u0085\u2028\u2029]*")
# Top-level properties that go to every connector. Java's names, and those that only this product has.
OWN_NAMES: Final = frozenset(name for definition in DEFINITIONS for name in definition.own_keys.keys)
CONNECTOR_NAMES: Final = frozenset(
    {*CONNECTOR_KEYS.keys, *(name for definition in DEFINITIONS for name in definition.keys.keys)}
)


def flow_prefix(source: str, target: str) -> str:
    """The beginning of the names of a flow's own properties: `A->B.`."""
    return f"{source}->{target}."


def java_boolean(text: str | None) -> bool:
    """Boolean.parseBoolean: `true` in any case without blanks; all else is false."""
    return text is not None and text.lower() == "true"


def cluster_pairs(properties: Mapping[str, str], clusters: Iterable[str]) -> Iterator[tuple[str, str, bool]]:
    """Source, target and `enabled` of each flow that has a worker: it is enabled, or its heartbeats are.

    For heartbeats that A->B copies, B->A has to write them to A, also where B->A itself is not enabled.
    """
    of_all = java_boolean(properties.get(HEARTBEATS, "true"))
    aliases = list(dict.fromkeys(clusters))
    for source in aliases:
        for target in aliases:
            if source == target:
                continue
            prefix = flow_prefix(source, target)
            enabled = java_boolean(properties.get(f"{prefix}enabled"))
            own = properties.get(f"{prefix}{HEARTBEATS}")
            if enabled or (of_all if own is None else java_boolean(own)):
                yield source, target, enabled


def cluster_properties(properties: Mapping[str, str], cluster: str) -> dict[str, str]:
    """`A.*` without the prefix. Logins and bootstrap.servers are copied for each kind of client.

    Those of the top level stand in for missing ones.
    """
    found = without_prefix(properties, f"{cluster}.")
    for given in (dict(found), dict(properties)):
        for name in sorted(CLUSTER_CLIENT_NAMES & given.keys()):
            for kind in _KINDS:
                found.setdefault(f"{kind}.{name}", given[name])
            found.setdefault(name, given[name])
    return found


def worker_properties(properties: Mapping[str, str], source: str, target: str) -> dict[str, str]:
    """The properties of a flow's worker, which is on the target cluster. References to config providers stay as written."""
    return {**worker_defaults(source, target), **given_to_worker(properties, target)}


def given_to_worker(properties: Mapping[str, str], target: str) -> dict[str, str]:
    """What the file says about the workers on a target cluster, without defaults."""
    found = cluster_properties(properties, target)
    for beginning in (*OF_WORKERS, _PROVIDERS):
        found |= with_beginning(properties, beginning)
    return found


def worker_defaults(source: str, target: str) -> dict[str, str]:
    """The properties that a flow's worker has if the file does not set them."""
    return {
        "client.id": f"{source}->{target}",
        "group.id": f"{source}-mm2",
        **{f"{kind}.storage.topic": f"mm2-{kind}s.{source}.internal" for kind in ("offset", "config")},
        "status.storage.topic": f"mm2-status.{source}.internal",
        **{f"{part}.converter": _BYTES for part in ("key", "value", "header")},
    }


def connector_configs(properties: Mapping[str, str], source: str, target: str) -> dict[str, dict[str, str]]:
    """The configs of a flow's three connectors by their names. References to config providers stay as written."""
    configs = {}
    for definition in DEFINITIONS:
        defaults = {
            "name": definition.simple_name,
            "connector.class": definition.class_name,
            "source.cluster.alias": source,
            "target.cluster.alias": target,
            "enabled": "false",
        }
        configs[definition.simple_name] = {**defaults, **given_to_connectors(properties, source, target)}
    return configs


def given_to_connectors(properties: Mapping[str, str], source: str, target: str) -> dict[str, str]:
    """What the file says about the connectors of a flow, without defaults: later steps win."""
    known = CONNECTOR_NAMES | OWN_NAMES
    found = {name: value for name, value in properties.items() if name in known}
    found |= with_beginning(properties, _PROVIDERS)
    found |= with_beginning(properties, "replication.policy")
    for side, cluster in (("source", source), ("target", target)):
        for name, value in cluster_properties(properties, cluster).items():
            of_clients = _OF_CLIENTS.fullmatch(name) is not None
            found[f"{side}.{name}" if of_clients else f"{side}.cluster.{name}"] = value
    return found | without_prefix(properties, flow_prefix(source, target))


def without_prefix(properties: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The properties that begin with the prefix, without it; not the prefix alone."""
    return {
        name[len(prefix) :]: value for name, value in properties.items() if name.startswith(prefix) and name != prefix
    }


def with_beginning(properties: Mapping[str, str], beginning: str) -> dict[str, str]:
    """The properties whose names begin so, with their whole names."""
    return {name: value for name, value in properties.items() if name.startswith(beginning)}


def parsed_list(text: str) -> list[str]:
    """The entries of a list as Kafka reads it: commas with blanks around them; an empty text has no entries."""
    trimmed = trim(text)
    return [entry.strip(" \t\n\x0b\f\r") for entry in trimmed.split(",")] if trimmed else []
