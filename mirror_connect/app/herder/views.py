"""The herder's answers: plain values with Connect's names on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mirror_connect.connectors.task_protocol import TaskId

Config = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """`commit` is one word; `kafka_cluster_id` is the id of the cluster with the internal topics."""

    version: str
    commit: str
    kafka_cluster_id: str


@dataclass(frozen=True, slots=True)
class Health:
    """`status`: healthy, starting or unhealthy."""

    status: str
    message: str


@dataclass(frozen=True, slots=True)
class ConnectorInfo:
    """A connector as configured. `config` is as stored: secrets are references, or clear text if a user gave them so."""

    name: str
    config: Config = field(repr=False)
    tasks: tuple[TaskId, ...]
    type: str


@dataclass(frozen=True, slots=True)
class StateInfo:
    """`trace` says why it failed, or what it waits for; None if there is nothing to show. `since_ms`: see Status."""

    state: str
    worker_id: str
    version: str | None
    trace: str | None
    since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """The status of a connector, with its tasks by number."""

    name: str
    connector: StateInfo
    tasks: Mapping[int, StateInfo]
    type: str


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """A connector class."""

    class_name: str
    type: str
    version: str
