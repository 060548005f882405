"""What a connector is: pure Python, no network, no Spark, no web framework.

The names below are those of known_connectors.py. They are imported when somebody asks for them: Spark's driver needs only
small modules of this package, and its JVM starts after their import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mirror_connect.connectors.definition import ConnectorDefinition as ConnectorDefinition
    from mirror_connect.connectors.known_connectors import CONNECTORS as CONNECTORS
    from mirror_connect.connectors.known_connectors import DEFINITIONS as DEFINITIONS
    from mirror_connect.connectors.known_connectors import connector_definition as connector_definition
    from mirror_connect.connectors.mirror.mirror_checkpoint import MirrorCheckpoint as MirrorCheckpoint
    from mirror_connect.connectors.mirror.mirror_heartbeat import MirrorHeartbeat as MirrorHeartbeat
    from mirror_connect.connectors.mirror.mirror_source import MirrorSource as MirrorSource

__all__ = ["CONNECTORS", "DEFINITIONS", "MirrorCheckpoint", "MirrorHeartbeat", "MirrorSource", "connector_definition"]


def __getattr__(name: str) -> Any:
    if name in (*__all__, "ConnectorDefinition"):
        from mirror_connect.connectors import known_connectors  # noqa: PLC0415 — see the module

        return getattr(known_connectors, name)
    raise AttributeError(f"module {__name__} has no attribute {name}")
