"""Which topics, groups and topic configs are mirrored: names and Java regular expressions, or a class of the user's.

DefaultTopicFilter, DefaultGroupFilter and DefaultConfigPropertyFilter of Kafka 4.3.1: the entries of a list are joined
by `|` into one expression that has to match the whole name; what is excluded wins; an empty list matches nothing.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.kept_topics import is_kept
from mirror_connect.connectors.policies import INTERFACES
from mirror_connect.connectors.replication_policy import DefaultReplicationPolicy
from mirror_connect.connectors.user_code.bounded_match import BoundedPattern, MatchTooSlow, shortened
from mirror_connect.connectors.user_code.java_regex import JavaRegexError
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
# No more entries are tried then, to find the one that makes a list slow.
BLAME_S: Final = 5.0


class Names(Protocol):
    """A decision about names; for one thread at a time."""

    def judge(self, names: Collection[str]) -> None:
        """For many names, before `matches` is asked: it may take a process, and once is enough. ConfigError as there."""

    def matches(self, name: str) -> bool:
        """Yes or no. ConfigError, which says what to blame, when there is no answer."""


@dataclass(frozen=True, slots=True)
class NameFilter:
    """One list of a config, ready to match; without a pattern, an empty list, which matches nothing.

    For one thread at a time.
    """

    pattern: BoundedPattern | None
    setting: str = ""
    entries: Sequence[str] = ()

    @classmethod
    def compile(cls, setting: str, entries: Sequence[str]) -> NameFilter:
        """ConfigError naming the setting and the entry at fault.

        The joined list counts: `(a,b)` is cut at its comma and put together again as `(a|b)`, which is valid.
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
        """For many names, before `matches` is asked: it may start a process, and once is enough. ConfigError as there."""
        if self.pattern is not None:
            try:
                self.pattern.judge(names)
            except MatchTooSlow as slow:
                raise self._too_slow(slow) from None

    def matches(self, name: str) -> bool:
        """Whether the whole name matches. ConfigError, which names the entry to blame, when that takes too long."""
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
                continue  # a part of an expression that a comma cut
        return ",".join(self.entries)


@dataclass(slots=True)
class UserNames:
    """What a class of the user's says; asked anew at each `judge`, as it may look at more than the name.

    `otherwise`: the answer of a class without that method, where it need not have it.
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
    """The decision of the class that a setting names; None for one of Kafka's. Nothing is started yet."""
    if not is_user_class(config.get(setting)):
        return None
    return UserNames(UserClass(setting, config[setting], config), next(iter(INTERFACES[SETTINGS[setting]])))


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """Which topics of a source are copied to a target: filter, naming policy, heartbeats, internal topics, cycles.

    `kept`: names on the target that no copy may have, beside those of MirrorMaker's own topics. Names on the target are
    looked at where `source_alias` is given.
    """

    policy: DefaultReplicationPolicy
    topics: Names
    excluded: Names
    target_alias: str
    heartbeats: bool = True
    source_alias: str | None = None
    kept: Collection[str] = frozenset()

    def keeping(self, kept: Collection[str]) -> TopicSelection:
        """The same with other names that no copy may have."""
        return replace(self, kept=kept)

    def judge(self, topics: Collection[str]) -> None:
        """Of many topics, before the others are asked of them. ConfigError for an expression that takes too long."""
        self.topics.judge(topics)
        self.excluded.judge(topics)

    def accepts(self, topic: str) -> bool:
        """What the topic filter alone says (DefaultTopicFilter.shouldReplicateTopic)."""
        return self.topics.matches(topic) and not self.excluded.matches(topic)

    def should_replicate(self, topic: str) -> bool:
        """Whether a topic found on the source is copied (MirrorSourceConnector.shouldReplicateTopic)."""
        return self._wanted(topic) and not self._is_kept(topic)

    def kept_back(self, topics: Collection[str]) -> dict[str, str]:
        """Topics that would be copied if their names on the target were not kept: source topic → that name."""
        found = sorted(topic for topic in topics if self._wanted(topic) and self._is_kept(topic))
        return {topic: self.policy.remote_topic(self.source_alias or "", topic) for topic in found}

    def _wanted(self, topic: str) -> bool:
        wanted = self.accepts(topic) or (self.heartbeats and self.policy.is_heartbeats(topic))
        return wanted and not self.policy.is_internal(topic) and not self.policy.is_cycle(topic, self.target_alias)

    def _is_kept(self, topic: str) -> bool:
        alias = self.source_alias
        return alias is not None and is_kept(self.policy.remote_topic(alias, topic), self.policy, self.kept)
