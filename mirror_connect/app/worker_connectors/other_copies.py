"""Remote topics into which other source connectors of the same workers copy, too: one line that names them.

Connectors whose `topics` overlap, or one that was renamed and left, copy each record twice. The topics of the others are
those of their stored task configs. Connectors of other worker groups are unknown, and so is a target that two connectors
reach by different addresses.
"""

from __future__ import annotations

import logging
import threading
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
from mirror_connect.connectors.mirror.settings import target_admin

log = logging.getLogger(__name__)

_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class StartedConnector:
    """A connector of any class that is neither paused nor stopped. Its config and its task configs are as stored."""

    name: str
    config: RawConfig = field(repr=False)
    tasks: Sequence[RawConfig] = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Copies:
    """What a source connector copies to the cluster at these addresses: remote topic → alias and topic of its source."""

    target: frozenset[str]
    origins: Mapping[str, tuple[str, str]]


class OtherCopies:
    """`snapshot`: the config topic of these workers; called on the event loop.

    `own`: bootstrap.servers of the worker's cluster, the target of a connector that names none.
    """

    def __init__(self, snapshot: Callable[[], ConfigSnapshot] | None = None, own: str = "") -> None:
        self._snapshot = snapshot
        self._own = own
        self._seen: tuple[ConfigSnapshot | None, Sequence[StartedConnector]] = (None, ())
        # All connectors start together with the worker, and each looks at all others.
        self._known: dict[str, tuple[StartedConnector, _Copies | None]] = {}
        self._lock = threading.Lock()

    def connectors(self) -> Sequence[StartedConnector]:
        """Those of this moment, for `line`. On the event loop only."""
        if self._snapshot is None:
            return ()
        now = self._snapshot()
        if self._seen[0] is not now:
            started = [name for name in now.connectors if now.target_state(name) == STARTED]
            self._seen = now, [StartedConnector(name, now.connectors[name], now.tasks(name)) for name in started]
        return self._seen[1]

    def line(
        self, name: str, config: RawConfig, links: Mapping[str, str], connectors: Sequence[StartedConnector]
    ) -> str | None:
        """Which of `connectors` copy into the same remote topics as the connector `name`; None if there are none.

        `config`: as written. `links`: source topic → remote topic. Heartbeats don't count: every source connector
        of a cluster copies them. It may block while names are judged by the expressions of routes.
        """
        alias, target = _alias(config), self._target(config)
        origins = {remote: (alias, topic) for topic, remote in links.items()}
        others: list[str] = []
        topics: set[str] = set()
        twice = False
        for other, copies in self._copies(connectors):
            if other == name or copies.target.isdisjoint(target):
                continue
            if shared := origins.keys() & copies.origins.keys():
                others.append(other)
                topics |= shared
                twice = twice or any(origins[remote] == copies.origins[remote] for remote in shared)
        return _line(sorted(others), sorted(topics), twice=twice) if others else None

    def _copies(self, connectors: Sequence[StartedConnector]) -> list[tuple[str, _Copies]]:
        with self._lock:
            known: dict[str, tuple[StartedConnector, _Copies | None]] = {}
            for each in connectors:
                before = self._known.get(each.name)
                known[each.name] = (
                    before if before is not None and _same(before[0], each) else (each, self._copies_of(each))
                )
            self._known = known
            return [(name, copies) for name, (_, copies) in known.items() if copies is not None]

    def _copies_of(self, connector: StartedConnector) -> _Copies | None:
        """None if it copies no topics, or if a config provider must tell how they are named."""
        config = set_values(connector.config)
        alias = _alias(config)
        try:
            if not isinstance(connector_definition(config.get("connector.class", "")), MirrorSource):
                return None
            policy = routed_policy(config)
            texts = [task.get(ASSIGNED_PARTITIONS) or "" for task in connector.tasks]
            found = {partition.topic for text in texts for partition in stored_partitions(text)}
            topics = [topic for topic in found if not policy.is_heartbeats(topic)]
            policy.judge(alias, topics)
            return _Copies(
                self._target(config), {policy.remote_topic(alias, topic): (alias, topic) for topic in topics}
            )
        except (ConfigError, UnknownConnectorClass):
            return None
        except Exception:  # whatever it is, it concerns that connector alone
            log.debug("What connector %s copies can't be read", connector.name, exc_info=True)
            return None

    def _target(self, config: RawConfig) -> frozenset[str]:
        named = target_admin(set_values(config)).get("bootstrap.servers") or self._own
        return frozenset(address.strip() for address in named.split(","))


def _same(one: StartedConnector, other: StartedConnector) -> bool:
    # The same objects: to compare ten thousand partitions takes as long as to read them.
    tasks = len(one.tasks) == len(other.tasks) and all(a is b for a, b in zip(one.tasks, other.tasks, strict=True))
    return one.config is other.config and tasks


def _alias(config: RawConfig) -> str:
    return config.get("source.cluster.alias") or ""


def _line(others: Sequence[str], topics: Sequence[str], *, twice: bool) -> str:
    copies = "copies" if len(others) == 1 else "copy"
    they = f"{_listed('connector', others)} {copies} into {_listed('topic', topics)}, too"
    if not twice:
        return f"{they}: consumers get the records of several sources there"
    one = "it" if len(topics) == 1 else "them"
    return f"{they}, so each record comes more than once: stop one of these connectors, or exclude {one} in one"


def _listed(noun: str, names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    shown = ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return f"{noun} {shown}" if len(names) == 1 else f"{noun}s {shown}"
