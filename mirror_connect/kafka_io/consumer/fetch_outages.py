"""What can't be read from at present, the cluster or some of its brokers: told once when it begins and once when it ends."""

from __future__ import annotations

from collections.abc import Callable

from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.outage import Outage
from mirror_connect.kafka_io.consumer.fetch_lanes import FetchLanes, Lane


class FetchOutages:
    """`side`: whose cluster it is, in what is told. `away` is the outage of the whole of it.

    `brokers`: the outages of single ones by node id, from the first failure to the first answer.
    """

    def __init__(
        self, cluster: Cluster, lanes: FetchLanes, side: str, away: Outage, notice: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._lanes = lanes
        self._side = side
        self._away = away
        self._notice = notice
        self._unreachable = False
        self._failing: set[tuple[int, bool]] = set()
        self.brokers: dict[int, Outage] = {}

    @property
    def lines(self) -> list[str]:
        """One for the cluster while it is away, or else one for each broker that partitions are to be read from."""
        if self._away.line:
            return [self._away.line]
        lines = [outage.line for node, outage in sorted(self.brokers.items()) if self._lanes.at(node)]
        return [line for line in lines if line]

    def cluster_fails(self, reason: str) -> None:
        """No broker answers at all."""
        if not self._unreachable:
            self._unreachable = True
            self._notice(f"{self._side} cluster: {reason}; tried again until it answers")
        self._away.lasts(reason)

    def cluster_answers(self) -> None:
        """Some broker does."""
        self._away.over()
        if self._unreachable:
            self._unreachable = False
            self._notice(f"{self._side} cluster: answers again")

    def broker_fails(self, node: int, reason: str, *, quiet: bool) -> None:
        """It doesn't answer, or takes no connection: the one that is meant for its `quiet` partitions or the other."""
        self._failing.add((node, quiet))
        named = self._named(node)
        if node not in self.brokers:
            self.brokers[node] = Outage(f"The {self._side} {named} can't be read from")
            self._notice(f"{self._side} {reason}; tried again until it answers")
        self.brokers[node].lasts(reason.removeprefix(f"{named}: "))

    def broker_answers(self, lane: Lane) -> None:
        """One of `brokers` has answered on this lane."""
        node, other = lane.node, self._lanes.opened.get((lane.node, not lane.quiet))
        self._failing.discard((node, lane.quiet))
        # A broker may refuse one connection and serve the other: that is told once, not each time one of them answers.
        if (node, not lane.quiet) not in self._failing or other is None or not other.plan.wanted:
            self._failing.discard((node, not lane.quiet))
            self.brokers.pop(node).over()
            self._notice(f"{self._side} {self._named(node)}: answers again")

    def _named(self, node: int) -> str:
        at = self._cluster.nodes.get(node)
        return f"broker {f'{at.host}:{at.port}' if at else node}"
