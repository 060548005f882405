"""Where a property of an mm2.properties file stands, and which names have an effect there.

A property stands at the top level, behind a cluster (`A.producer.acks`) or behind a flow (`A->B.topics`). Java ignores
the others silently.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

from mirror_connect.app.config.listener_tls import ADMIN_PREFIX, LISTENER_TLS_KEYS, MAIN_PREFIX
from mirror_connect.app.config.worker_keys import METRICS_KEYS, WORKER_KEYS
from mirror_connect.app.dedicated.mirror_maker_rules import CONNECTOR_NAMES, OF_WORKERS, OWN_NAMES, flow_prefix
from mirror_connect.app.herder.client_properties import PREFIXES, split
from mirror_connect.connectors.config.framework_settings import SOURCE_KEYS
from mirror_connect.connectors.config.security_settings import CLUSTER_CLIENT_NAMES
from mirror_connect.connectors.mirror.lookups import ALLOWED_PATHS, LOOKUP
from mirror_connect.connectors.mirror.transform_sql import SECRET as SECRET_OF_SQL
from mirror_connect.connectors.mirror.transform_sql import is_of_connectors
from mirror_connect.connectors.wording import likely_name, successor
from mirror_connect.kafka_io.client.client_keys import CLIENT_KEYS

CLUSTERS: Final = "clusters"
INTERNAL_REST: Final = "dedicated.mode.enable.internal.rest"
# Of the whole process: its REST interface, Spark, the user's own classes, its log and its metrics.
OF_PROCESS: Final = (
    *("spark.", "plugin.", "rest.", "access.control.", "response.http.headers."),
    *("listeners", "admin.listeners", "log.format"),
    *METRICS_KEYS.keys,
)


class Level(Enum):
    """Where a property stands."""

    TOP = auto()
    CLUSTER = auto()
    FLOW = auto()
    UNKNOWN_FLOW = auto()


@dataclass(frozen=True, slots=True)
class Place:
    """`prefix + name` is the property as written. `aliases`: the cluster, or source and target of the flow."""

    level: Level
    prefix: str
    name: str
    aliases: tuple[str, ...] = ()


# Other tables check what follows these.
_OPEN_OF_CONNECTORS: Final = (
    *("config.providers.", "replication.policy.", "topic.creation.", "transforms.", "predicates."),
    *("key.converter.", "value.converter.", "header.converter."),
    *(LOOKUP, SECRET_OF_SQL),
)
_OPEN_OF_WORKERS: Final = (
    *("config.providers.", "config.storage.", "offset.storage.", "status.storage.", "metrics.context."),
    *("key.converter.", "value.converter.", "header.converter."),
)
_OPEN_AT_TOP: Final = (
    *("config.providers.", "replication.policy.", "config.storage.", "offset.storage.", "status.storage.", "spark."),
    *("key.converter.", "value.converter.", "header.converter."),
)
_OF_FLOWS: Final = CONNECTOR_NAMES | OWN_NAMES | SOURCE_KEYS.keys.keys() | {"use.defaults.from"}
_OF_KINDS: Final = frozenset(f"{kind}.{name}" for kind, table in CLIENT_KEYS.items() for name in table.keys)
_OF_CLUSTERS: Final = WORKER_KEYS.keys.keys() | CLUSTER_CLIENT_NAMES
_OF_LISTENERS: Final = frozenset(
    f"{prefix}{name}" for prefix in (MAIN_PREFIX, ADMIN_PREFIX) for name in LISTENER_TLS_KEYS.keys
)
_AT_TOP: Final = (
    CONNECTOR_NAMES
    | OWN_NAMES
    | CLUSTER_CLIENT_NAMES
    | {CLUSTERS, INTERNAL_REST, *_OF_LISTENERS, *LISTENER_TLS_KEYS.keys}
    | {name for name in WORKER_KEYS.keys if name.startswith((*OF_WORKERS, *OF_PROCESS))}
)
_PREFIXED: Final = frozenset(f"{prefix}{name}" for prefix, table in PREFIXES.items() for name in table.keys)


def place_of(name: str, clusters: Collection[str]) -> Place:
    """Where the property stands in a file with these clusters."""
    if "->" in name:
        return _place_in_flow(name, clusters)
    if name not in _AT_TOP:
        # The longest alias counts: with the clusters a and a.b, `a.b.acks` is probably of the latter.
        for alias in sorted(clusters, key=len, reverse=True):
            if name.startswith(f"{alias}.") and len(name) > len(alias) + 1:
                return Place(Level.CLUSTER, f"{alias}.", name[len(alias) + 1 :], (alias,))
    return Place(Level.TOP, "", name)


def _place_in_flow(name: str, clusters: Collection[str]) -> Place:
    longest_first = sorted(clusters, key=len, reverse=True)
    for source in longest_first:
        for target in longest_first:
            prefix = flow_prefix(source, target)
            if source != target and name.startswith(prefix):
                return Place(Level.FLOW, prefix, name.removeprefix(prefix), (source, target))
    source, _, rest = name.partition("->")
    named = next((alias for alias in longest_first if rest.startswith(f"{alias}.")), None)
    if named is None:
        # Aliases may have dots: the longest known name at the end is the property.
        dots = [at for at, char in enumerate(rest) if char == "."]
        end = next((at for at in dots if rest[at + 1 :] in _OF_FLOWS), dots[0] if dots else len(rest))
        named = rest[:end]
    prefix = flow_prefix(source, named)
    return Place(Level.UNKNOWN_FLOW, prefix, name.removeprefix(prefix), (source, named))


def has_effect(place: Place) -> bool:
    """Whether the name is one that is read where it stands."""
    name = place.name
    if place.level is Level.FLOW:
        return name in _OF_FLOWS or _is_open_of_connectors(name) or name in _PREFIXED
    if place.level is Level.CLUSTER and name.startswith(OF_PROCESS):
        return False
    if place.level is Level.CLUSTER:
        return name in _OF_CLUSTERS or name in _OF_KINDS or name.startswith(_OPEN_OF_WORKERS)
    return name in _AT_TOP or (name.startswith(_OPEN_AT_TOP) and not is_of_connectors(name))


def _is_open_of_connectors(name: str) -> bool:
    return name.startswith(_OPEN_OF_CONNECTORS) and name != ALLOWED_PATHS


def of_process(name: str) -> bool:
    """Whether a property of the top level is of the process. `spark.transform.sql` is of the flows, and not Spark's."""
    return name.startswith(OF_PROCESS) and not is_of_connectors(name)


def better_place(place: Place, targets: Collection[str], flows: Collection[str]) -> str | None:
    """A name that is known, but has no effect where it stands: how to write it. None for an unknown name.

    `targets`: the clusters with workers; `flows`: the enabled flows, such as `A->B`.
    """
    name = place.name
    flow = next(iter(flows), "SOURCE->TARGET")
    if place.level is not Level.FLOW and (name in _OF_FLOWS or _is_open_of_connectors(name)):
        of_top = place.level is Level.CLUSTER and has_effect(Place(Level.TOP, "", name))
        return f"{flow}.{name}, or {name} for all flows" if of_top else f"{flow}.{name}"
    parts = split(name)
    if place.level is Level.TOP and name in _OF_KINDS and parts is not None:
        alias = flow.partition("->")[0 if parts[0] == "consumer." else 2]
        return f"{alias}.{name}"
    if parts is not None and name in _PREFIXED and place.level is Level.TOP:
        side, _, kind = parts[0].partition(".")
        alias = flow.partition("->")[0 if side == "source" else 2]
        return f"{alias}.{parts[1]}" if kind == "cluster." else f"{alias}.{kind}{parts[1]}"
    if place.level is not Level.CLUSTER and name in _OF_CLUSTERS and name not in _AT_TOP:
        alias = flow.partition("->")[2] if flows else next(iter(targets), "TARGET")
        return f"{alias}.{name}"
    if place.level is not Level.TOP and (name in _AT_TOP or (name.startswith("spark.") and not is_of_connectors(name))):
        return name
    return _with_kind(place, flow)


def _with_kind(place: Place, flow: str) -> str | None:
    """`A.isolation.level`, a client's property without its kind: `A.consumer.isolation.level`."""
    kind = next((kind for kind in ("consumer", "producer", "admin") if place.name in CLIENT_KEYS[kind]), None)
    if kind is None:
        return None
    if place.level is Level.FLOW:
        return f"{place.prefix}{'producer.override' if kind == 'producer' else f'source.{kind}'}.{place.name}"
    alias = place.aliases[0] if place.aliases else flow.partition("->")[0 if kind == "consumer" else 2]
    return f"{alias}.{kind}.{place.name}"


def successor_place(place: Place) -> str | None:
    """What replaced a name of an earlier release, as it is written; None if the name is none."""
    name = successor(place.name, _AT_TOP)
    if name is None:
        return None
    return place.prefix + name if has_effect(replace(place, name=name)) else name


def likely_place(place: Place) -> str | None:
    """The known name that an unknown one resembles, with its prefix; None if none is near."""
    known: Collection[str]
    if place.level is Level.CLUSTER:
        known = _OF_CLUSTERS | _OF_KINDS
    elif place.level is Level.TOP:
        known = _AT_TOP
    else:
        known = _OF_FLOWS | _PREFIXED
    # `emit.heartbeats` is the beginning of a name, and not near enough to it by its letters.
    longer = sorted(name for name in known if name.startswith(f"{place.name}."))
    enabled = [name for name in longer if name.endswith(".enabled")]
    found = next(iter(enabled), None) or (longer[0] if len(longer) == 1 else None) or likely_name(place.name, known)
    return None if found is None else place.prefix + found


def likely_cluster(name: str, clusters: Collection[str]) -> tuple[str, str] | None:
    """`Us-east.bootstrap.servers` of no known cluster: its alias and the rest; None if it is no such name."""
    for at, char in enumerate(name):
        if char == "." and at and (name[at + 1 :] in _OF_CLUSTERS or name[at + 1 :] in _OF_KINDS):
            alias = name[:at]
            # `source.cluster.bootstrap.servers` is a connector's property, and not of a cluster.
            return None if name in _PREFIXED or alias in clusters else (alias, name[at + 1 :])
    return None
