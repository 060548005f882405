"""One Kafka cluster as an asyncio client sees it: brokers, leaders, and a connection per broker and purpose.

Usage::

    cluster = Cluster(java_properties, client_id="…")       # bootstrap.servers, security.*, sasl.*, ssl.*, timeouts
    await cluster.connect()                                  # ClusterUnreachable / NotAuthorized, one line each
    await cluster.refresh(["orders"])                        # metadata; never creates a topic
    leader = cluster.leader("orders", 0)                     # Leader(node_id, epoch) or None
    answer = await cluster.send(leader.node_id, Produce(…), purpose="produce")
    await cluster.close()

Requests are classes of kafka_io/protocol; `send` returns what the request's `decode` returns. Requests to one node with one
purpose are sent in the order of the calls, and several may be in flight. When a connection breaks, all its requests raise
ConnectionLost. They are not retried here: only the caller knows whether that is safe. The next `send` connects again, after
reconnect.backoff.ms.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.rights import MissingRight, on_group, on_transactional_id
from mirror_connect.kafka_io.client.addresses import CANONICAL, canonical_names
from mirror_connect.kafka_io.client.broker_link import BrokerLink
from mirror_connect.kafka_io.client.client_keys import Kind
from mirror_connect.kafka_io.client.client_settings import connection_settings
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.client.request_totals import RequestTotals
from mirror_connect.kafka_io.protocol.codec import Request
from mirror_connect.kafka_io.protocol.error_codes import COORDINATOR_MOVED, ErrorCode, error_name
from mirror_connect.kafka_io.protocol.metadata import (
    BrokerEntry,
    FindCoordinator,
    Metadata,
    MetadataResponse,
    PartitionEntry,
    TopicEntry,
)

Purpose: TypeAlias = Literal["fetch", "fetch-second", "fetch-quiet", "produce", "produce-ahead", "control"]
T = TypeVar("T")

# A broker that hangs (a suspended process, a full disk) accepts connections, but requests end at request.timeout.ms.
SILENT_S: Final = 1.0


class Leader(NamedTuple):
    """The leader of a partition; `epoch` is -1 if the broker is too old to send it."""

    node_id: int
    epoch: int


class Cluster:
    """A client of one cluster. `settings` are Java client properties; secrets in them appear in no repr or error.

    `kind`: the kind of Java client that they are for. Reads key stores; raises ConfigError for a wrong property.
    `nodes`: the brokers in the last metadata, with host, port and rack. `cluster_id`: None before `connect`.
    `totals`: of all requests so far.
    """

    def __init__(self, settings: Mapping[str, str], client_id: str, kind: Kind = "consumer") -> None:
        self.cluster_id: str | None = None
        self.nodes: Mapping[int, BrokerEntry] = {}
        self.totals = RequestTotals()
        self._settings = connection_settings(settings, client_id, kind)
        # None: their names must be looked up.
        self._bootstrap: tuple[tuple[str, int], ...] | None = None
        self._links: dict[tuple[str, int, Purpose], BrokerLink] = {}
        self._topics: dict[str, TopicEntry] = {}
        self._newest_ids: dict[str, bytes] = {}
        self._former_ids: dict[str, set[bytes]] = {}
        self._partitions: dict[str, dict[int, PartitionEntry]] = {}
        self._closed = False

    async def connect(self) -> None:
        """Asks one bootstrap server for the brokers. Raises ClusterUnreachable, NotAuthorized."""
        await self.refresh(())

    async def refresh(self, topics: Iterable[str]) -> None:
        """Requests the metadata of these topics (none: only brokers). Raises ClusterUnreachable, NotAuthorized."""
        wanted = sorted(set(topics))
        self._update(await self.any_node(Metadata(wanted)))

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return sum(link.is_open for link in self._links.values())

    def leader(self, topic: str, partition: int) -> Leader | None:
        """The leader in the last metadata; None if unknown or if there is none."""
        entry = self._partitions.get(topic, {}).get(partition)
        return None if entry is None or entry.leader < 0 else Leader(entry.leader, entry.leader_epoch)

    def topic_error(self, topic: str) -> int:
        """The topic's error code in the last metadata (0: none; 3: it does not exist, or was not requested)."""
        entry = self._topics.get(topic)
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if entry is None else entry.error

    def topic_id(self, topic: str) -> bytes | None:
        """The topic's id (16 bytes), None if not known. A topic that is created again has another id."""
        entry = self._topics.get(topic)
        return None if entry is None else entry.topic_id

    def partition_count(self, topic: str) -> int | None:
        """The number of partitions in the last metadata; None if unknown."""
        entry = self._topics.get(topic)
        return None if entry is None or entry.error else len(entry.partitions)

    async def send(self, node_id: int, request: Request[T], *, purpose: Purpose = "control") -> T:
        """Sends to one broker and waits for its response (request.timeout.ms).

        Raises ConnectionLost (with the broker's address and the reason), NotAuthorized, UnsupportedByBroker.
        """
        node = self.nodes.get(node_id)
        if node is None:
            raise ConnectionLost(f"broker {node_id} is not among the cluster's brokers at present")
        return await self._link(node.host, node.port, purpose).send(request)

    def close_idle(self, node_id: int) -> None:
        """Closes this broker's connections without requests in flight: they may be dead, as another one is."""
        node = self.nodes.get(node_id)
        for (host, port, _), link in self._links.items():
            if node is not None and (host, port) == (node.host, node.port):
                link.close_idle()

    async def any_node(self, request: Request[T]) -> T:
        """Sends to any broker that answers. Raises ClusterUnreachable if none does, NotAuthorized.

        If a broker does not answer within SILENT_S, another one is asked too: send only what may be done twice.
        """
        failures: dict[str, str] = {}
        if self._bootstrap is None:
            self._bootstrap = await self._bootstrap_servers()
        candidates = iter(self._candidates())
        asked: dict[asyncio.Task[T], str] = {}
        try:
            while True:
                candidate = next(candidates, None)
                if candidate is not None:
                    asked[asyncio.create_task(self._ask(*candidate, request))] = f"{candidate[0]}:{candidate[1]}"
                if not asked:
                    break
                timeout = None if candidate is None else SILENT_S
                answered, _ = await asyncio.wait(asked, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                for task in answered:
                    address = asked[task]
                    try:
                        return task.result()
                    except ConnectionLost as error:
                        failures[address] = error.reason
                        del asked[task]
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        self._bootstrap = None  # their names may have other addresses the next time
        # Sorted, because the brokers were tried in a random order.
        reasons = "; ".join(sorted(set(failures.values())))
        silent = f"no broker answers at {', '.join(sorted(failures))}"
        raise ClusterUnreachable(f"{silent}: {reasons}", what=silent, cause=reasons)

    async def coordinator(self, kind: Literal["group", "transaction"], key: str, user: str) -> int:
        """The node id of the coordinator of a group or transactional id; `user`: who logs in, for errors.

        Retries for default.api.timeout.ms while there is none. Raises ClusterUnreachable, NotAuthorized.
        """
        deadline = time.monotonic() + self._settings.default_api_timeout_ms / 1000
        while True:
            found = await self.any_node(FindCoordinator(key, 1 if kind == "transaction" else 0))
            if found.error == ErrorCode.NONE:
                known = self.nodes.get(found.node_id)
                entry = BrokerEntry(found.node_id, found.host, found.port, known.rack if known else None)
                self.nodes = {**self.nodes, found.node_id: entry}
                return found.node_id
            what = f"{'transactional.id' if kind == 'transaction' else 'group.id'} {key}"
            if found.error in (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED):
                right = on_transactional_id(key) if kind == "transaction" else on_group("DESCRIBE", key)
                raise MissingRight(f"not authorized to use {what}", right, user)
            if found.error not in COORDINATOR_MOVED or time.monotonic() > deadline:
                reason = (found.message or error_name(found.error)).rstrip(".")
                raise ClusterUnreachable(f"no coordinator for {what}: {reason}")
            await asyncio.sleep(self._settings.retry_backoff_ms / 1000)

    async def _ask(self, host: str, port: int, request: Request[T]) -> T:
        return await self._link(host, port, "control").send(request)

    async def close(self) -> None:
        """Closes all connections; requests in flight raise ConnectionLost. The cluster can't be used afterwards."""
        self._closed = True
        links, self._links = list(self._links.values()), {}
        for link in links:
            link.close()
        # Transports close in the loop's next iteration; without it, Python warns of open sockets if it ends now.
        await asyncio.sleep(0)

    def _link(self, host: str, port: int, purpose: Purpose) -> BrokerLink:
        if self._closed:
            raise ConnectionLost("the connections to the cluster are closed")
        key = (host, port, purpose)
        if key not in self._links:
            self._links[key] = BrokerLink(host, port, self._settings, self.totals)
        return self._links[key]

    async def _bootstrap_servers(self) -> tuple[tuple[str, int], ...]:
        """bootstrap.servers; with the canonical names of each address if client.dns.lookup says so (KIP-235)."""
        given = self._settings.bootstrap_servers
        if self._settings.client_dns_lookup != CANONICAL:
            return given
        found = [(name, port) for host, port in given for name in await canonical_names(host)]
        return tuple(dict.fromkeys(found)) or given

    def _candidates(self) -> list[tuple[str, int]]:
        """Known brokers first, open connections before others; then the bootstrap servers (KIP-899: rebootstrap)."""
        known = [(node.host, node.port) for node in self.nodes.values()]
        random.shuffle(known)
        known.sort(key=self._rank)
        if known and not self._settings.rebootstrap:
            return known
        bootstrap = list(self._bootstrap or self._settings.bootstrap_servers)
        random.shuffle(bootstrap)
        bootstrap.sort(key=self._rank)
        return list(dict.fromkeys([*known, *bootstrap]))

    def _rank(self, address: tuple[str, int]) -> float:
        link = self._links.get((*address, "control"))
        if link is None:
            return 0.0
        if link.silent_s > SILENT_S:
            return time.monotonic()  # like a connection that was lost just now
        return -1.0 if link.is_open else link.backs_off_until

    def _update(self, answer: MetadataResponse) -> None:
        if answer.brokers:
            self.nodes = {broker.node_id: broker for broker in answer.brokers}
            self._drop_stale_links()
        self.cluster_id = answer.cluster_id or self.cluster_id
        for topic in answer.topics:
            if not self._is_current(topic):
                continue
            former = self._topics.get(topic.name)
            same = former is not None and former.topic_id == topic.topic_id
            self._topics[topic.name] = topic
            if not same or topic.error:
                self._partitions.pop(topic.name, None)
            partitions = self._partitions.setdefault(topic.name, {})
            for entry in topic.partitions:
                known = partitions.get(entry.partition)
                # A broker that lags behind names an older leader: the higher epoch is right (KIP-320).
                if known is None or entry.leader_epoch < 0 or entry.leader_epoch >= known.leader_epoch:
                    partitions[entry.partition] = entry

    def _is_current(self, topic: TopicEntry) -> bool:
        """False for a topic that has been created again: the broker lags behind, because no id is used twice."""
        if topic.topic_id is None:
            return True
        newest = self._newest_ids.setdefault(topic.name, topic.topic_id)
        if topic.topic_id == newest:
            return True
        former = self._former_ids.setdefault(topic.name, set())
        if topic.topic_id in former:
            return False
        former.add(newest)
        self._newest_ids[topic.name] = topic.topic_id
        return True

    def _drop_stale_links(self) -> None:
        bootstrap = self._bootstrap or self._settings.bootstrap_servers
        wanted = {(node.host, node.port) for node in self.nodes.values()} | set(bootstrap)
        for key in [key for key, link in self._links.items() if key[:2] not in wanted and not link.is_busy]:
            self._links.pop(key).close()
