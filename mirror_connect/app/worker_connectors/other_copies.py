"""Remote topics into which other source connectors of the same workers copy, too: lines that name them.

Two connectors whose `topics` overlap, or one that was left running under its old name, copy each record twice. What the
others copy follows from their stored configs and task configs. Unknown are connectors of other worker groups, topics that
a user's policy names, names from a config provider, and clusters that two connectors reach by different addresses.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mirror_connect.app.storage.config_records import STARTED, RawConfig, set_values
from mirror_connect.app.storage.config_view import ConfigSnapshot
from mirror_connect.connectors import MirrorSource, connector_definition
from mirror_connect.connectors.definition import UnknownConnectorClass
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.assignment import ASSIGNED_PARTITIONS, stored_partitions
from mirror_connect.connectors.mirror.routed_policy import routed_policy
from mirror_connect.connectors.mirror.settings import source_admin, target_admin
from mirror_connect.connectors.user_code.user_class import is_user_class
from mirror_connect.kafka_io.client.addresses import bootstrap_servers

log = logging.getLogger(__name__)

# Until the tasks of connectors that were created together are stored.
SETTLE_S: Final = 5.0
_SHOWN: Final = 3
_ALIAS: Final = "source.cluster.alias"
# What decides how remote topics are named.
_NAMING: Final = (_ALIAS, "replication.policy.", "transforms", "predicates")


@dataclass(frozen=True, slots=True)
class _Started:
    """A connector of any class that is neither paused nor stopped. Its config and its task configs are as stored."""

    name: str
    config: RawConfig = field(repr=False)
    tasks: Sequence[RawConfig] = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Copies:
    """What a source connector copies: remote topic → source topic. `source`, `target`: addresses; none: not known."""

    source: frozenset[str]
    target: frozenset[str]
    topics: Mapping[str, str]


class OtherCopies:
    """`snapshot`: the config topic of these workers; called on the event loop.

    `own`: bootstrap.servers of the worker's cluster, the target of a connector that names none. `settle_s`: how many seconds
    after an assignment a connector looks at the others.
    """

    def __init__(self, snapshot: Callable[[], ConfigSnapshot], own: str, settle_s: float = SETTLE_S) -> None:
        self._snapshot = snapshot
        self._own = own
        self.settle_s = settle_s
        # All connectors start together with the worker, and each looks at all others.
        self._known: dict[str, tuple[_Started, _Copies | None]] = {}
        self._turn = asyncio.Lock()

    async def lines(self, name: str, config: RawConfig, links: Mapping[str, str]) -> list[str]:
        """Which other connectors copy into the remote topics of the connector `name` at present; empty: none.

        `config`: as written. `links`: source topic → remote topic. Heartbeats don't count: every source connector
        of a cluster copies them.
        """
        async with self._turn:
            now = self._snapshot()
            started = [
                _Started(other, now.connectors[other], now.tasks(other))
                for other in now.connectors
                if other != name and now.target_state(other) == STARTED
            ]
            # Expressions of routes may take seconds.
            return await asyncio.to_thread(self._lines, config, links, started)

    def _lines(self, config: RawConfig, links: Mapping[str, str], started: Sequence[_Started]) -> list[str]:
        mine = self._copies({remote: topic for topic, remote in links.items()}, config)
        twice, mixed = _Shared(), _Shared()
        for other, copies in self._known_copies(started).items():
            if mine.target.isdisjoint(copies.target):
                continue
            same_source = not mine.source.isdisjoint(copies.source)
            for remote in mine.topics.keys() & copies.topics.keys():
                if same_source and mine.topics[remote] == copies.topics[remote]:
                    twice.add(other, mine.topics[remote])
                else:
                    mixed.add(other, remote)
        return [*_twice(twice), *_mixed(mixed)]

    def _known_copies(self, started: Sequence[_Started]) -> Mapping[str, _Copies]:
        known: dict[str, tuple[_Started, _Copies | None]] = {}
        for each in started:
            before = self._known.get(each.name)
            if before is None or not _same(before[0], each):
                before = each, self._copies_of(each)
            known[each.name] = before
        # At once: whoever was cancelled has left a thread that may still be here.
        self._known = known
        return {name: copies for name, (_, copies) in known.items() if copies is not None}

    def _copies_of(self, connector: _Started) -> _Copies | None:
        """None if it copies no topics, or if their names are not known."""
        config = set_values(connector.config)
        try:
            if not isinstance(connector_definition(config.get("connector.class", "")), MirrorSource):
                return None
            texts = [task.get(ASSIGNED_PARTITIONS) or "" for task in connector.tasks]
            found = {partition.topic for text in texts for partition in stored_partitions(text)}
            if not found or not _names_follow(config):
                return None
            policy = routed_policy(config)
            alias = config.get(_ALIAS, "").strip()
            topics = [topic for topic in found if not policy.is_heartbeats(topic)]
            policy.judge(alias, topics)
            return self._copies({policy.remote_topic(alias, topic): topic for topic in topics}, config)
        except (ConfigError, UnknownConnectorClass):
            return None
        except Exception:  # whatever it is, it concerns that connector alone
            log.debug("What connector %s copies can't be read", connector.name, exc_info=True)
            return None

    def _copies(self, topics: Mapping[str, str], config: RawConfig) -> _Copies:
        known = set_values(config)
        target = target_admin(known).get("bootstrap.servers") or self._own
        return _Copies(_addresses(source_admin(known).get("bootstrap.servers", "")), _addresses(target), topics)


class _Shared:
    """Topics that a connector shares with others."""

    def __init__(self) -> None:
        self.connectors: set[str] = set()
        self.topics: set[str] = set()

    def add(self, connector: str, topic: str) -> None:
        self.connectors.add(connector)
        self.topics.add(topic)


def _same(one: _Started, other: _Started) -> bool:
    # The same objects: to compare ten thousand partitions takes as long as to read them.
    tasks = len(one.tasks) == len(other.tasks) and all(a is b for a, b in zip(one.tasks, other.tasks, strict=True))
    return one.config is other.config and tasks


def _names_follow(config: Mapping[str, str]) -> bool:
    """Whether the config alone says how topics are named: not a user's class, nor a config provider."""
    if is_user_class(config.get("replication.policy.class", "").strip()):
        return False
    return not any("${" in value for name, value in config.items() if name.startswith(_NAMING))


def _addresses(servers: str) -> frozenset[str]:
    """A config provider's reference is like an address: who has the same one means the same cluster."""
    if "${" in servers:
        return frozenset({servers})
    try:
        return frozenset(f"{host}:{port}".lower() for host, port in bootstrap_servers(servers))
    except ConfigError:
        return frozenset()


def _twice(shared: _Shared) -> list[str]:
    if not shared.connectors:
        return []
    several = len(shared.topics) > 1
    where, them = ("remote topics", "the topics") if several else ("remote topic", "the topic")
    return [
        f"{_who_copies(shared)} {_listed('topic', shared.topics)} into the same {where}, too, so each record is copied more "
        f"than once: stop one of these connectors, or add {them} to topics.exclude of one of them"
    ]


def _mixed(shared: _Shared) -> list[str]:
    if not shared.connectors:
        return []
    return [
        f"{_who_copies(shared)} into {_listed('remote topic', shared.topics)}, too: consumers there get the records of all "
        "these connectors"
    ]


def _who_copies(shared: _Shared) -> str:
    return f"{_listed('connector', shared.connectors)} {'copies' if len(shared.connectors) == 1 else 'copy'}"


def _listed(noun: str, names: set[str]) -> str:
    more = len(names) - _SHOWN
    shown = ", ".join(sorted(names)[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return f"{noun} {shown}" if len(names) == 1 else f"{noun}s {shown}"
