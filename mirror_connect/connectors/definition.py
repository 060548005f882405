"""What a connector is to the worker: class name, settings, checks, tasks."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from mirror_connect.connectors.config.config_table import (
    NULL_REFUSED,
    ConfigTable,
    RefusedConfig,
    Settings,
    ValidatedKey,
    infos,
)
from mirror_connect.connectors.config.framework_settings import CONNECTOR_KEYS, SOURCE_KEYS
from mirror_connect.connectors.config.plugin_version import KAFKA_VERSION

TaskConfig = dict[str, str]


class UnknownConnectorClass(Exception):
    """No connector has this class name, simple name or alias; the text is Connect's."""


class ConnectorDefinition:
    """One connector class. Subclasses give names, `keys` (theirs only), and override `check` and `warnings`."""

    class_name: ClassVar[str]
    task_class: ClassVar[str]
    keys: ClassVar[ConfigTable]
    # Of this product alone. No part of the definition that Connect's REST tells, which stays the one that tools know;
    # checked, and told in a validation, where a config has them.
    own_keys: ClassVar[ConfigTable] = ConfigTable()
    type: ClassVar[str] = "source"
    version: ClassVar[str] = KAFKA_VERSION

    def __init__(self) -> None:
        # Connect lists its source settings after the connector's when asked for the definitions, before them when
        # validating; both orders are kept because clients draw forms from them.
        self.definition_order = CONNECTOR_KEYS + self.keys + SOURCE_KEYS
        self.validation_order = CONNECTOR_KEYS + SOURCE_KEYS + self.keys

    @property
    def simple_name(self) -> str:
        """The class name without its package."""
        return self.class_name.rpartition(".")[2]

    @property
    def names(self) -> tuple[str, ...]:
        """All names that `connector.class` may give it: full, simple, and the alias without `Connector`."""
        return self.class_name, self.simple_name, self.simple_name.removesuffix("Connector")

    def describe(self) -> list[dict[str, Any]]:
        """The answer of `GET /connector-plugins/…/config`."""
        return [key.definition() for key in self.definition_order]

    def check(
        self,
        results: dict[str, ValidatedKey],
        config: Mapping[str, str | None],
        as_written: Mapping[str, str | None],
    ) -> None:
        """Rules across settings: adds errors to `results` (and entries for names without a definition).

        Error texts quote `as_written`, never `config`, whose values may come from a config provider.
        """

    def check_offset(self, partition: Mapping[str, Any], offset: Mapping[str, Any]) -> None:
        """Whether an offset that somebody wants to set for a source partition is of the connector's form: RefusedOffset.

        Members in the order of connectors/config/java_maps.py, as texts quote them.
        """

    def warnings(self, config: Mapping[str, str]) -> list[str]:
        """One line for each thing in a valid config that has no effect or may surprise."""
        return []

    def validate(
        self, config: Mapping[str, str | None], as_written: Mapping[str, str | None] | None = None
    ) -> dict[str, ValidatedKey]:
        """Every setting checked; `as_written` as in ConfigTable.validate_all."""
        results = self.validation_order.validate_all(config, as_written)
        _say_of_nulls(results, config)
        own = self.own_keys.validate_all(config, as_written)
        results |= {name: own[name] for name in self.own_keys.keys if name in config}
        self.check(results, config, config if as_written is None else as_written)
        return results

    def infos(
        self,
        config: Mapping[str, str | None],
        as_written: Mapping[str, str | None] | None = None,
        others: Mapping[str, ValidatedKey] = MappingProxyType({}),
    ) -> dict[str, Any]:
        """The answer of `PUT /connector-plugins/…/config/validate`; `name` is the class as the config writes it.

        `others`: what there is to say of settings that are not the connector's own.
        """
        name = config.get("connector.class") or self.class_name
        return infos(name, self.validation_order, {**self.validate(config, as_written), **others}.values())

    def settings(self, config: Mapping[str, str], as_written: Mapping[str, str] | None = None) -> Settings:
        """Parsed settings of a valid config; the first error is raised as ConfigError, and quotes `as_written`."""
        results = self.validate(config, as_written)
        for result in results.values():
            if result.errors:
                raise RefusedConfig(result.name, result.errors[0])
        return Settings({name: result.parsed for name, result in results.items()}, config)


def _say_of_nulls(results: Mapping[str, ValidatedKey], config: Mapping[str, str | None]) -> None:
    # Connect's herder refuses them, but judges its own settings and the connector's anew after that.
    for name, value in config.items():
        if value is None and name in SOURCE_KEYS:
            results[name].errors.append(NULL_REFUSED)
