"""The producer's view of one target broker: waiting partitions, request limits, round-trip time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.round_trip import FAR_S, keep_round_trip
from mirror_connect.kafka_io.producer.target_partition import InFlightBatch, ProducerIdAndEpoch, TargetPartition
from mirror_connect.kafka_io.records import compiled

# Requests in flight to one broker. More of them carry fewer batches each, and that costs CPU. But to a broker that is far
# away, partitions whose windows have room must not wait for answers to requests of others.
NEAR_REQUESTS: Final = 5
FAR_REQUESTS: Final = 20
# Requests are that many, and larger batches are merged, only while answers take little more than the round trip. If they
# take longer, the link or the broker is full, or this process is busy. Then it would bring nothing, and cost CPU.
LATENCY_BOUND: Final = 1.5
# Larger batches are merged only until so much is on the way in a second. Merging takes half a processor for that, and
# blocks other partitions meanwhile. Where their batches as they are bring as much, it would make copying slower.
MERGED_BYTES_PER_S: Final = (32 if compiled.functions is None else 128) << 20
# The weight of the newest request, or its answer, in the means.
NEWEST: Final = 0.2
# A broker that throttles reads nothing from the connection until the last request is within the quota again, and source
# offsets wait there too. So each request is small enough for half a second of that, and there is only one at a time.
MUTE_S: Final = 0.5
# The time for which a broker counts what it got (quota.window.num × quota.window.size.seconds, by default).
PACED_S: Final = 11.0
# After an answer within this part of request.timeout.ms, a request of twice the size would be in time, too.
QUICK: Final = 0.25


@dataclass(slots=True, eq=False)
class TargetBroker:
    """One target broker. `requests`: how many are under way, with `wire_bytes` bytes. `round_trip`: in seconds, without
    load; 0: not known.

    `mean_bytes`: the moving mean of `wire_bytes`, each time a request left.
    `answers_after`: the moving mean of the seconds until an answer to a Produce request; 0: there was none.
    `carries`: how many bytes a request may have, one at a time, since one got no answer in time (at `limited_at`); None: no
    such limit.
    `ahead` and `ready`: partitions with something to send. Those in `ahead` have a connection of their own, with
    `ahead_requests` under way; all other figures are those of the data. Times are the loop's.
    """

    node_id: int
    ahead: dict[TargetPartition, None] = field(default_factory=dict)
    ready: dict[TargetPartition, None] = field(default_factory=dict)
    requests: int = 0
    ahead_requests: int = 0
    wire_bytes: int = 0
    mean_bytes: float = 0.0
    throttled_until: float = 0.0
    paced_until: float = 0.0
    paced_bytes: int = 0
    carries: int | None = None
    limited_at: float = 0.0
    round_trip: float = 0.0
    answers_after: float = 0.0

    @property
    def latency_bound(self) -> bool:
        """Whether the distance alone decides how long requests are under way."""
        return self.round_trip > FAR_S and self.answers_after <= self.round_trip * LATENCY_BOUND

    @property
    def merges(self) -> bool:
        """Whether larger batches are merged where they would wait for an answer."""
        return self.latency_bound and self.mean_bytes < MERGED_BYTES_PER_S * self.round_trip

    def most_requests(self, configured: int | None) -> int:
        """How many requests may be in flight. `configured`: the upper limit that a user set."""
        most = FAR_REQUESTS if self.latency_bound else NEAR_REQUESTS
        return most if configured is None else min(most, configured)

    def limits(self, now: float, configured: int | None, largest: int) -> tuple[int, int]:
        """How many requests may be in flight now, and the bytes of one; `largest`: without a throttle or a slow link."""
        most, limit = self.most_requests(configured), largest
        if now < self.paced_until:
            most, limit = 1, min(limit, self.paced_bytes)
        if self.carries is not None:
            most, limit = 1, min(limit, self.carries)
        return most, limit

    def row(self, target: TargetPartition) -> dict[TargetPartition, None]:
        """The row in which the partition waits for a request."""
        return self.ahead if target.ahead else self.ready

    def take(
        self, producer: ProducerIdAndEpoch, limit: int, *, ahead: bool
    ) -> tuple[list[tuple[TargetPartition, InFlightBatch]], int]:
        """A batch of each partition that waits, and their bytes: until `limit` is reached, or one had to be split."""
        row = self.ahead if ahead else self.ready
        taken: list[tuple[TargetPartition, InFlightBatch]] = []
        size = 0
        merges = self.merges
        for target in tuple(row):
            del row[target]
            sent = target.next_batch(producer, latency_bound=merges) if target.sendable() else None
            if sent is None:
                continue
            taken.append((target, sent))
            size += sent.size
            # It goes to the end of the row: partitions that did not fit into this request come first in the next.
            if target.sendable():
                row[target] = None
            if size >= limit or target.split_tried:
                break
        return taken, size

    def sent(self, size: int, *, ahead: bool = False) -> None:
        """A request of so many bytes is under way."""
        if ahead:
            self.ahead_requests += 1
            return
        self.requests += 1
        self.wire_bytes += size
        self.mean_bytes += (self.wire_bytes - self.mean_bytes) * NEWEST

    def ended(self, size: int, *, ahead: bool = False) -> None:
        """It was answered, or is lost."""
        if ahead:
            self.ahead_requests -= 1
            return
        self.requests -= 1
        self.wire_bytes -= size

    def throttled(self, now: float, seconds: float, size: int) -> None:
        """The broker reads nothing for that long, because of a request of `size` bytes."""
        self.throttled_until = now + seconds
        self.paced_until = self.throttled_until + PACED_S
        self.paced_bytes = int(size * MUTE_S / seconds)

    def timed_out(self, now: float, sent_at: float, size: int) -> None:
        """A request of `size` bytes got no answer in time. On such a slow link, the same size would fail again."""
        # Requests beside one that timed out are lost with its connection. They show nothing new.
        if sent_at >= self.limited_at:
            self.limited_at = now
            self.carries = max(1, min(size, self.carries or size) // 2)

    def answered_after(self, seconds: float, timeout: float, largest: int) -> None:
        """An answer came. Requests may grow to `largest` bytes again, as long as answers come quickly."""
        mean = self.answers_after or seconds
        self.answers_after = mean + (seconds - mean) * NEWEST
        if self.carries is not None and seconds < timeout * QUICK:
            self.carries = None if self.carries * 2 >= largest else self.carries * 2

    async def keep_round_trip(self, cluster: Cluster, silent: Callable[[], None]) -> None:
        """Measures the round trip for ever; calls `silent` when no answer comes."""

        def measured(seconds: float) -> None:
            self.round_trip = seconds

        await keep_round_trip(cluster, self.node_id, measured, silent)
