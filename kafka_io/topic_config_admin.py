"""Configs of many topics: described with where each value comes from, and altered step by step.

Blocking, for an executor: each request may take the admin's time limit. A topic that is refused is a line of its own, and
the others go on. ClusterUnreachable ends the whole.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from mirror_connect.connectors.errors import NotAuthorized
from mirror_connect.connectors.topic_configs import ConfigChange, ConfigSource, TopicConfig
from mirror_connect.kafka_io.admin import AdminError, ClusterAdmin

UNKNOWN_TOPIC: Final = 3
# Topics in a request. A topic has some 40 configs, and an answer becomes objects all at once, while nothing else runs.
AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class Described:
    """`configs`: topic → its configs. `refused`: topic → one line. `absent`: topics that don't exist, or may not be seen."""

    configs: dict[str, list[TopicConfig]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)


def describe_topic_configs(admin: ClusterAdmin, topics: Collection[str]) -> Described:
    """The configs of topics, by topic."""
    found = Described()
    for topic, answer in _in_requests(
        admin, sorted(topics), _describe, "the configs of topic {} can't be read"
    ).items():
        if isinstance(answer, AdminError) and answer.code == UNKNOWN_TOPIC:
            found.absent.add(topic)
        elif isinstance(answer, AdminError | NotAuthorized):
            found.refused[topic] = str(answer)
        else:
            found.configs[topic] = answer
    return found


def alter_topic_configs(admin: ClusterAdmin, changes: Mapping[str, Sequence[ConfigChange]]) -> dict[str, str]:
    """Alters what `changes` name (topic → steps) and nothing else. One line for each topic that was refused."""

    def alter(client: AdminClient, topics: Sequence[str], left: float) -> Mapping[ConfigResource, Future[Any]]:
        asked = [
            ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[_entry(each) for each in changes[topic]])
            for topic in topics
        ]
        futures: Mapping[ConfigResource, Future[Any]] = client.incremental_alter_configs(asked, request_timeout=left)
        return futures

    answers = _in_requests(admin, sorted(changes), alter, "the configs of topic {} were not altered")
    return {topic: str(answer) for topic, answer in answers.items() if isinstance(answer, AdminError | NotAuthorized)}


def _in_requests(admin: ClusterAdmin, topics: Sequence[str], ask: Any, what: str) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    for start in range(0, len(topics), AT_ONCE):
        some = topics[start : start + AT_ONCE]
        answer = admin.each(
            lambda client, left, some=some: {
                resource.name: future for resource, future in ask(client, some, left).items()
            },  # type: ignore[misc]
            what.format,
        )
        # Converted here, so that no more than one request's answers are held as the client's many objects.
        answers |= {topic: _configs(each) if isinstance(each, dict) else each for topic, each in answer.items()}
    return answers


def _describe(client: AdminClient, topics: Sequence[str], left: float) -> Mapping[ConfigResource, Future[Any]]:
    asked = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    futures: Mapping[ConfigResource, Future[Any]] = client.describe_configs(asked, request_timeout=left)
    return futures


def _configs(entries: Mapping[str, ConfigEntry]) -> list[TopicConfig]:
    return [
        TopicConfig(entry.name, entry.value, _source(entry.source), bool(entry.is_read_only), bool(entry.is_sensitive))
        for entry in entries.values()
    ]


def _source(number: Any) -> ConfigSource:
    value = getattr(number, "value", number)
    return ConfigSource(value) if value in tuple(ConfigSource) else ConfigSource.UNKNOWN


def _entry(change: ConfigChange) -> ConfigEntry:
    if change.value is None:
        return ConfigEntry(change.name, None, incremental_operation=AlterConfigOpType.DELETE)
    return ConfigEntry(change.name, change.value, incremental_operation=AlterConfigOpType.SET)
