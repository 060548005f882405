"""Decides from which broker each partition is read, and in which of its fetch queues: busy, second or quiet.

A partition is read from its leader, or for a while from the replica that the leader prefers for our rack (KIP-392).

A broker looks at every partition of a session for each fetch. A thousand quiet partitions would slow down every record of
a busy one. So a broker with many partitions gets a second connection. Partitions without records for a while move to it; a
partition moves back when it has records twice in a row.

A broker that is far away sends nothing between an answer and the next request. So the busy partitions of such a broker are
divided among two connections, see fetch_distances.py.
"""

from __future__ import annotations

import asyncio
import math
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.consumer.fetch_plan import FetchPlan
from mirror_connect.kafka_io.consumer.fetch_state import NOWHERE, Lane, PartitionFetchState

# With fewer partitions at a broker, one connection is enough.
MANY: Final = 300
QUIET_AFTER_S: Final = 20.0
BUSY_AGAIN_S: Final = 5.0


@dataclass(eq=False, slots=True)
class FetchQueue:
    """One connection to one broker, with one fetch at a time, for the partitions in this lane.

    `plan`: what to fetch. `waker` is set when the plan may have changed. `answered_at`: when the broker last told all that
    had changed (time.monotonic()).
    """

    node: int
    lane: Lane
    plan: FetchPlan = field(default_factory=FetchPlan)
    waker: asyncio.Event = field(default_factory=asyncio.Event)
    answered_at: float = -math.inf


class FetchQueues:
    """The fetch queues of all brokers, and the partitions in them.

    `opened`: every queue that ever had a partition, by node id and lane. `on_open(queue)` is called
    for each new queue and must start reading from it. `prefer_s`: for how many seconds a preferred replica is read instead
    of the leader. `sort_at`: when `sort` is due, by time.monotonic().
    """

    def __init__(self, cluster: Cluster, prefer_s: float, on_open: Callable[[FetchQueue], None]) -> None:
        self._cluster = cluster
        self._prefer_s = prefer_s
        self._on_open = on_open
        self._at_node: dict[int, dict[TopicPartition, PartitionFetchState]] = {}
        self.opened: dict[tuple[int, Lane], FetchQueue] = {}
        # Brokers whose busy partitions are divided.
        self._divided: set[int] = set()
        self.sort_at = time.monotonic() + QUIET_AFTER_S

    def at(self, node: int) -> Mapping[TopicPartition, PartitionFetchState]:
        """The partitions that are read from a broker, in whichever queue."""
        return self._at_node.get(node, {})

    def in_use(self) -> int:
        """How many queues have something to fetch; at least 1."""
        return max(1, sum(1 for queue in self.opened.values() if queue.plan.wanted))

    def mark_dirty(self, state: PartitionFetchState) -> None:
        """What to fetch of this partition may have changed."""
        if state.node != NOWHERE:
            self.opened[state.node, state.lane].plan.mark_dirty(state.key)

    def wake(self) -> None:
        """Makes every queue check its plan again."""
        for queue in self.opened.values():
            queue.waker.set()

    # Brokers.

    def place(self, state: PartitionFetchState) -> None:
        """Reads the partition from its preferred replica or its leader, as the metadata has them now."""
        leader = self._cluster.leader(*state.key)
        if state.preferred != NOWHERE and state.preferred not in self._cluster.nodes:
            state.preferred = NOWHERE
        node = state.preferred if state.preferred != NOWHERE else NOWHERE if leader is None else leader.node_id
        if not state.failed:
            self.move(state, node)

    def prefer(self, state: PartitionFetchState, replica: int) -> None:
        """Reads the partition from this replica for a while: the leader named it as nearer to us."""
        state.preferred = replica
        state.preferred_until = time.monotonic() + self._prefer_s
        self.place(state)

    def back_to_leader(self, state: PartitionFetchState) -> None:
        """Stops reading from the preferred replica."""
        state.preferred = NOWHERE
        self.place(state)

    def move(self, state: PartitionFetchState, node: int) -> None:
        """Reads the partition from this broker; NOWHERE: from none."""
        if state.node != node:
            self.mark_dirty(state)
            self._at_node.get(state.node, {}).pop(state.key, None)
            state.node = node
            state.log_end.leave()
            if state.lane is not Lane.QUIET:
                state.lane = self._busy_lane(state)
            if node != NOWHERE:
                self._at_node.setdefault(node, {})[state.key] = state
        if node == NOWHERE:
            return
        queue = self.opened.get((node, state.lane))
        if queue is None:
            queue = self.opened[node, state.lane] = FetchQueue(node, state.lane)
            self._on_open(queue)
        self.mark_dirty(state)
        queue.waker.set()

    # Quiet and busy partitions.

    def sort(self) -> None:
        """Moves partitions that became quiet to the quiet queue, at brokers with MANY; at other brokers moves all back."""
        now = time.monotonic()
        self.sort_at = now + QUIET_AFTER_S
        for states in self._at_node.values():
            many = len(states) >= MANY
            for state in states.values():
                quiet = many and now - state.records_at >= QUIET_AFTER_S
                if (state.lane is Lane.QUIET) != quiet and (quiet or not many):
                    self._change(state, Lane.QUIET if quiet else self._busy_lane(state))

    def has_records(self, state: PartitionFetchState, now: float) -> None:
        """A quiet partition brought records: it moves to the busy queue if it also had some just before."""
        if now - state.records_at < BUSY_AGAIN_S:
            self._change(state, self._busy_lane(state))

    def divide(self, node: int, *, divided: bool) -> None:
        """Divides the busy partitions of this broker among two connections, or reads all of them on one again."""
        if divided == (node in self._divided):
            return
        self._divided ^= {node}
        for state in self.at(node).values():
            if state.lane not in (Lane.QUIET, lane := self._busy_lane(state)):
                self._change(state, lane)

    def _busy_lane(self, state: PartitionFetchState) -> Lane:
        if state.node not in self._divided:
            return Lane.BUSY
        # Always the same for a partition: half of a topic's, and of many topics with one partition about half.
        second = (zlib.crc32(state.key.topic.encode()) + state.key.partition) % 2
        return Lane.SECOND if second else Lane.BUSY

    def _change(self, state: PartitionFetchState, lane: Lane) -> None:
        # If the other connection still brings an answer for it, that answer is dropped.
        self.mark_dirty(state)
        state.lane = lane
        state.log_end.leave()
        self.move(state, state.node)
