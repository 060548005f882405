"""Decides which topics a source connector copies and what is missing on the target. Carrying that out is mirror_source.py.

`mirror-connect plan` shows these decisions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mirror_connect.app.worker_connectors.config_sync import ConfigSync, Links
from mirror_connect.app.worker_connectors.remote_topics import Decided, decide_changes
from mirror_connect.connectors.config.table import Settings
from mirror_connect.connectors.mirror.filters import TopicSelection
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.admin.admin import ClusterAdmin


@dataclass(frozen=True, slots=True)
class SourceTopics:
    """`found`: every topic of the source, with its partitions. `remote`: copied topic → its remote topic.

    `changes`: what is to be done on the target first. `refused`: topic → a line on why it is not copied.
    """

    found: Mapping[str, int]
    remote: Mapping[str, str]
    changes: Decided
    refused: Mapping[str, str]

    def partitions(self, there: Mapping[str, int]) -> list[TopicPartition]:
        """The partitions to copy. `there`: remote topic → its partitions now.

        A partition that the target does not have yet waits: its task would fail, with all its other partitions.
        """
        return [
            TopicPartition(topic, partition)
            for topic, name in sorted(self.remote.items())
            for partition in range(min(self.found[topic], there[name]))
        ]

    def links(self, there: Mapping[str, int]) -> Links:
        """Source topic → remote topic, for topics on both clusters."""
        return {topic: name for topic, name in self.remote.items() if there[name] > 0}


def decide_topics(
    settings: Settings,
    selection: TopicSelection,
    configs: ConfigSync,
    source: ClusterAdmin,
    *,
    existing: Mapping[str, int],
    found: Mapping[str, int],
) -> SourceTopics:
    """Decides; blocking, because it reads the configs of topics that are to be created.

    `existing`: the topics of the target; `found`: those of the source, already judged by `selection`.
    """
    alias = settings.text("source.cluster.alias")
    copied = sorted(topic for topic in found if selection.should_replicate(topic))
    remote, doubled = _one_to_one({topic: selection.policy.remote_topic(alias, topic) for topic in copied})
    new = configs.for_new_topics(source, [topic for topic, name in remote.items() if name not in existing])
    changes = decide_changes(
        {name: found[topic] for topic, name in remote.items()},
        existing,
        settings.integer("replication.factor"),
        {remote[topic]: each for topic, each in new.configs.items()},
    )
    return SourceTopics(found, remote, changes, {**new.unreadable, **doubled})


def _one_to_one(remote: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Source topic → remote topic, and a line for each topic whose remote topic another topic has already.

    A user's policy may do that. Nobody could tell the records of two topics in one remote topic apart.
    """
    first: dict[str, str] = {}
    for topic, name in remote.items():
        first.setdefault(name, topic)
    lines = {
        topic: f"topic {topic} is not copied: replication.policy.class names it {name} on the target, like {first[name]}"
        for topic, name in remote.items()
        if first[name] != topic
    }
    return {topic: name for topic, name in remote.items() if topic not in lines}, lines
