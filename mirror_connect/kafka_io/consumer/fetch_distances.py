"""Brokers that are far away are asked by two fetches at a time, and more of their answers may be held in memory.

A broker has one fetch of a connection at a time. Between an answer and the next request it sends nothing for a round trip.
This costs little where an answer is on its way for many round trips: on a slow link, or if there is little to fetch.
"""

from __future__ import annotations

import time
from typing import Final

from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.round_trip import FAR_S, LINK_BYTES_PER_S, keep_round_trip
from mirror_connect.kafka_io.consumer.fetch_budget import FetchBudget
from mirror_connect.kafka_io.consumer.fetch_queues import FetchQueues

# An answer so large shows how fast the link is.
FILLED: Final = 1 << 20
# Two fetches at a time from an answer within so many round trips on, and one again from this many on. Two at a time may
# take twice as long, and that must not be a reason to change back.
DIVIDED_BELOW: Final = 10
UNDIVIDED_ABOVE: Final = 25
# A broker may refuse a second connection. It is asked for one again after this time.
AGAIN_AFTER_S: Final = 60.0


class FetchDistances:
    """`limit`: of bytes in memory, for near brokers; `request_max`: of a far one's answer.

    For far ones the limit follows the distance, up to four answers: two on their way, and two whose batches are being sent.
    """

    def __init__(self, cluster: Cluster, queues: FetchQueues, budget: FetchBudget, request_max: int) -> None:
        self._cluster = cluster
        self._queues = queues
        self._budget = budget
        self._near_limit = budget.limit
        self._request_max = request_max
        self._most = 4 * request_max
        self._round_trips: dict[int, float] = {}
        self._not_before: dict[int, float] = {}

    async def keep(self, node: int) -> None:
        """Measures the distance of this broker for ever."""

        def measured(seconds: float) -> None:
            self._round_trips[node] = seconds

        await keep_round_trip(self._cluster, node, measured, lambda: None)

    def answered(self, node: int, seconds: float, size: int) -> None:
        """A fetch was answered after that time, with so many bytes."""
        round_trip = self._round_trips.get(node, 0.0)
        if round_trip <= FAR_S or size < FILLED:
            return
        if seconds <= DIVIDED_BELOW * round_trip and time.monotonic() >= self._not_before.get(node, 0.0):
            self._queues.divide(node, divided=True)
            on_the_way = int(2 * LINK_BYTES_PER_S * round_trip)
            self._budget.grow(min(self._most, self._near_limit + on_the_way), self._request_max)
        elif seconds >= UNDIVIDED_ABOVE * round_trip:
            self._queues.divide(node, divided=False)

    def second_failed(self, node: int) -> None:
        """The second connection to this broker was refused or lost: all partitions are read on the first one."""
        self._queues.divide(node, divided=False)
        self._not_before[node] = time.monotonic() + AGAIN_AFTER_S
