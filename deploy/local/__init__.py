"""Kafka clusters on loopback: real brokers, which start in seconds and end with the process that started them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from deploy.local.cluster import Listener, LocalCluster, start_all
    from deploy.local.errors import LocalError, NotInTime
    from deploy.local.free_ports import free_port

__all__ = ["Listener", "LocalCluster", "LocalError", "NotInTime", "free_port", "start_all"]

# Imported on first use: `python -m deploy.local.kafka_jars` must neither be imported before nor load a Kafka client.
_HOMES: Final = {
    "Listener": "cluster",
    "LocalCluster": "cluster",
    "LocalError": "errors",
    "NotInTime": "errors",
    "free_port": "free_ports",
    "start_all": "cluster",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
