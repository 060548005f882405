"""One Kafka cluster as an asyncio client sees it: brokers, leaders, and a connection per broker and purpose.

Usage::

    cluster = Cluster(java_properties, client_id="…")       # bootstrap.servers, security.*, sasl.*, ssl.*, timeouts
    await cluster.connect()                                  # ClusterUnreachable / NotAuthorized, one line each
    await cluster.refresh(["orders"])                        # metadata; never creates a topic
    leader = cluster.leader("orders", 0)                     # Leader(node_id, epoch) or None
    answer = await cluster.send(leader.node_id, wire.Produce(…), purpose="produce")
    await cluster.close()

Requests are the classes of kafka_io/wire.py; `send` returns what the request's `decode` returns. Requests to one node
with one purpose leave in the order in which `send` was called, and several may be in flight. When a connection
breaks, everything sent or waiting on it raises ConnectionLost: nothing is sent again by itself, because only the caller
knows whether that is safe. The next `send` connects again, after reconnect.backoff.ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

from mirror_connect.kafka_io.wire_codec import Request

Purpose = Literal["fetch", "produce", "control"]
T = TypeVar("T")


class Leader(NamedTuple):
    """The leader of a partition; `epoch` is -1 where the broker is too old to say."""

    node_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Node:
    """A broker as the cluster advertises it; `rack` is None where none is set."""

    node_id: int
    host: str
    port: int
    rack: str | None


class Cluster:
    """A client of one cluster. `settings` are Java client properties; secrets in them appear in no repr or error."""

    cluster_id: str | None
    nodes: Mapping[int, Node]

    def __init__(self, settings: Mapping[str, str], client_id: str) -> None: ...

    async def connect(self) -> None:
        """Reach one bootstrap server and learn the brokers. Raises ClusterUnreachable, NotAuthorized."""

    async def refresh(self, topics: Iterable[str]) -> None:
        """Ask for the metadata of these topics (none: brokers only). Raises ClusterUnreachable, NotAuthorized."""

    def leader(self, topic: str, partition: int) -> Leader | None:
        """The leader as last heard; None when unknown or there is none."""

    def topic_error(self, topic: str) -> int:
        """The error code of the topic in the last metadata that named it (0: none, 3: does not exist)."""
        return 3

    def partition_count(self, topic: str) -> int | None:
        """How many partitions the topic had as last heard."""

    async def send(self, node_id: int, request: Request[T], *, purpose: Purpose = "control") -> T:
        """Send to one broker and wait for its answer (request.timeout.ms).

        Raises ConnectionLost (with the broker's address and the reason), NotAuthorized.
        """
        raise NotImplementedError

    async def any_node(self, request: Request[T]) -> T:
        """Send to whichever broker answers. Raises ClusterUnreachable when none does."""
        raise NotImplementedError

    async def coordinator(self, kind: Literal["group", "transaction"], key: str) -> int:
        """The node id of the coordinator of a group or transactional id; retried while it is not available."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close every connection; requests in flight raise ConnectionLost."""
