"""What the herder answers: plain values, named as Connect names them on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mirror_connect.connectors.task_protocol import TaskId

Config = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """`commit` is one word; `kafka_cluster_id` is that of the cluster with the internal topics."""

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
    """A connector as it is configured. `config` is as stored: secrets are references, or in clear if given so."""

    name: str
    config: Config = field(repr=False)
    tasks: tuple[TaskId, ...]
    type: str


@dataclass(frozen=True, slots=True)
class StateInfo:
    """`trace` is None unless there is something to show, which is FAILED as a rule."""

    state: str
    worker_id: str
    version: str | None
    trace: str | None


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """A connector as it is, with its tasks by number."""

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
