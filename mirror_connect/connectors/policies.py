"""Base classes for filters and policies of users, which settings name as `python:package.module:Class`.

Users import them as docs/policies.md describes. A class with the same methods and without these bases works, too. Such a
class never runs in the worker's process (user_class.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


class Configured:
    """Keeps the connector's config, which comes without secrets. A class may define `__init__(self, config)` itself."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self.config = config


class TopicFilter(Configured, ABC):
    """`topic.filter.class`. Called for each topic at each refresh of topics."""

    @abstractmethod
    def should_replicate_topic(self, topic: str) -> bool:
        """Whether a topic of the source is copied, and committed offsets in it are translated."""


class GroupFilter(Configured, ABC):
    """`group.filter.class`. Called for each group at each refresh of groups."""

    @abstractmethod
    def should_replicate_group(self, group: str) -> bool:
        """Whether the committed offsets of a consumer group are translated."""


class ConfigPropertyFilter(Configured, ABC):
    """`config.property.filter.class`. It is never called for read-only and sensitive configs, and those of a broker's file.

    It may also have `should_replicate_source_default(self, name) -> bool`: whether the default value of a config at the
    source is set on the target. Without this method `use.defaults.from` decides.
    """

    @abstractmethod
    def should_replicate_config_property(self, name: str) -> bool:
        """Whether this config of topics is copied."""


class ReplicationPolicy(Configured, ABC):
    """`replication.policy.class`. Equal calls must always return the same, because results are cached.

    It doesn't name MirrorMaker's own topics: they follow `replication.policy.separator`.
    """

    @abstractmethod
    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """The name of a source topic on the target."""

    @abstractmethod
    def topic_source(self, topic: str) -> str | None:
        """The alias of the cluster a topic was copied from; None for a topic that is no copy."""

    @abstractmethod
    def upstream_topic(self, topic: str) -> str | None:
        """A topic's name on the cluster it was copied from; None for a topic that is no copy."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method. `arguments`: their names in texts. `answers`: the types it may return, by their Python names."""

    arguments: tuple[str, ...]
    answers: tuple[str, ...]
    required: bool = True


_YES_OR_NO: Final = ("bool",)
# Interface by its name in known_classes.py → its methods.
INTERFACES: Final[Mapping[str, Mapping[str, Method]]] = {
    "TopicFilter": {"should_replicate_topic": Method(("topic",), _YES_OR_NO)},
    "GroupFilter": {"should_replicate_group": Method(("group",), _YES_OR_NO)},
    "ConfigPropertyFilter": {
        "should_replicate_config_property": Method(("name",), _YES_OR_NO),
        "should_replicate_source_default": Method(("name",), _YES_OR_NO, required=False),
    },
    "ReplicationPolicy": {
        "format_remote_topic": Method(("source_alias", "topic"), ("str",)),
        "topic_source": Method(("topic",), ("str", "NoneType")),
        "upstream_topic": Method(("topic",), ("str", "NoneType")),
    },
}
