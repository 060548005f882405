"""Whether a connector config is good, in Connect's words; secrets of config providers are never quoted, only references."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any, Final

from mirror_connect.app.errors import BadRequest, InvalidConfig, NotFound
from mirror_connect.app.herder.ports import Resolver
from mirror_connect.app.herder.views import Config, PluginInfo
from mirror_connect.connectors import CONNECTORS, DEFINITIONS, connector_definition
from mirror_connect.connectors.definition import ConnectorDefinition, UnknownConnectorClass
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.secrets import HIDDEN, is_secret

log = logging.getLogger(__name__)

CLASS: Final = "connector.class"
EXACTLY_ONCE: Final = "exactly.once.support"
# A version range as Maven writes it: one version, or intervals.
_VERSION: Final = re.compile(r"[^\[\](),\s]+|[\[(][^\[\]()]*[\])](,[\[(][^\[\]()]*[\])])*")


def connector_type(config: Config | None) -> str:
    """source, sink or unknown."""
    definition = CONNECTORS.get((config or {}).get(CLASS) or "")
    return definition.type if definition is not None else "unknown"


def plugins() -> list[PluginInfo]:
    """Every connector class there is."""
    found = [PluginInfo(definition.class_name, definition.type, definition.version) for definition in DEFINITIONS]
    return sorted(found, key=lambda plugin: plugin.class_name)


def plugin_settings(plugin: str, version: str | None) -> list[dict[str, Any]]:
    """The definitions of a connector's settings."""
    if version is not None and not _VERSION.fullmatch(version.strip()):
        raise BadRequest(f"Invalid version specification: {version}")
    definition = CONNECTORS.get(plugin)
    if definition is None:
        raise NotFound(f"Unknown plugin {plugin}.")
    return definition.describe()


class Validation:
    """Validates with the worker's config providers."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    async def infos(self, plugin: str, config: Config) -> dict[str, Any]:
        """The answer of `PUT /connector-plugins/{plugin}/config/validate`."""
        included = config.get(CLASS)
        if included is not None and not _without_suffix(included).endswith(_without_suffix(plugin)):
            raise BadRequest(f"Included connector type {included} does not match request type {plugin}")
        definition, resolved = await self._resolved(config)
        return definition.infos(resolved, config)

    async def check(self, config: Config) -> None:
        """Raises InvalidConfig with every error of a config that is to be stored."""
        definition, resolved = await self._resolved(config)
        errors = [error for result in definition.validate(resolved, config).values() for error in result.errors]
        if not errors and (resolved.get(EXACTLY_ONCE) or "").lower() == "required":
            # Better refused than promised: no worker copies exactly once yet.
            errors.append("This worker does not have exactly-once source support enabled.")
        if errors:
            raise InvalidConfig(errors)
        for warning in definition.warnings(_texts(resolved)):
            log.warning("Connector %s: %s", config.get("name"), warning)

    async def _resolved(self, config: Config) -> tuple[ConnectorDefinition, Config]:
        try:
            # Providers read files, and a file may hang.
            resolved: Config = {**config, **await asyncio.to_thread(self._resolver.resolve, _texts(config))}
        except ConfigError as error:
            raise BadRequest(str(error)) from None
        class_name = resolved.get(CLASS)
        if class_name is None:
            raise BadRequest(f"Connector config {_shown(config)} contains no connector type")
        try:
            return connector_definition(class_name), resolved
        except UnknownConnectorClass as error:
            raise BadRequest(str(error)) from None


def _texts(config: Config) -> dict[str, str]:
    return {name: value for name, value in config.items() if value is not None}


def _shown(config: Config) -> str:
    """As Java prints a map, without what looks like a secret: without a class no table tells."""
    shown = (f"{name}={HIDDEN if is_secret(name) else value}" for name, value in config.items())
    return "{" + ", ".join(shown) + "}"


def _without_suffix(class_name: str) -> str:
    return class_name.removesuffix("Connector") if class_name != "Connector" else class_name
