"""Decides which topics a source connector copies and what is missing on the target. Carrying that out is mirror_source.py.

`mirror-connect plan` shows these decisions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from mirror_connect.app.worker_connectors.config_sync import ConfigSync, Links
from mirror_connect.app.worker_connectors.remote_topics import Decided, decide_changes
from mirror_connect.connectors.config.table import Settings
from mirror_connect.connectors.mirror.filters import TopicSelection
from mirror_connect.connectors.mirror.routed_policy import RoutedReplicationPolicy
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.replication_policy import is_topic_name
from mirror_connect.kafka_io.admin.admin import ClusterAdmin

_SHOWN: Final = 250


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
    assigned: Collection[str] = (),
    one_cluster: bool = False,
) -> SourceTopics:
    """Decides; blocking, because it reads the configs of topics that are to be created.

    `existing`: the topics of the target; `found`: those of the source, already judged by `selection`.
    `assigned`: topics that are copied already. `one_cluster`: whether source and target are the same cluster.
    """
    alias = settings.text("source.cluster.alias")
    copied = sorted(topic for topic in found if selection.should_replicate(topic))
    named = {topic: selection.policy.remote_topic(alias, topic) for topic in copied}
    routed = isinstance(selection.policy, RoutedReplicationPolicy)
    impossible = _impossible(named, selection, one_cluster=one_cluster) if routed else {}
    possible = {topic: name for topic, name in named.items() if topic not in impossible}
    remote, doubled = _one_to_one(possible, assigned, "transforms" if routed else "replication.policy.class")
    new = configs.for_new_topics(source, [topic for topic, name in remote.items() if name not in existing])
    changes = decide_changes(
        {name: found[topic] for topic, name in remote.items()},
        existing,
        settings.integer("replication.factor"),
        {remote[topic]: each for topic, each in new.configs.items()},
    )
    return SourceTopics(found, remote, changes, {**new.unreadable, **impossible, **doubled})


def _impossible(named: Mapping[str, str], selection: TopicSelection, *, one_cluster: bool) -> dict[str, str]:
    """A line for each topic that has no copy under the name that a RegexRouter gave: source topic → remote topic."""
    lines = {}
    for topic, name in named.items():
        if not is_topic_name(name):
            lines[topic] = f"transforms names it {name[:_SHOWN]!a} on the target, and no topic can have this name"
        elif one_cluster and name == topic:
            lines[topic] = "transforms gives its copy the same name, and source and target are the same cluster"
        elif one_cluster and selection.should_replicate(name):
            lines[topic] = (
                f"its copy {name} would be copied again without end, as source and target are the same cluster: add that "
                "name to topics.exclude"
            )
    return {topic: f"topic {topic} is not copied: {line}" for topic, line in lines.items()}


def _one_to_one(
    remote: Mapping[str, str], assigned: Collection[str], setting: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Source topic → remote topic, and a line for each topic whose remote topic another topic has already.

    A user's policy or a RegexRouter may do that, by the setting of this name. Nobody could tell the records of two topics in
    one remote topic apart. One that is copied already keeps the name.
    """
    first: dict[str, str] = {}
    for topic, name in sorted(remote.items(), key=lambda each: (each[0] not in assigned, each[0])):
        first.setdefault(name, topic)
    lines = {
        topic: f"topic {topic} is not copied: {setting} names it {name} on the target, like {first[name]}"
        for topic, name in remote.items()
        if first[name] != topic
    }
    return {topic: name for topic, name in remote.items() if topic not in lines}, lines
