"""The plugins of a worker, their settings, and the plugin versions that a request may ask for."""

from __future__ import annotations

from typing import Any, Final

from mirror_connect.app.errors import BadRequest, NotFound
from mirror_connect.app.herder.views import Config, PluginInfo
from mirror_connect.connectors import CONNECTORS, DEFINITIONS
from mirror_connect.connectors.config.alias_settings import plugin_table
from mirror_connect.connectors.config.converter_settings import converter_table
from mirror_connect.connectors.config.plugin_version import KAFKA_VERSION, NoVersion, unavailable
from mirror_connect.connectors.mirror.transforms import SUPPORTED
from mirror_connect.connectors.user_code.known_classes import (
    CLASS_ALIASES,
    CONVERTER,
    HEADER_CONVERTER,
    KNOWN_CLASSES,
    PREDICATE,
)

CLASS: Final = "connector.class"
_PREDICATES: Final = tuple(sorted(name for name, interfaces in KNOWN_CLASSES.items() if PREDICATE in interfaces))


def connector_type(config: Config | None) -> str:
    """source, sink or unknown."""
    definition = CONNECTORS.get((config or {}).get(CLASS) or "")
    return definition.type if definition is not None else "unknown"


def plugins(*, connectors_only: bool) -> list[PluginInfo]:
    """All connector classes; unless `connectors_only` also the converters, transformations and predicates of configs."""
    found = [PluginInfo(definition.class_name, definition.type, definition.version) for definition in DEFINITIONS]
    found.sort(key=lambda plugin: plugin.class_name)
    if not connectors_only:
        for interface, kind in ((CONVERTER, "converter"), (HEADER_CONVERTER, "header_converter")):
            names = sorted(name for name, interfaces in KNOWN_CLASSES.items() if interface in interfaces)
            found += [PluginInfo(name, kind, KAFKA_VERSION) for name in names]
        found += [PluginInfo(name, "transformation", KAFKA_VERSION) for name in SUPPORTED]
        found += [PluginInfo(name, "predicate", KAFKA_VERSION) for name in _PREDICATES]
    return found


def plugin_settings(plugin: str, version: str | None) -> list[dict[str, Any]]:
    """The definitions of the settings of a connector, converter, transformation or predicate."""
    if version is not None:
        check_form(version)
    definition = CONNECTORS.get(plugin)
    class_name = definition.class_name if definition is not None else CLASS_ALIASES.get(plugin, plugin)
    table = plugin_table(class_name) if class_name in (*SUPPORTED, *_PREDICATES) else converter_table(class_name)
    if definition is None and table is None:
        raise NotFound(f"Unknown plugin {plugin}.")
    if version is not None:
        check_available(class_name, version, kinds=len(KNOWN_CLASSES[class_name]))
    return definition.describe() if definition is not None else [key.definition() for key in table or ()]


def check_form(version: str | None) -> None:
    """Raises BadRequest if `version` is neither a version nor a range."""
    try:
        unavailable("", version)
    except NoVersion:
        raise BadRequest(f"Invalid version specification: {version}") from None


def check_available(class_name: str, version: str | None, kinds: int = 1) -> None:
    """Raises BadRequest, with Connect's text, if the only version that exists does not match."""
    problem = unavailable(class_name, version, kinds)
    if problem is not None:
        raise BadRequest(problem)
