"""The producer's view of one target broker: its two connections, how far away it is, what that allows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.round_trip import FAR_S, keep_round_trip
from mirror_connect.kafka_io.producer.leader_state import FAR_WINDOW
from mirror_connect.kafka_io.producer.target_connection import TargetConnection
from mirror_connect.kafka_io.producer.target_partition import TargetPartition
from mirror_connect.kafka_io.records import compiled

# Requests in flight on one connection. More of them carry fewer batches each, and that costs CPU. But to a broker that is
# far away, partitions whose windows have room must not wait for answers to requests of others.
NEAR_REQUESTS: Final = 5
FAR_REQUESTS: Final = 20
# Requests are that many, and larger batches are merged, only while answers take little more than the round trip. If they
# take longer, the link or the broker is full, or this process is busy. Then it would bring nothing, and cost CPU.
LATENCY_BOUND: Final = 1.5
# What other replicas add to the round trip of a request, at most. Any more is taken for a queue.
REPLICATION_S: Final = 0.05
# The bytes under way with which wide windows begin, and to which they shrink at most.
FEWEST_BYTES: Final = 4 << 20
# An answer that comes late has less sent by this part of its request.
BACK_OFF: Final = 4
# Larger batches are merged only until so much is on the way in a second. Merging takes half a processor for that, and
# blocks other partitions meanwhile. Where their batches as they are bring as much, it would make copying slower.
MERGED_BYTES_PER_S: Final = (32 if compiled.functions is None else 128) << 20


@dataclass(slots=True, eq=False)
class TargetBroker:
    """One target broker. `round_trip`: in seconds, without load; 0: not known.

    `reported`: that it can't be written to is a problem that was reported.
    `wide`: partitions of it may have FAR_WINDOW batches in flight. `allowed`: bytes that may be under way then. `quickest`:
    seconds until the quickest answer to one of these, with the time of other replicas in it.

    A broker handles the requests of a connection one after the other. So what must not wait for `data` goes `ahead`.
    """

    node_id: int
    ahead: TargetConnection = field(default_factory=lambda: TargetConnection("produce-ahead"))
    data: TargetConnection = field(default_factory=lambda: TargetConnection("produce"))
    round_trip: float = 0.0
    reported: bool = False
    wide: bool = False
    allowed: int = FEWEST_BYTES
    quickest: float = math.inf

    @property
    def far(self) -> bool:
        """Whether the distance may be what limits copying."""
        return self.round_trip > FAR_S

    @property
    def latency_bound(self) -> bool:
        """Whether the distance alone decides how long requests are under way."""
        return self.far and self.data.answers_after <= self.round_trip * LATENCY_BOUND

    @property
    def merges(self) -> bool:
        """Whether larger batches are merged where they would wait for an answer."""
        return self.latency_bound and self.data.mean_bytes < MERGED_BYTES_PER_S * self.round_trip

    def most_requests(self, configured: int | None, connection: TargetConnection) -> int:
        """How many requests may be in flight on this connection. `configured`: the upper limit that a user set."""
        if self.wide and self.far and connection is self.data:
            # Of few partitions, many requests fill the link. Their bytes are limited by `allowed`.
            most = FAR_WINDOW if connection.carries_much else FAR_REQUESTS
        else:
            most = FAR_REQUESTS if self.latency_bound else NEAR_REQUESTS
        return most if configured is None else min(most, configured)

    def most_bytes(self, limit: float) -> float:
        """How many bytes of data may be under way. `limit`: to all brokers."""
        return min(limit, self.allowed) if self.wide and self.far else limit

    def answered(self, size: int, seconds: float, limit: float) -> None:
        """A request of data of so many bytes was answered after this time. `limit`: see `most_bytes`.

        While answers take little longer than without load, half as much again may be under way after a round trip. If they
        take longer, batches wait somewhere on their way, and less will do.
        """
        self.quickest = min(self.quickest, seconds)
        without_load = self.round_trip + min(max(0.0, self.quickest - self.round_trip), REPLICATION_S)
        if self.data.answers_after <= without_load * LATENCY_BOUND:
            self.allowed = int(min(limit, self.allowed + size // 2))
        else:
            self.allowed = max(FEWEST_BYTES, self.allowed - size // BACK_OFF)

    def row(self, target: TargetPartition) -> dict[TargetPartition, None]:
        """The row in which the partition waits for a request."""
        return (self.ahead if target.ahead else self.data).waiting

    async def keep_round_trip(
        self, cluster: Cluster, silent: Callable[[], None], is_far: Callable[[TargetBroker], None]
    ) -> None:
        """Measures the round trip for ever. Calls `silent` when no answer comes, and `is_far` when it has become far."""

        def measured(seconds: float) -> None:
            was_far, self.round_trip = self.far, seconds
            if self.far and not was_far:
                is_far(self)

        await keep_round_trip(cluster, self.node_id, measured, silent)
