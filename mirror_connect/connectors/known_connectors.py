"""The connectors that there are, by the names of their classes."""

from __future__ import annotations

from typing import Final

from mirror_connect.connectors.definition import ConnectorDefinition, UnknownConnectorClass
from mirror_connect.connectors.mirror.mirror_checkpoint import MirrorCheckpoint
from mirror_connect.connectors.mirror.mirror_heartbeat import MirrorHeartbeat
from mirror_connect.connectors.mirror.mirror_source import MirrorSource

DEFINITIONS: Final[tuple[ConnectorDefinition, ...]] = (MirrorSource(), MirrorCheckpoint(), MirrorHeartbeat())

CONNECTORS: Final[dict[str, ConnectorDefinition]] = {
    name: definition for definition in DEFINITIONS for name in definition.names
}


def connector_definition(class_name: str, written: str | None = None) -> ConnectorDefinition:
    """The connector of a class name, simple name or alias; UnknownConnectorClass with Connect's text for any other.

    `written`: the class as in the config. The text quotes it, because `class_name` may come from a config provider.
    """
    definition = CONNECTORS.get(class_name)
    if definition is None:
        available = ", ".join(sorted(known.class_name for known in DEFINITIONS))
        raise UnknownConnectorClass(
            f"Failed to find any class that implements Connector and which name matches {written or class_name}, "
            f"available connectors are: {available}"
        )
    return definition
