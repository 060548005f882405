"""Remote topics into which other source connectors of the same workers copy, too: lines that name them.

Two connectors whose `topics` overlap, or one that was left running under its old name, copy each record twice. What the
others copy follows from their stored task configs. Unknown are connectors of other worker groups, topics that a user's
policy names, names from a config provider, and clusters that two connectors reach by different addresses.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mirror_connect.app.config.config_providers import has_reference
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
_SEPARATOR: Final = "replication.policy.separator"


@dataclass(frozen=True, slots=True)
class _Started:
    """A connector of any class that is neither paused nor stopped. Its task configs are as stored.

    They have the config that the tasks work by. The connector may have got another one since, and have failed with it.
    """

    name: str
    tasks: Sequence[RawConfig] = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Copies:
    """What a source connector copies: remote topic → source topic. `source`, `target`: addresses; none: not known."""

    source: frozenset[str]
    target: frozenset[str]
    topics: Mapping[str, str]


class OtherCopies:
    """`snapshot`: the config topic of these workers; called on the event loop.

    `own`: bootstrap.servers of the worker's cluster, the target of a connector that names none.
    """

    def __init__(self, snapshot: Callable[[], ConfigSnapshot], own: str) -> None:
        self._snapshot = snapshot
        self._own = own
        # All connectors start together with the worker, and each looks at all others.
        self._known: dict[str, tuple[_Started, _Copies | None]] = {}
        self._turn = asyncio.Lock()

    async def settled(self) -> None:
        """Returns when the tasks of connectors that were created together are stored. After that, `lines` has them."""
        await asyncio.sleep(SETTLE_S)

    async def lines(self, name: str, config: RawConfig, links: Mapping[str, str]) -> list[str]:
        """Which other connectors copy into the remote topics of the connector `name` at present; empty: none.

        `config`: as written. `links`: source topic → remote topic. Heartbeats don't count: every source connector
        of a cluster copies them.
        """
        async with self._turn:
            now = self._snapshot()
            others = [other for other in now.connectors if other != name and now.target_state(other) == STARTED]
            started = [_Started(other, now.tasks(other)) for other in sorted(others)]
            # Expressions of routes may take seconds.
            return await asyncio.to_thread(self._lines, config, links, started)

    def _lines(self, config: RawConfig, links: Mapping[str, str], started: Sequence[_Started]) -> list[str]:
        mine = self._copies({remote: topic for topic, remote in links.items()}, config)
        known = self._known_copies(started)
        found = list(filter(None, (_lines_about(name, copies, mine) for name, copies in known.items())))
        lines = [line for each in found[:_SHOWN] for line in each]
        if (more := len(found) - _SHOWN) > 0:
            copy = "connector copies" if more == 1 else "connectors copy"
            lines.append(f"{more} more {copy} into the same remote topics, too")
        return lines

    def _known_copies(self, started: Sequence[_Started]) -> Mapping[str, _Copies]:
        known: dict[str, tuple[_Started, _Copies | None]] = {}
        for each in started:
            before = self._known.get(each.name)
            if before is None or not _same(before[0], each):
                before = each, self._copies_of(each)
            known[each.name] = before
        # In one assignment: the thread of a cancelled call may still be running this.
        self._known = known
        return {name: copies for name, (_, copies) in known.items() if copies is not None}

    def _copies_of(self, connector: _Started) -> _Copies | None:
        """None if it copies no topics, or if their names are not known."""
        config = set_values(connector.tasks[0]) if connector.tasks else {}
        try:
            if not isinstance(connector_definition(config.get("connector.class", "")), MirrorSource):
                return None
            if not _names_follow(config):
                return None
            texts = [task.get(ASSIGNED_PARTITIONS) or "" for task in connector.tasks]
            found = {partition.topic for text in texts for partition in stored_partitions(text)}
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


def _same(one: _Started, other: _Started) -> bool:
    # The same objects: to compare ten thousand partitions takes as long as to read them.
    return len(one.tasks) == len(other.tasks) and all(a is b for a, b in zip(one.tasks, other.tasks, strict=True))


def _names_follow(config: Mapping[str, str]) -> bool:
    """Whether the config alone says how topics are named: not a user's class, nor a config provider."""
    if is_user_class(config.get("replication.policy.class")):
        return False
    return not any(has_reference(config.get(name, "")) for name in (_ALIAS, _SEPARATOR))


def _addresses(servers: str) -> frozenset[str]:
    """A config provider's reference is like an address: who has the same one means the same cluster."""
    if has_reference(servers):
        return frozenset({servers})
    try:
        return frozenset(f"{host}:{port}".lower() for host, port in bootstrap_servers(servers))
    except ConfigError:
        return frozenset()


def _lines_about(name: str, copies: _Copies, mine: _Copies) -> list[str]:
    """What to say of the other connector `name`, which copies this. `mine`: what the connector itself copies."""
    if mine.target.isdisjoint(copies.target):
        return []
    shared = mine.topics.keys() & copies.topics.keys()
    same = {remote for remote in shared if mine.topics[remote] == copies.topics[remote]}
    twice = set() if mine.source.isdisjoint(copies.source) else same
    lines = []
    if twice:
        where, them = ("remote topics", "the topics") if len(twice) > 1 else ("remote topic", "the topic")
        topics = _listed("topic", {mine.topics[remote] for remote in twice})
        lines.append(
            f"connector {name} copies {topics} into the same {where}, too, so each record is copied more than once: stop "
            f"one of the two connectors, or add {them} to topics.exclude of one of them"
        )
    if mixed := shared - twice:
        perhaps = "; if their sources are one cluster, each record is copied more than once" if mixed & same else ""
        topics = _listed("remote topic", mixed)
        lines.append(
            f"connector {name} copies into {topics}, too: consumers there get the records of both connectors{perhaps}"
        )
    return lines


def _listed(noun: str, names: set[str]) -> str:
    more = len(names) - _SHOWN
    shown = ", ".join(sorted(names)[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return f"{noun} {shown}" if len(names) == 1 else f"{noun}s {shown}"
