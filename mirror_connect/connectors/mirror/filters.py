"""Decides which topics, groups and topic configs are mirrored: by names and Java regular expressions, or a user's class.

As DefaultTopicFilter, DefaultGroupFilter and DefaultConfigPropertyFilter of Kafka 4.3.1: the entries of a list are joined
by `|` into one expression that must match the whole name. Exclusion wins, and an empty list matches nothing.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Protocol

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.policies import INTERFACES
from mirror_connect.connectors.replication_policy import DefaultReplicationPolicy
from mirror_connect.connectors.user_code.bounded_match import BoundedPattern, MatchTooSlow, shortened
from mirror_connect.connectors.user_code.java_characters import JavaRegexError
from mirror_connect.connectors.user_code.user_class import SETTINGS, UserClass, is_user_class

TOPICS_DEFAULT: Final = [".*"]
TOPICS_EXCLUDE_DEFAULT: Final = [r"mm2.*\.internal", r".*\.replica", "__.*"]
GROUPS_DEFAULT: Final = [".*"]
GROUPS_EXCLUDE_DEFAULT: Final = ["console-consumer-.*", "connect-.*", "__.*"]
CONFIG_PROPERTIES_EXCLUDE_DEFAULT: Final = [
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "message.timestamp.difference.max.ms",
    "log.message.timestamp.before.max.ms",
    "log.message.timestamp.after.max.ms",
    "message.timestamp.type",
    "unclean.leader.election.enable",
    "min.insync.replicas",
]
# How long single entries are tried, to find the one that makes a list slow.
BLAME_S: Final = 5.0


class Names(Protocol):
    """Decides about names. For one thread at a time."""

    def judge(self, names: Collection[str]) -> None:
        """Decides for many names at once, before `matches`: it may start a process, and once is enough. ConfigError."""

    def matches(self, name: str) -> bool:
        """Whether the name matches. ConfigError with the cause if that can't be decided."""


@dataclass(frozen=True, slots=True)
class NameFilter:
    """One list of a config, compiled. An empty list has no pattern and matches nothing.

    For one thread at a time.
    """

    pattern: BoundedPattern | None
    setting: str = ""
    entries: Sequence[str] = ()

    @classmethod
    def compile(cls, setting: str, entries: Sequence[str]) -> NameFilter:
        """Compiles a list. ConfigError names the setting and the wrong entry.

        The joined list counts: `(a,b)` is split at its comma and joined as `(a|b)`, which is valid.
        """
        if not entries:
            return cls(None)
        try:
            return cls(BoundedPattern("|".join(entries)), setting, tuple(entries))
        except JavaRegexError as whole:
            for entry in entries:
                try:
                    BoundedPattern(entry)
                except JavaRegexError as error:
                    hint = "; a comma always ends an entry" if "{" in entry and "}" not in entry else ""
                    raise ConfigError(setting, entry, f"Not a regular expression: {error}{hint}") from error
            raise ConfigError(setting, ",".join(entries), f"Not a regular expression: {whole}") from whole

    def judge(self, names: Collection[str]) -> None:
        """See Names."""
        if self.pattern is not None:
            try:
                self.pattern.judge(names)
            except MatchTooSlow as slow:
                raise self._too_slow(slow) from None

    def matches(self, name: str) -> bool:
        """Whether the whole name matches. ConfigError names the slow entry if it takes too long."""
        try:
            return self.pattern is not None and self.pattern.matches(name)
        except MatchTooSlow as slow:
            raise self._too_slow(slow) from None

    def _too_slow(self, slow: MatchTooSlow) -> ConfigError:
        return ConfigError(
            self.setting,
            shortened(self._slow_entry(slow.name)),
            f"{slow}; simplify the expression, it can split a name in too many ways, as (a|aa)+ does",
        )

    def _slow_entry(self, name: str | None) -> str:
        """The first entry that is too slow by itself for a name; the whole list if none is."""
        given_up = time.monotonic() + BLAME_S
        for entry in self.entries if len(self.entries) > 1 and name is not None else ():
            if time.monotonic() > given_up:
                break
            try:
                BoundedPattern(entry).matches(name or "")
            except MatchTooSlow:
                return entry
            except JavaRegexError:
                continue  # a part of an expression that contains a comma
        return ",".join(self.entries)


@dataclass(slots=True)
class UserNames:
    """The answers of a user's class. Each `judge` calls it again, because the class may use more than the name.

    `otherwise`: the answer if the class lacks this optional method.
    """

    code: UserClass
    method: str
    otherwise: bool | None = None
    _known: dict[str, bool] = field(init=False, default_factory=dict)

    def judge(self, names: Collection[str]) -> None:
        """See Names."""
        if self._mute():
            return
        asked = list(dict.fromkeys(names))
        self._known = dict(zip(asked, self.code.ask(self.method, [[name] for name in asked]), strict=True))

    def matches(self, name: str) -> bool:
        """See Names."""
        if self.otherwise is not None and self._mute():
            return self.otherwise
        if name not in self._known:
            self._known[name] = self.code.ask(self.method, [[name]])[0]
        return self._known[name]

    def _mute(self) -> bool:
        return self.otherwise is not None and not self.code.has(self.method)


def user_names(setting: str, config: Mapping[str, str]) -> UserNames | None:
    """Decides by the user's class that a setting names; None for one of Kafka's. No process is started yet."""
    if not is_user_class(config.get(setting)):
        return None
    return UserNames(UserClass(setting, config[setting], config), next(iter(INTERFACES[SETTINGS[setting]])))


class LeftOut(StrEnum):
    """Why a topic of the source is not copied."""

    NOT_SELECTED = "not_selected"  # topics, or a user's class, does not accept it
    EXCLUDED = "excluded"  # topics.exclude
    INTERNAL = "internal"  # it is internal to a cluster, by its name at the source
    CYCLE = "cycle"  # it came from the target
    RESERVED = "reserved"  # its copy would be a topic of the worker or of MirrorMaker


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """Which topics of a source are copied to a target: filter, naming policy, heartbeats, internal topics, cycles.

    `reserved`: names on the target that no copy may have, beside those of MirrorMaker's own topics. Names on the target are
    checked if `source_alias` is given.
    """

    policy: DefaultReplicationPolicy
    topics: Names
    excluded: Names
    target_alias: str
    heartbeats: bool = True
    source_alias: str | None = None
    reserved: Collection[str] = frozenset()

    def with_reserved(self, reserved: Collection[str]) -> TopicSelection:
        """The same selection with more names that no copy may have."""
        return replace(self, reserved=frozenset(self.reserved).union(reserved))

    def judge(self, topics: Collection[str]) -> None:
        """Decides for many topics at once, before the other methods are called. ConfigError for a slow expression."""
        self.topics.judge(topics)
        self.excluded.judge(topics)
        self.policy.judge(self.source_alias or "", [topic for topic in topics if self.accepts(topic)])

    def accepts(self, topic: str) -> bool:
        """The answer of the topic filter alone (DefaultTopicFilter.shouldReplicateTopic)."""
        return self.topics.matches(topic) and not self.excluded.matches(topic)

    def should_replicate(self, topic: str) -> bool:
        """Whether a topic found on the source is copied (MirrorSourceConnector.shouldReplicateTopic)."""
        return self.left_out(topic) is None

    def left_out(self, topic: str) -> LeftOut | None:
        """Why a topic found on the source is not copied; None if it is."""
        filtered = None
        if not self.topics.matches(topic):
            filtered = LeftOut.NOT_SELECTED
        elif self.excluded.matches(topic):
            filtered = LeftOut.EXCLUDED
        if filtered is not None and not (self.heartbeats and self.policy.is_heartbeats(topic)):
            return filtered
        if self.policy.is_internal(topic):
            return LeftOut.INTERNAL
        if self.policy.is_cycle(topic, self.target_alias):
            return LeftOut.CYCLE
        return LeftOut.RESERVED if self._is_reserved(topic) else None

    def reserved_topics(self, topics: Collection[str]) -> dict[str, str]:
        """Topics that would be copied if their names on the target were not reserved: source topic → that name."""
        found = sorted(topic for topic in topics if self.left_out(topic) is LeftOut.RESERVED)
        return {topic: self.policy.remote_topic(self.source_alias or "", topic) for topic in found}

    def _is_reserved(self, topic: str) -> bool:
        alias = self.source_alias
        return alias is not None and is_reserved(self.policy.remote_topic(alias, topic), self.policy, self.reserved)


def is_reserved(remote_topic: str, policy: DefaultReplicationPolicy, reserved: Collection[str]) -> bool:
    """Whether no copy may have this name on the target: it is the worker's (`reserved`) or one of MirrorMaker's own topics.

    Workers and MirrorMaker trust the records of these topics. If a copy had such a name, a writer of a source topic could
    write connectors, offsets and checkpoints on the target. MirrorMaker 2 only checks the name at the source. Here the
    name on the target counts.
    """
    return remote_topic in reserved or policy.is_mm2_internal(remote_topic)
