"""The names of source topics on the target, and the origin of a topic by its name.

DefaultReplicationPolicy adds the source's alias as a prefix, IdentityReplicationPolicy keeps the name. The rules are those
of Kafka 4.3.1 (connect-mirror-client); tests/fixtures/replication-policy-vectors.jsonl has its decisions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mirror_connect.connectors.config.values import parse
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.user_code.known_classes import DEFAULT_POLICY, IDENTITY_POLICY
from mirror_connect.connectors.user_code.user_class import UserClass, is_user_class

HEARTBEATS_TOPIC: Final = "heartbeats"
# A topic that came over more clusters than this has names that lead in a circle.
HOPS_MAX: Final = 250
_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_topic_name(name: str) -> bool:
    """Whether Kafka can have a topic of this name."""
    return _TOPIC_NAME.fullmatch(name) is not None and name not in (".", "..")


@dataclass(frozen=True, slots=True)
class DefaultReplicationPolicy:
    """`A.orders` is topic `orders` of cluster A. `internal_separator`: for the names of MirrorMaker's own topics."""

    separator: str = "."
    internal_separator: str = "."

    def judge(self, source_alias: str, topics: Collection[str]) -> None:
        """Finds the names of many topics at once, before `remote_topic`, if that saves time. It may block. ConfigError."""

    def remote_topic(self, source_alias: str, topic: str) -> str:
        """The name on the target."""
        return f"{source_alias}{self.separator}{topic}"

    def named_topic(self, source_alias: str, topic: str) -> str:
        """The same before transformations have given it another name."""
        return self.remote_topic(source_alias, topic)

    def source(self, topic: str) -> str | None:
        """Alias of the cluster a topic was copied from; None for a topic that is no copy."""
        # As Java's split, which drops empty parts at the end: `A.` and `A..` have no source.
        if self.separator == "":
            return topic[0] if len(topic) > 1 else None
        parts = topic.split(self.separator)
        return parts[0] if any(parts[1:]) else None

    def upstream(self, topic: str) -> str | None:
        """The topic's name on the cluster it was copied from; None for a topic that is no copy."""
        source = self.source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def original(self, topic: str) -> str:
        """The name on the first cluster of the chain."""
        upstream = self.upstream(topic)
        while upstream is not None and upstream != topic:
            topic, upstream = upstream, self.upstream(upstream)
        return topic

    def offset_syncs_topic(self, alias: str) -> str:
        """The topic of offset syncs. `alias`: of the other cluster; on the source it is that of the target."""
        return f"mm2-offset-syncs{self.internal_separator}{alias}{self.internal_separator}internal"

    def checkpoints_topic(self, source_alias: str) -> str:
        """The topic of checkpoints, on the target."""
        return f"{source_alias}{self._checkpoints_suffix}"

    def is_heartbeats(self, topic: str) -> bool:
        """Whether it is `heartbeats` or a copy of it over any number of hops."""
        return self.original(topic) == HEARTBEATS_TOPIC

    def is_checkpoints(self, topic: str) -> bool:
        """Whether it is a topic of checkpoints, of any cluster."""
        return topic.endswith(self._checkpoints_suffix)

    def is_mm2_internal(self, topic: str) -> bool:
        """Whether it is one of MirrorMaker's own topics."""
        own = topic.startswith("mm2") and topic.endswith(f"{self.internal_separator}internal")
        return own or self.is_checkpoints(topic)

    def is_internal(self, topic: str) -> bool:
        """Whether the topic is never copied, also if filters allow it."""
        return topic.startswith(("__", ".")) or self.is_mm2_internal(topic)

    def is_cycle(self, topic: str, target_alias: str) -> bool:
        """Whether the topic has been on the target before, so that copying it would never end."""
        while (source := self.source(topic)) is not None:
            if source == target_alias:
                return True
            upstream = self.upstream(topic)
            if upstream is None or upstream == topic:
                return False
            topic = upstream
        return False

    @property
    def _checkpoints_suffix(self) -> str:
        return f"{self.internal_separator}checkpoints{self.internal_separator}internal"


@dataclass(frozen=True, slots=True)
class IdentityReplicationPolicy(DefaultReplicationPolicy):
    """Keeps names, except those of heartbeats, which must show the hops. Copying in both directions would never end."""

    source_alias: str | None = None

    def remote_topic(self, source_alias: str, topic: str) -> str:
        """The same name, unless it looks like a heartbeats topic."""
        return DefaultReplicationPolicy.remote_topic(self, source_alias, topic) if _like_heartbeats(topic) else topic

    def source(self, topic: str) -> str | None:
        """The alias of the one source cluster."""
        return DefaultReplicationPolicy.source(self, topic) if _like_heartbeats(topic) else self.source_alias

    def upstream(self, topic: str) -> str | None:
        """The same name."""
        return DefaultReplicationPolicy.upstream(self, topic) if _like_heartbeats(topic) else topic


@dataclass(frozen=True, slots=True)
class UserReplicationPolicy(DefaultReplicationPolicy):
    """A user's class. Each result is cached. For one thread at a time; any call may block.

    All methods raise ConfigError, which names the class.
    """

    code: UserClass = field(kw_only=True)
    _known: dict[tuple[str, ...], Any] = field(init=False, default_factory=dict, repr=False)

    def remote_topic(self, source_alias: str, topic: str) -> str:
        """The name on the target."""
        name: str = self._ask("format_remote_topic", source_alias, topic)
        if not name:
            raise self.code.wrong(f"format_remote_topic({source_alias!r}, {topic!r}) returned '', which names no topic")
        return name

    def source(self, topic: str) -> str | None:
        """Alias of the cluster a topic was copied from; None for a topic that is no copy."""
        alias: str | None = self._ask("topic_source", topic)
        return alias

    def upstream(self, topic: str) -> str | None:
        """The topic's name on the cluster it was copied from; None for a topic that is no copy."""
        name: str | None = self._ask("upstream_topic", topic)
        return name

    def original(self, topic: str) -> str:
        """The name on the first cluster of the chain."""
        self._leads_somewhere(topic)
        return DefaultReplicationPolicy.original(self, topic)

    def is_cycle(self, topic: str, target_alias: str) -> bool:
        """Whether the topic has been on the target before, so that copying it would never end."""
        self._leads_somewhere(topic)
        return DefaultReplicationPolicy.is_cycle(self, topic, target_alias)

    def _leads_somewhere(self, topic: str) -> None:
        name, seen = topic, {topic}
        while (upstream := self.upstream(name)) is not None and upstream != name:
            if upstream in seen or len(seen) > HOPS_MAX:
                raise self.code.wrong(
                    f"upstream_topic leads from {topic!r} on without end, by {name!r} and {upstream!r}"
                )
            seen.add(upstream)
            name = upstream

    def _ask(self, method: str, *arguments: str) -> Any:
        question = (method, *arguments)
        if question not in self._known:
            self._known[question] = self.code.ask(method, [arguments])[0]
        return self._known[question]


def replication_policy(config: Mapping[str, str]) -> DefaultReplicationPolicy:
    """The policy of a connector's config; ConfigError for an unknown Java class. A user's class is not started yet."""
    separator, internal = ".", True
    if "replication.policy.separator" in config:
        # The switch counts only together with a separator, as in Java.
        separator = str(parse(config["replication.policy.separator"], "STRING")[1])
        given = config.get("replication.policy.internal.topic.separator.enabled")
        internal = given is None or given.strip().lower() == "true"
    internal_separator = separator if internal else "."
    name = config.get("replication.policy.class", DEFAULT_POLICY).strip()
    if name == DEFAULT_POLICY:
        return DefaultReplicationPolicy(separator, internal_separator)
    if name == IDENTITY_POLICY:
        return IdentityReplicationPolicy(separator, internal_separator, config.get("source.cluster.alias"))
    if is_user_class(name):
        return UserReplicationPolicy(
            separator, internal_separator, code=UserClass("replication.policy.class", name, config)
        )
    raise ConfigError("replication.policy.class", name, f"must be {DEFAULT_POLICY} or {IDENTITY_POLICY}")


def _like_heartbeats(topic: str) -> bool:
    # Kafka's rule is the end of the name, so `myheartbeats` counts, too.
    return topic.endswith(HEARTBEATS_TOPIC)
