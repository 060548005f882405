"""Configs of remote topics: taken from their source topics at creation, and made to follow them again and again.

Rules: mirror/topic_configs.py. Unlike MirrorMaker 2 nothing is sent where both sides agree, and a topic whose configs
can't be read or altered is a line for the user that keeps no other from following.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from mirror_connect.connectors.config.config_table import Settings
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
# Source topic → remote topic, of those that are on both clusters.
Links = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NewConfigs:
    """`configs`: topic → what its remote topic is created with. `unreadable`: topic → one line; it can't be created."""

    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)


class ConfigSync:
    """For one thread at a time; all methods block. ClusterUnreachable; ConfigError for an expression that takes too long."""

    def __init__(self, settings: Settings) -> None:
        self._connector = settings.originals.get("name", "")
        self._rule = config_property_filter(settings)
        self._said_unknown: set[str] = set()

    def for_new_topics(self, source: ClusterAdmin, topics: Collection[str]) -> NewConfigs:
        """What remote topics that are not there yet are to be created with; `topics` of the source."""
        if not topics:
            return NewConfigs()
        described = describe_topic_configs(source, topics)
        self._judge(described.configs.values())
        # Not without its configs: a compacted topic whose copy deletes would lose records silently.
        lines = {
            topic: f"topic {topic} is not copied: {line}; or create its remote topic by hand"
            for topic, line in described.refused.items()
        } | {topic: f"topic {topic} is not copied: it is not there any more" for topic in described.absent}
        return NewConfigs(
            {topic: new_topic_configs(configs, self._rule) for topic, configs in described.configs.items()}, lines
        )

    def follow(self, source: ClusterAdmin, target: ClusterAdmin, links: Links) -> list[str]:
        """Makes remote topics follow their sources once; one line for each topic that is refused."""
        there = describe_topic_configs(source, links.keys())
        here = describe_topic_configs(target, [links[topic] for topic in there.configs])
        self._judge(there.configs.values())
        # What is deleted on one side meanwhile is the topic refresh's to tell.
        changes = {
            links[topic]: steps
            for topic, configs in there.configs.items()
            if (remote := here.configs.get(links[topic])) is not None
            and (steps := config_changes(configs, remote, self._rule))
        }
        for topic, configs in there.configs.items():
            if (remote := here.configs.get(links[topic])) is not None:
                self._tell_unknown(links[topic], unknown_configs(configs, remote, self._rule))
        refused = alter_topic_configs(target, changes) if changes else {}
        for topic, steps in changes.items():
            if topic not in refused:
                log.info("Connector %s: configs of topic %s: %s", self._connector, topic, _told(steps))
        return [
            *there.refused.values(),
            *here.refused.values(),
            *(f"{line}; wanted: {_told(changes[topic])}" for topic, line in refused.items()),
        ]

    def _tell_unknown(self, topic: str, configs: Mapping[str, str]) -> None:
        for name in sorted(configs.keys() - self._said_unknown):
            self._said_unknown.add(name)
            log.warning(
                "Connector %s: topic %s does not follow its source in %s=%s: the brokers of the target know no such config; "
                "this is said once for all topics",
                *(self._connector, topic, name, configs[name]),
            )

    def _judge(self, topics: Collection[Sequence[TopicConfig]]) -> None:
        self._rule.judge([config for configs in topics for config in configs])


def config_sync_every_s(settings: Settings) -> float:
    """Seconds between two rounds; 0 for none at all."""
    on = settings.boolean("sync.topic.configs.enabled")
    return float(settings.integer("sync.topic.configs.interval.seconds")) if on else 0.0


def _told(steps: Sequence[ConfigChange]) -> str:
    return ", ".join(f"{step.name} deleted" if step.value is None else f"{step.name}={step.value}" for step in steps)
