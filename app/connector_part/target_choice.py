"""Where a connector's data and positions go: the worker's own cluster, or another one that the connector names.

As in Connect, data goes to the worker's cluster with the worker's `producer.*` and the connector's `producer.override.*`,
if `target.cluster.bootstrap.servers` is absent or leads to the same cluster (by cluster id, not by address). If it leads
to another cluster, data and that connector's positions go there; Java would silently write to its own.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from mirror_connect.app.worker_config import WorkerConfig
from mirror_connect.connectors.mirror_settings import producer_overrides, target_admin, target_producer
from mirror_connect.kafka_io.admin import ClusterAdmin


@dataclass(frozen=True, slots=True)
class Target:
    """Java client properties for data and for administration. `own`: it is the worker's cluster."""

    own: bool
    producer: Mapping[str, str] = field(repr=False)
    admin: Mapping[str, str] = field(repr=False)


class TargetChooser:
    """Tells clusters apart by id; what it has learned of an address and identity is kept."""

    def __init__(self, worker: WorkerConfig) -> None:
        self._worker = worker
        self._own_id: str | None = None
        self._lock = threading.Lock()

    def choose(self, config: Mapping[str, str], timeout: float = 30.0) -> Target:
        """For a resolved connector config; blocking. ClusterUnreachable, NotAuthorized with one line."""
        overrides = producer_overrides(config)
        own = Target(True, {**self._worker.client("producer"), **overrides}, target_admin(config))
        if not own.admin.get("bootstrap.servers"):
            return Target(True, own.producer, {**self._worker.client("admin"), **own.admin})
        if ClusterAdmin(own.admin, "target cluster", timeout).cluster_id() == self._id_of_own(timeout):
            return own
        return Target(False, {**target_producer(config), **overrides}, own.admin)

    def _id_of_own(self, timeout: float) -> str:
        with self._lock:
            if self._own_id is None:
                self._own_id = ClusterAdmin(self._worker.client("admin"), "the worker's cluster", timeout).cluster_id()
            return self._own_id
