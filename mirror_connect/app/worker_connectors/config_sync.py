"""Configs of remote topics: copied from their source topics at creation, and synced at an interval.

Rules: mirror/topic_configs.py. Unlike MirrorMaker 2, it sends nothing if both sides are equal. If the configs of a topic
can't be read or altered, the user gets a line about it, and the other topics are still synced.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from mirror_connect.connectors.config.table import Settings
from mirror_connect.connectors.log_format import ConnectorName
from mirror_connect.connectors.mirror.topic_configs import (
    ConfigChange,
    TopicConfig,
    config_changes,
    config_property_filter,
    new_topic_configs,
    unknown_configs,
)
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.topic_config_admin import alter_topic_configs, describe_topic_configs

log = logging.getLogger(__name__)
# Source topic → remote topic, for topics that are on both clusters.
Links = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NewConfigs:
    """`configs`: topic → configs for its new remote topic. `unreadable`: topic → a line on why it can't be created."""

    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConfigChanges:
    """What a sync has to do. `changes`: remote topic → steps; `now`: remote topic → its configs.

    `unknown`: remote topic → configs that the target's brokers don't know. `unreadable`: one line for each topic.
    """

    changes: dict[str, list[ConfigChange]]
    now: Mapping[str, Sequence[TopicConfig]]
    unknown: dict[str, dict[str, str]]
    unreadable: list[str]


class ConfigSync:
    """For one thread at a time; all methods block. ClusterUnreachable; ConfigError for an expression that takes too long."""

    def __init__(self, settings: Settings) -> None:
        self._connector = settings.originals.get("name", "")
        self._rule = config_property_filter(settings)
        self._logged_unknown: set[str] = set()

    def for_new_topics(self, source: ClusterAdmin, topics: Collection[str]) -> NewConfigs:
        """The configs for remote topics that do not exist yet; `topics` of the source."""
        if not topics:
            return NewConfigs()
        described = describe_topic_configs(source, topics)
        self._judge(described.configs.values())
        # Never without its configs: if a compacted topic had a copy that deletes, records would be lost silently.
        lines = {
            topic: f"topic {topic} is not copied: {line}; or create its remote topic by hand"
            for topic, line in described.refused.items()
        } | {topic: f"topic {topic} is not copied: it no longer exists" for topic in described.absent}
        return NewConfigs(
            {topic: new_topic_configs(configs, self._rule) for topic, configs in described.configs.items()}, lines
        )

    def decide(self, source: ClusterAdmin, target: ClusterAdmin, links: Links) -> ConfigChanges:
        """What makes the configs of remote topics equal to those of their sources."""
        there = describe_topic_configs(source, links.keys())
        here = describe_topic_configs(target, [links[topic] for topic in there.configs])
        self._judge(there.configs.values())
        # The topic refresh reports topics that were deleted meanwhile.
        on_both = {
            links[topic]: (configs, here.configs[links[topic]])
            for topic, configs in there.configs.items()
            if links[topic] in here.configs
        }
        changes = {
            topic: steps
            for topic, (configs, remote) in on_both.items()
            if (steps := config_changes(configs, remote, self._rule))
        }
        unknown = {
            topic: names
            for topic, (configs, remote) in on_both.items()
            if (names := unknown_configs(configs, remote, self._rule))
        }
        return ConfigChanges(changes, here.configs, unknown, [*there.refused.values(), *here.refused.values()])

    def sync(self, source: ClusterAdmin, target: ClusterAdmin, links: Links) -> list[str]:
        """Syncs remote topics with their sources once; one line for each refused topic."""
        decided = self.decide(source, target, links)
        for topic, configs in decided.unknown.items():
            self._log_unknown(topic, configs)
        refused = change_configs(target, decided)
        for topic, steps in decided.changes.items():
            if topic not in refused:
                log.info(
                    "Connector %s: configs of topic %s: %s", ConnectorName(self._connector), topic, _changes_text(steps)
                )
        return [*decided.unreadable, *refused.values()]

    def _log_unknown(self, topic: str, configs: Mapping[str, str]) -> None:
        for name in sorted(configs.keys() - self._logged_unknown):
            self._logged_unknown.add(name)
            log.warning(
                "Connector %s: topic %s does not get %s=%s from its source: the brokers of the target do not know this "
                "config (logged once for all topics)",
                *(ConnectorName(self._connector), topic, name, configs[name]),
            )

    def _judge(self, topics: Collection[Sequence[TopicConfig]]) -> None:
        self._rule.judge([config for configs in topics for config in configs])


def change_configs(target: ClusterAdmin, decided: ConfigChanges, *, validate_only: bool = False) -> dict[str, str]:
    """Alters the configs; one line by topic for each one that was refused. `validate_only`: the brokers only check."""
    refused = alter_topic_configs(target, decided.changes, validate_only=validate_only) if decided.changes else {}
    return {topic: f"{line}; wanted: {_changes_text(decided.changes[topic])}" for topic, line in refused.items()}


def config_sync_every_s(settings: Settings) -> float:
    """Seconds between two syncs; 0 for none at all."""
    on = settings.boolean("sync.topic.configs.enabled")
    return float(settings.integer("sync.topic.configs.interval.seconds")) if on else 0.0


def _changes_text(steps: Sequence[ConfigChange]) -> str:
    return ", ".join(f"{step.name} deleted" if step.value is None else f"{step.name}={step.value}" for step in steps)
