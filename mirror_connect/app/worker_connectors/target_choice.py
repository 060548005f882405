"""Where a connector's data and source offsets go: the worker's own cluster, or another one that the connector names.

As in Connect, data goes to the worker's cluster with the worker's `producer.*` and the connector's `producer.override.*`,
if `target.cluster.bootstrap.servers` is absent or leads to the same cluster (by cluster id, not by address). If it leads
to another cluster, data and that connector's source offsets go there; Java would silently write to its own.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import os
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from mirror_connect.app.config.common_config import CommonConfig
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.log_format import ConnectorName
from mirror_connect.connectors.mirror.settings import (
    PRODUCER_OVERRIDE,
    producer_overrides,
    target_admin,
    target_consumer,
    target_producer,
)
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.admin_errors import AdminError
from mirror_connect.kafka_io.client.addresses import bootstrap_servers

log = logging.getLogger(__name__)

BOOTSTRAP: Final = "bootstrap.servers"
OFFSETS_TOPIC: Final = "offsets.storage.topic"
# The longest that the validation of a config waits for clusters; the start of the connector checks again.
CHECK_WAIT_S: Final = 8.0
CHECK_CALL_S: Final = 4.0

# Of a client's address and login: the digest stays in memory, the login itself must not.
_LoginDigest = bytes
_KEY: Final = os.urandom(32)


@dataclass(frozen=True, slots=True)
class Target:
    """Java client properties for data, for administration and for reading. `own`: it is the worker's cluster.

    `reserved`: the worker's internal topics there, so no copy may be written to them. `offsets_topic`: of the connector's
    own, there; empty if its source offsets are in the topic of all connectors.
    """

    own: bool
    producer: Mapping[str, str] = field(repr=False)
    admin: Mapping[str, str] = field(repr=False)
    consumer: Mapping[str, str] = field(default_factory=dict, repr=False)
    reserved: frozenset[str] = frozenset()
    offsets_topic: str = ""


class TargetChooser:
    """Distinguishes clusters by their id. It asks once for each address and login, and remembers the answer."""

    def __init__(self, worker: CommonConfig) -> None:
        self._worker = worker
        self._ids: dict[_LoginDigest, str] = {}
        self._asking: dict[_LoginDigest, threading.Lock] = {}
        self._lock = threading.Lock()
        self._lookups: dict[_LoginDigest, asyncio.Future[bool]] = {}
        self._logged: set[tuple[str | None, str]] = set()
        # Reads key stores, which may lie on a share that doesn't answer.
        self._checks = ThreadPoolExecutor(max_workers=4, thread_name_prefix="target-checks")

    def choose(self, config: Mapping[str, str], timeout: float = 30.0) -> Target:
        """For a resolved connector config; blocking. ClusterUnreachable, NotAuthorized with one line."""
        admin = target_admin(config)
        return self._target(config, admin, own=not _names_a_cluster(admin) or self._is_own(admin, timeout))

    async def chosen(self, config: Mapping[str, str]) -> Target:
        """The same, not blocking. A silent cluster blocks one thread of its own, whatever the number of calls."""
        admin = target_admin(config)
        if not _names_a_cluster(admin):
            return self._target(config, admin, own=True)
        way = _way(admin)
        if way not in self._lookups:
            thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="target-choice")
            self._lookups[way] = asyncio.get_running_loop().run_in_executor(thread, self._is_own, admin, 30.0)
            self._lookups[way].add_done_callback(lambda _: self._lookups.pop(way))
            thread.shutdown(wait=False)
        return self._target(config, admin, own=await asyncio.shield(self._lookups[way]))

    async def errors(self, config: Mapping[str, str]) -> list[str]:
        """One line for each producer setting that leads to another cluster than the target; none if that is unknown.

        Records and source offsets would go there, while the topics are created on the target.
        """
        try:
            async with asyncio.timeout(CHECK_WAIT_S):
                return await asyncio.get_running_loop().run_in_executor(self._checks, self._strays, config)
        except TimeoutError:
            return []

    def _strays(self, config: Mapping[str, str]) -> list[str]:
        admin = target_admin(config)
        if not _names_a_cluster(admin):
            admin = {**self._worker.client("admin"), **admin}
        overriding = {**self._worker.client("producer"), **producer_overrides(config)}
        own = f"target.producer.{BOOTSTRAP}"
        candidates = {
            f"{PRODUCER_OVERRIDE}{BOOTSTRAP}": overriding,
            own if own in config else f"producer.{BOOTSTRAP}": target_producer(config),
        }
        found = []
        for name, properties in candidates.items():
            try:
                if name not in config or _share_an_address(properties, admin):
                    continue
                there = self._id(properties, "cluster of the producer", CHECK_CALL_S)
                target = self._id(admin, "target cluster", CHECK_CALL_S)
            except (ClusterUnreachable, NotAuthorized, AdminError, ConfigError):
                continue
            if there != target:
                found.append(
                    f"Invalid {name}: it leads to cluster {there}, but the target of this connector is cluster {target}; "
                    "leave it out, and name the target by target.cluster.bootstrap.servers"
                )
        return found

    def _target(self, config: Mapping[str, str], admin: Mapping[str, str], *, own: bool) -> Target:
        overrides = producer_overrides(config)
        consumer = target_consumer(config)
        offsets_topic = self._offsets_topic(config)
        reserved = self._worker.internal_topics(own_cluster=own) | ({offsets_topic} if offsets_topic else set())
        if not own:
            self._log_where_data_goes(config.get("name"), admin[BOOTSTRAP])
            return Target(False, {**target_producer(config), **overrides}, admin, consumer, reserved, offsets_topic)
        if not _names_a_cluster(admin):
            admin = {**self._worker.client("admin"), **admin}
        if not _names_a_cluster(consumer):
            consumer = {**self._worker.client("consumer"), **consumer}
        producer = {**self._worker.client("producer"), **overrides}
        return Target(True, producer, admin, consumer, reserved, offsets_topic)

    def _offsets_topic(self, config: Mapping[str, str]) -> str:
        # A standalone worker has a file, whatever the config says.
        named = config.get(OFFSETS_TOPIC, "").strip() if self._worker.offset_topic else ""
        return "" if named == self._worker.offset_topic else named

    def _log_where_data_goes(self, connector: str | None, address: str) -> None:
        if (connector, address) in self._logged:
            return
        self._logged.add((connector, address))
        both = "records and source offsets" if self._worker.offset_topic else "records"
        log.warning(
            "Connector %s: %s is not the worker's own cluster; %s go there, with target.producer.* "
            "(Kafka Connect would write them to the worker's own cluster)",
            ConnectorName(connector),
            address,
            both,
        )

    def _is_own(self, admin: Mapping[str, str], timeout: float) -> bool:
        there = self._id(admin, "target cluster", timeout)
        # Where the internal topics are; `admin.*` of the worker is for connectors and might lead elsewhere.
        return there == self._id(self._worker.own_client(), "the worker's cluster", timeout)

    def _id(self, properties: Mapping[str, str], what: str, timeout: float) -> str:
        way = _way(properties)
        with self._lock:
            asking = self._asking.setdefault(way, threading.Lock())
        with asking:
            if way not in self._ids:
                self._ids[way] = ClusterAdmin(properties, what, timeout).cluster_id()
            return self._ids[way]


def _names_a_cluster(properties: Mapping[str, str]) -> bool:
    return bool(properties.get(BOOTSTRAP))


def _share_an_address(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return not set(bootstrap_servers(one.get(BOOTSTRAP))).isdisjoint(bootstrap_servers(other.get(BOOTSTRAP)))


def _way(properties: Mapping[str, str]) -> _LoginDigest:
    # JSON marks where a name ends. With the key, nobody can check a guessed password against the digest.
    return hmac.digest(_KEY, json.dumps(sorted(properties.items())).encode(), "sha256")
