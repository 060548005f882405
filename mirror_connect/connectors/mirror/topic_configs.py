"""The configs that a remote topic gets: at its creation, and with each sync afterwards.

The rules are DefaultConfigPropertyFilter and MirrorSourceConnector.targetConfig of Kafka 4.3.1. Values that the target
already has are not sent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from mirror_connect.connectors.config.table import Settings
from mirror_connect.connectors.mirror.filters import NameFilter, UserNames, user_names


class ConfigSource(IntEnum):
    """The source of a config's value, with the numbers of Kafka's protocol."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A config of a topic as a cluster describes it. Only Kafka's built-in value counts as a default, not a broker's."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool = False
    sensitive: bool = False

    @property
    def is_default(self) -> bool:
        """ConfigEntry.isDefault."""
        return self.source is ConfigSource.DEFAULT


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One step of an incremental alteration. `value`: None deletes the config, so that the target's default applies."""

    name: str
    value: str | None


class UserConfigs(NamedTuple):
    """A user's class for configs: whether one is copied, and whether it is copied if it has its default value."""

    copied: UserNames
    defaults: UserNames


@dataclass(frozen=True, slots=True)
class ConfigPropertyFilter:
    """Decides which configs are copied, and whether default values are. `own`: a user's class, which decides both.

    For one thread at a time.
    """

    excluded: NameFilter
    source_defaults: bool = False
    own: UserConfigs | None = None

    def judge(self, configs: Collection[TopicConfig]) -> None:
        """Decides for many configs at once, before the other methods are called for them. ConfigError, as in those."""
        names = {config.name for config in configs if not _its_brokers(config)}
        for each in (self.excluded,) if self.own is None else self.own:
            each.judge(names)

    def copies(self, config: TopicConfig) -> bool:
        """Whether a config is copied; one from the broker's own file never is."""
        if _its_brokers(config):
            return False
        return not self.excluded.matches(config.name) if self.own is None else self.own.copied.matches(config.name)

    def copies_default(self, config: TopicConfig) -> bool:
        """Whether it is also copied if it has its default value at the source."""
        return self.source_defaults if self.own is None else self.own.defaults.matches(config.name)


def _its_brokers(config: TopicConfig) -> bool:
    return config.read_only or config.sensitive or config.source is ConfigSource.STATIC_BROKER


def config_property_filter(settings: Settings) -> ConfigPropertyFilter:
    """The filter by a user's class, or by `config.properties.exclude` and `use.defaults.from` (only `source` counts)."""
    defaults = settings.originals.get("use.defaults.from") == "source"
    own = user_names("config.property.filter.class", settings.originals)
    if own is not None:
        of_defaults = UserNames(own.code, "should_replicate_source_default", otherwise=defaults)
        return ConfigPropertyFilter(NameFilter(None), own=UserConfigs(own, of_defaults))
    excluded = NameFilter.compile("config.properties.exclude", settings.texts("config.properties.exclude"))
    return ConfigPropertyFilter(excluded, defaults)


def new_topic_configs(configs: Iterable[TopicConfig], rule: ConfigPropertyFilter) -> dict[str, str]:
    """Configs to create a remote topic with."""
    return {
        config.name: config.value
        for config in configs
        if config.value is not None and rule.copies(config) and (not config.is_default or rule.copies_default(config))
    }


def config_changes(
    source: Iterable[TopicConfig], target: Iterable[TopicConfig], rule: ConfigPropertyFilter
) -> list[ConfigChange]:
    """The changes that make a remote topic's configs equal to its source's; empty if they are.

    A config with its default value at the source is deleted on the target (or set, with `use.defaults.from=source`). So a
    config that was set by hand on the target is deleted, unless it is excluded. Those of `unknown_configs` are left out.
    """
    target = list(target)
    known = {each.name for each in target}
    own: Mapping[str, str | None] = {each.name: each.value for each in target if each.source is ConfigSource.TOPIC}
    changes = []
    for config in source:
        if not rule.copies(config) or config.name not in known:
            continue
        if config.is_default and not rule.copies_default(config):
            if config.name in own:
                changes.append(ConfigChange(config.name, None))
        # An equal value from the target's brokers is not the topic's own: it may change.
        elif config.value is not None and own.get(config.name) != config.value:
            changes.append(ConfigChange(config.name, config.value))
    return changes


def unknown_configs(
    source: Iterable[TopicConfig], target: Iterable[TopicConfig], rule: ConfigPropertyFilter
) -> dict[str, str]:
    """Those of new_topic_configs that a remote topic can't have, because its brokers' release doesn't know them.

    Brokers describe every config that they know. An unknown one would make them refuse all changes of that topic.
    """
    known = {each.name for each in target}
    return new_topic_configs([config for config in source if config.name not in known], rule)
