"""Describes the configs of many topics with the source of each value, and alters them incrementally.

Calls block, so use an executor: each request may take the admin's time limit. If a topic is refused, it gets its own line,
and the others continue. ClusterUnreachable ends the call.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from mirror_connect.connectors.mirror.topic_configs import ConfigChange, TopicConfig
from mirror_connect.connectors.rights import on_topic
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode
from mirror_connect.kafka_io.protocol.topic_configs import DescribeTopicConfigs

# Topics in a request. A topic has some 40 configs. While an answer is decoded, little else runs.
AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class Described:
    """The configs by topic. `refused`: one line by topic. `absent`: topics that don't exist or aren't visible."""

    configs: dict[str, list[TopicConfig]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)


def describe_topic_configs(admin: ClusterAdmin, topics: Collection[str]) -> Described:
    """The configs of topics, by topic."""
    found = Described()
    names = sorted(topics)
    requests = [DescribeTopicConfigs(names[start : start + AT_ONCE]) for start in range(0, len(names), AT_ONCE)]
    answers = admin.ask(requests, "asked for the configs of topics")
    for described in itertools.chain.from_iterable(answers):
        if described.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            found.absent.add(described.topic)
        elif described.error:
            what = f"the configs of topic {described.topic} can't be read"
            found.refused[described.topic] = str(
                admin.refusal(what, described.error, on_topic("DESCRIBE_CONFIGS", described.topic), described.message)
            )
        else:
            found.configs[described.topic] = described.configs
    return found


def alter_topic_configs(
    admin: ClusterAdmin, changes: Mapping[str, Sequence[ConfigChange]], *, validate_only: bool = False
) -> dict[str, str]:
    """Alters only the configs in `changes` (by topic). Returns one line for each topic that was refused.

    `validate_only`: the brokers only check.
    """

    def alter(client: AdminClient, topics: Sequence[str], left: float) -> Mapping[ConfigResource, Future[Any]]:
        asked = [
            ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[_entry(each) for each in changes[topic]])
            for topic in topics
        ]
        futures: Mapping[ConfigResource, Future[Any]] = client.incremental_alter_configs(
            asked, request_timeout=left, validate_only=validate_only
        )
        return futures

    refused: dict[str, str] = {}
    names = sorted(changes)
    for start in range(0, len(names), AT_ONCE):
        some = names[start : start + AT_ONCE]
        answers = admin.each(
            lambda client, left, some=some: alter(client, some, left),  # type: ignore[misc]
            lambda topic: f"the configs of topic {topic.name} were not altered",
            lambda topic: on_topic("ALTER_CONFIGS", topic.name),
        )
        refused |= {topic.name: str(answer) for topic, answer in answers.items() if isinstance(answer, Exception)}
    return refused


def _entry(change: ConfigChange) -> ConfigEntry:
    if change.value is None:
        return ConfigEntry(change.name, None, incremental_operation=AlterConfigOpType.DELETE)
    return ConfigEntry(change.name, change.value, incremental_operation=AlterConfigOpType.SET)
