"""Which topics, groups and topic configs are mirrored: lists of names and Java regular expressions.

DefaultTopicFilter, DefaultGroupFilter and DefaultConfigPropertyFilter of Kafka 4.3.1: the entries of a list are joined
by `|` into one expression that has to match the whole name; what is excluded wins; an empty list matches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.java_regex import JavaRegexError, compile_java
from mirror_connect.connectors.replication_policy import DefaultReplicationPolicy

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


@dataclass(frozen=True, slots=True)
class NameFilter:
    """One list of a config, ready to match; None = an empty list, which matches nothing."""

    pattern: re.Pattern[str] | None

    @classmethod
    def compile(cls, setting: str, entries: Sequence[str]) -> NameFilter:
        """ConfigError naming the setting and the entry at fault.

        The joined list counts: `(a,b)` is cut at its comma and put together again as `(a|b)`, which is valid.
        """
        if not entries:
            return cls(None)
        try:
            return cls(compile_java("|".join(entries)))
        except JavaRegexError as whole:
            for entry in entries:
                try:
                    compile_java(entry)
                except JavaRegexError as error:
                    hint = "; a comma always ends an entry" if "{" in entry and "}" not in entry else ""
                    raise ConfigError(setting, entry, f"Not a regular expression: {error}{hint}") from error
            raise ConfigError(setting, ",".join(entries), f"Not a regular expression: {whole}") from whole

    def matches(self, name: str) -> bool:
        """Whether the whole name matches."""
        return self.pattern is not None and self.pattern.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """Which topics of a source are copied to a target: filter, naming policy, heartbeats, internal topics, cycles."""

    policy: DefaultReplicationPolicy
    topics: NameFilter
    excluded: NameFilter
    target_alias: str
    heartbeats: bool = True

    def accepts(self, topic: str) -> bool:
        """What the topic filter alone says (DefaultTopicFilter.shouldReplicateTopic)."""
        return self.topics.matches(topic) and not self.excluded.matches(topic)

    def should_replicate(self, topic: str) -> bool:
        """Whether a topic found on the source is copied (MirrorSourceConnector.shouldReplicateTopic)."""
        wanted = self.accepts(topic) or (self.heartbeats and self.policy.is_heartbeats(topic))
        return wanted and not self.policy.is_internal(topic) and not self.policy.is_cycle(topic, self.target_alias)
