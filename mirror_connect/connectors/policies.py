"""What a filter or a naming policy of one's own has to be able to do: bases for classes named `python:package.module:Class`.

For people to import; docs/policies.md tells how. A class that has the methods without these bases is as good. Such a class
never runs in the worker itself (user_class.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


class Configured:
    """Gets the connector's config, secrets left out, and keeps it. A class may define `__init__(self, config)` itself."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self.config = config


class TopicFilter(Configured, ABC):
    """`topic.filter.class`: the decision is made anew at every look for topics."""

    @abstractmethod
    def should_replicate_topic(self, topic: str) -> bool:
        """Whether a topic of the source is copied, and positions of it translated."""


class GroupFilter(Configured, ABC):
    """`group.filter.class`: the decision is made anew at every look for groups."""

    @abstractmethod
    def should_replicate_group(self, group: str) -> bool:
        """Whether the positions of a consumer group are translated."""


class ConfigPropertyFilter(Configured, ABC):
    """`config.property.filter.class`. Read-only and sensitive configs, and those of a broker's file, are never asked for.

    May also have `should_replicate_source_default(self, name) -> bool`: whether a config that is at its default at the
    source is set to that value on the target. Without it `use.defaults.from` decides.
    """

    @abstractmethod
    def should_replicate_config_property(self, name: str) -> bool:
        """Whether a config of a topic is copied."""


class ReplicationPolicy(Configured, ABC):
    """`replication.policy.class`. The same question must always get the same answer: answers are remembered.

    The names of MirrorMaker's own topics are not its matter: they follow `replication.policy.separator`.
    """

    @abstractmethod
    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """The name on the target of a topic of the source."""

    @abstractmethod
    def topic_source(self, topic: str) -> str | None:
        """The alias of the cluster a topic was copied from; None for a topic that is no copy."""

    @abstractmethod
    def upstream_topic(self, topic: str) -> str | None:
        """What a topic is called on the cluster it was copied from; None for a topic that is no copy."""


@dataclass(frozen=True, slots=True)
class Method:
    """What is asked: `arguments` are named in texts; `answers`: the types an answer may have, by their Python names."""

    arguments: tuple[str, ...]
    answers: tuple[str, ...]
    required: bool = True


_YES_OR_NO: Final = ("bool",)
# Interface, as known_classes.py calls it → its methods.
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
