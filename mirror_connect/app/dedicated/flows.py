"""What an mm2.properties file asks a process to run: its flows, as plain values.

A flow is one direction between two clusters. It has a worker of its own on its target cluster, and three connectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mirror_connect.app.dedicated.findings import Mm2Finding


@dataclass(frozen=True, slots=True)
class Flow:
    """One direction. `repr` shows no property, because a value may be secret.

    `enabled`: False if only its heartbeats are wanted.
    `worker`: the worker's properties as a connect-distributed.properties file has them: bootstrap.servers, group.id, the
    three storage topics, client.id, converters, logins. References to config providers are as written.
    `connectors`: the raw config of each connector by its name, as it is stored in the config topic.
    """

    source: str
    target: str
    enabled: bool
    worker: Mapping[str, str] = field(repr=False)
    connectors: Mapping[str, Mapping[str, str]] = field(repr=False)

    @property
    def name(self) -> str:
        """As people and logs write it: `A->B`."""
        return f"{self.source}->{self.target}"


@dataclass(frozen=True, slots=True)
class Mm2Config:
    """A whole file.

    `path`: of the file, for messages. `clusters`: the aliases in the file's order.
    `flows`: all that need a worker, in the order of the file's clusters: enabled ones and those with heartbeats.
    `process`: the properties of the whole process, as written: spark.*, plugin.path, plugin.modules, log.format, and for
    REST listeners, admin.listeners, rest.*, response.http.headers.config, access.control.*, listeners.https.*,
    and ssl.* of the top level.
    `internal_rest`: dedicated.mode.enable.internal.rest. `warnings`: to be logged once each, by their lines.
    """

    path: str
    clusters: tuple[str, ...]
    flows: tuple[Flow, ...]
    process: Mapping[str, str] = field(repr=False)
    internal_rest: bool
    warnings: tuple[Mm2Finding, ...] = ()
