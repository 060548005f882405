"""Which broker each partition is read from, and on which of its connections.

A partition is read from its leader, or for a while from the replica that the leader prefers for our rack (KIP-392).

A broker looks at every partition of a session for each fetch, so a thousand quiet ones would slow down every record of a
busy one. Of many partitions at one broker those that have had nothing for a while are asked for on a connection of their
own; one that has records again goes back when it has them twice in a row.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.consumer.fetch_plan import FetchPlan
from mirror_connect.kafka_io.consumer.fetch_state import NOWHERE, PartitionWork

# So many partitions at a broker are many.
MANY: Final = 300
QUIET_AFTER_S: Final = 20.0
BUSY_AGAIN_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Lane:
    """One connection to one broker, with one fetch at a time: that of its `quiet` partitions, or of all others.

    `plan`: what is to be asked for; `waker` is set when a lane that waits should look at it again.
    """

    node: int
    quiet: bool
    plan: FetchPlan = field(default_factory=FetchPlan, compare=False)
    waker: asyncio.Event = field(default_factory=asyncio.Event, compare=False)


class FetchLanes:
    """`opened`: every lane that had a partition once, by node id and whether it is the quiet ones'.

    `on_open` hears of each new one, which is to be read from. `prefer_s`: how long a preferred replica is read instead of
    the leader. `sort_at`: when `sort` is due, by time.monotonic().
    """

    def __init__(self, cluster: Cluster, prefer_s: float, on_open: Callable[[Lane], None]) -> None:
        self._cluster = cluster
        self._prefer_s = prefer_s
        self._on_open = on_open
        self._at_node: dict[int, dict[tuple[str, int], PartitionWork]] = {}
        self.opened: dict[tuple[int, bool], Lane] = {}
        self.sort_at = time.monotonic() + QUIET_AFTER_S

    def at(self, node: int) -> Mapping[tuple[str, int], PartitionWork]:
        """The partitions that are read from a broker, on either connection."""
        return self._at_node.get(node, {})

    def in_use(self) -> int:
        """How many lanes have something to ask for; 1 at least."""
        return max(1, sum(1 for lane in self.opened.values() if lane.plan.wanted))

    def stir(self, work: PartitionWork) -> None:
        """What is to be asked for it may be another thing now."""
        if work.node != NOWHERE:
            self.opened[work.node, work.quiet].plan.stir(work.key)

    def wake(self) -> None:
        """Every lane looks at its plan again."""
        for lane in self.opened.values():
            lane.waker.set()

    # Brokers.

    def place(self, work: PartitionWork) -> None:
        """From now on it is read from the broker that is the right one as far as is known."""
        leader = self._cluster.leader(*work.key)
        if work.preferred != NOWHERE and work.preferred not in self._cluster.nodes:
            work.preferred = NOWHERE
        node = work.preferred if work.preferred != NOWHERE else NOWHERE if leader is None else leader.node_id
        if not work.failed:
            self.move(work, node)

    def prefer(self, work: PartitionWork, replica: int) -> None:
        """The leader has named a replica that is nearer to us."""
        work.preferred = replica
        work.preferred_until = time.monotonic() + self._prefer_s
        self.place(work)

    def back_to_leader(self, work: PartitionWork) -> None:
        """The replica that was preferred isn't any more."""
        work.preferred = NOWHERE
        self.place(work)

    def move(self, work: PartitionWork, node: int) -> None:
        """From now on it is read from this broker; NOWHERE: from none."""
        if work.node != node:
            self.stir(work)
            self._at_node.get(work.node, {}).pop(work.key, None)
            work.node = node
            if node != NOWHERE:
                self._at_node.setdefault(node, {})[work.key] = work
        if node == NOWHERE:
            return
        lane = self.opened.get((node, work.quiet))
        if lane is None:
            lane = self.opened[node, work.quiet] = Lane(node, work.quiet)
            self._on_open(lane)
        self.stir(work)
        lane.waker.set()

    # Quiet ones and busy ones.

    def sort(self) -> None:
        """Partitions that have become quiet leave the busy ones, while there are many; without many they come back."""
        now = time.monotonic()
        self.sort_at = now + QUIET_AFTER_S
        for works in self._at_node.values():
            many = len(works) >= MANY
            for work in works.values():
                if work.quiet != (quiet := many and now - work.records_at >= QUIET_AFTER_S) and (quiet or not many):
                    self._change(work, quiet=quiet)

    def has_records(self, work: PartitionWork, now: float) -> None:
        """One of the quiet ones has records; it has joined the busy ones if it had some just before, too."""
        if now - work.records_at < BUSY_AGAIN_S:
            self._change(work, quiet=False)

    def _change(self, work: PartitionWork, *, quiet: bool) -> None:
        # What the other connection may still bring of it is not taken.
        self.stir(work)
        work.quiet = quiet
        self.move(work, work.node)
