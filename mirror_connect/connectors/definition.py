"""What a connector is to the worker: class name, settings, checks, tasks."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final

from mirror_connect.connectors.config.framework_settings import CONNECTOR_KEYS, SOURCE_KEYS
from mirror_connect.connectors.config.plugin_version import KAFKA_VERSION
from mirror_connect.connectors.config.table import (
    NULL_REFUSED,
    ConfigTable,
    RefusedConfig,
    Settings,
    ValidatedKey,
)

TaskConfig = dict[str, str]
# No reference to a config provider is left, as far as the caller knows.
NONE_LEFT: Final[Mapping[str, str]] = MappingProxyType({})


class UnknownConnectorClass(Exception):
    """No connector has this class name, simple name or alias; the text is Connect's."""


class ConnectorDefinition:
    """One connector class. Subclasses declare names and their own `keys`, and override `check` and `warnings`."""

    class_name: ClassVar[str]
    task_class: ClassVar[str]
    keys: ClassVar[ConfigTable]
    # Settings that only this product has. Connect's REST does not list them, so tools see the definition that they know.
    # A validation checks and shows them if a config has them.
    own_keys: ClassVar[ConfigTable] = ConfigTable()
    type: ClassVar[str] = "source"
    # Whether its tasks write a few records of their own, and so do little whatever the clusters hold.
    light: ClassVar[bool] = False
    version: ClassVar[str] = KAFKA_VERSION

    def __init__(self) -> None:
        # Connect lists its source settings after the connector's in definitions, and before them in validations. Both
        # orders are kept, because clients draw forms from them.
        self.definition_order = CONNECTOR_KEYS + self.keys + SOURCE_KEYS
        self.validation_order = CONNECTOR_KEYS + SOURCE_KEYS + self.keys

    @property
    def simple_name(self) -> str:
        """The class name without its package."""
        return self.class_name.rpartition(".")[2]

    @property
    def names(self) -> tuple[str, ...]:
        """All names for `connector.class`: full, simple, and the alias without `Connector`."""
        return self.class_name, self.simple_name, self.simple_name.removesuffix("Connector")

    def describe(self) -> list[dict[str, Any]]:
        """The answer of `GET /connector-plugins/…/config`."""
        return [key.definition() for key in self.definition_order]

    def check(
        self,
        results: dict[str, ValidatedKey],
        config: Mapping[str, str | None],
        as_written: Mapping[str, str | None],
        unresolved: Mapping[str, str],
    ) -> None:
        """Rules across settings: adds errors to `results` (and entries for names without a definition).

        Error texts quote `as_written`, never `config`, whose values may come from a config provider. `unresolved`: by
        setting, why a reference to a config provider is left in its value, half a sentence.
        """

    def of_flow(self, config: Mapping[str, str | None]) -> Mapping[str, str | None]:
        """What of a flow's config concerns this connector: dedicated mode gives all three connectors the same settings.

        REST refuses the rest where a config is written for one connector.
        """
        return config

    def check_offset(self, partition: Mapping[str, Any], offset: Mapping[str, Any]) -> None:
        """Checks an offset that a client wants to set for a source partition: RefusedOffset.

        Texts quote the members in the order of connectors/config/java_maps.py.
        """

    def idle_offset(self, config: Mapping[str, str], partition: Mapping[str, Any]) -> str | None:
        """Why no task of this config will read an offset that a client has set, half a sentence; None if one may."""
        return None

    def exactly_once(self, config: Mapping[str, str]) -> bool | None:
        """Whether the connector says that it can copy exactly once with this config; None if it does not say."""
        return None

    def warnings(self, config: Mapping[str, str]) -> list[str]:
        """One line for each setting of a valid config that has no effect or may surprise."""
        return []

    def validate(
        self,
        config: Mapping[str, str | None],
        as_written: Mapping[str, str | None] | None = None,
        unresolved: Mapping[str, str] = NONE_LEFT,
    ) -> dict[str, ValidatedKey]:
        """Checks every setting; `as_written` as in ConfigTable.validate_all, `unresolved` as in `check`."""
        results = self.validation_order.validate_all(config, as_written)
        _refuse_nulls(results, config)
        own = self.own_keys.validate_all(config, as_written)
        results |= {name: own[name] for name in self.own_keys.keys if name in config}
        self.check(results, config, config if as_written is None else as_written, unresolved)
        return results

    def settings(self, config: Mapping[str, str], as_written: Mapping[str, str] | None = None) -> Settings:
        """Parsed settings of a valid config; the first error is raised as ConfigError, and quotes `as_written`."""
        results = self.validate(self.of_flow(config), None if as_written is None else self.of_flow(as_written))
        for result in results.values():
            if result.errors:
                raise RefusedConfig(result.name, result.errors[0])
        # A validation shows only own keys that the config has; here each has a value, its default if need be.
        own = self.own_keys.validate_all(config)
        return Settings({name: result.parsed for name, result in (own | results).items()}, config)


def _refuse_nulls(results: Mapping[str, ValidatedKey], config: Mapping[str, str | None]) -> None:
    # Connect's herder refuses nulls, but validates its own settings and the connector's again after that.
    for name, value in config.items():
        if value is None and name in SOURCE_KEYS:
            results[name].errors.append(NULL_REFUSED)
