"""One of the producer's connections to a target broker: what waits for it, what is under way, how much it may be sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from mirror_connect.kafka_io.client.cluster import Purpose
from mirror_connect.kafka_io.producer.in_flight_batch import InFlightBatch
from mirror_connect.kafka_io.producer.target_partition import ProducerIdAndEpoch, TargetPartition

# What one request carries.
Taken: TypeAlias = list[tuple[TargetPartition, InFlightBatch]]
# The weight of the newest request, or its answer, in the means.
NEWEST: Final = 0.2
# A broker that throttles reads nothing from the connection until the last request is within the quota again. What must
# leave soon waits there, too. So each request is small enough for half a second of that, and there is only one at a time.
MUTE_S: Final = 0.5
# The time for which a broker counts what it got (quota.window.num × quota.window.size.seconds, by default).
PACED_S: Final = 11.0
# After an answer within this part of request.timeout.ms, a request of twice the size would be in time, too.
QUICK: Final = 0.25
# Requests are many only while they are at least so large on average.
MANY_FROM: Final = 32 << 10


@dataclass(slots=True, eq=False)
class TargetConnection:
    """One connection. `requests`: how many are under way, with `wire_bytes` bytes.

    `waiting`: partitions with something to send.
    `mean_bytes`: the moving mean of `wire_bytes`, each time a request left.
    `answers_after`: the moving mean of the seconds until an answer to a Produce request; 0: there was none.
    `carries`: how many bytes a request may have, one at a time, since one got no answer in time (at `limited_at`); None: no
    such limit. Times are the loop's.
    """

    purpose: Purpose
    waiting: dict[TargetPartition, None] = field(default_factory=dict)
    requests: int = 0
    wire_bytes: int = 0
    mean_bytes: float = 0.0
    answers_after: float = 0.0
    throttled_until: float = 0.0
    paced_until: float = 0.0
    paced_bytes: int = 0
    carries: int | None = None
    limited_at: float = 0.0

    @property
    def carries_much(self) -> bool:
        """Whether the requests under way are large enough for more of them."""
        return self.wire_bytes >= self.requests * MANY_FROM

    def limits(self, now: float, most: int, largest: int) -> tuple[int, int]:
        """How many requests may be in flight now, and the bytes of one. Without a throttle or a slow link: as given."""
        if now < self.throttled_until:
            return 0, largest
        if now < self.paced_until:
            most, largest = 1, min(largest, self.paced_bytes)
        if self.carries is not None:
            most, largest = 1, min(largest, self.carries)
        return most, largest

    def take(self, producer: ProducerIdAndEpoch, limit: int, *, merges: bool) -> tuple[Taken, int]:
        """A batch of each partition that waits, and their bytes: until `limit` is reached, or one had to be split.

        `merges`: see TargetBroker.merges.
        """
        taken: Taken = []
        size = 0
        for target in tuple(self.waiting):
            del self.waiting[target]
            sent = target.next_batch(producer, latency_bound=merges) if target.sendable() else None
            if sent is None:
                continue
            taken.append((target, sent))
            size += sent.size
            # It goes to the end of the row: partitions that did not fit into this request come first in the next.
            if target.sendable():
                self.waiting[target] = None
            if size >= limit or target.split_tried:
                break
        return taken, size

    def sent(self, size: int) -> None:
        """A request of so many bytes is under way."""
        self.requests += 1
        self.wire_bytes += size
        self.mean_bytes += (self.wire_bytes - self.mean_bytes) * NEWEST

    def ended(self, size: int) -> None:
        """It was answered, or is lost."""
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
