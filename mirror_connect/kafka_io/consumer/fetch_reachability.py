"""Reports a cluster or broker that does not answer: a problem from the first failure to the first answer."""

from __future__ import annotations

from mirror_connect.connectors.problems import Problem, ProblemCode, Problems
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.consumer.fetch_queues import FetchQueue, FetchQueues
from mirror_connect.kafka_io.consumer.fetch_state import Lane


class FetchReachability:
    """`side`: whose cluster it is. `unreachable`: the problem of the whole cluster, without its cause.

    `failing`: the brokers that failed and have not answered since, by node id.
    """

    def __init__(
        self, cluster: Cluster, queues: FetchQueues, side: str, unreachable: Problem, problems: Problems
    ) -> None:
        self._cluster = cluster
        self._queues = queues
        self._side = side
        self._unreachable = unreachable
        self._problems = problems
        self._failing_queues: set[tuple[int, Lane]] = set()
        self.failing: dict[int, str] = {}

    @property
    def problems(self) -> list[Problem]:
        """For the status: that of the cluster, or else those of brokers from which partitions are to be read."""
        whole = self._problems.shown(self._unreachable.subject)
        if whole:
            return whole
        names = [name for node, name in sorted(self.failing.items()) if self._queues.at(node)]
        return [problem for name in names for problem in self._problems.shown(name)]

    def cluster_fails(self, reason: str) -> None:
        """No broker answers at all."""
        self._problems.report(self._unreachable.because(reason), shown=True)

    def cluster_answers(self) -> None:
        """Some broker does."""
        name = self._unreachable.subject
        self._problems.resolve(name, ProblemCode.CLUSTER_UNREACHABLE, line=f"The {name} answers again")

    def broker_fails(self, node: int, reason: str, lane: Lane) -> None:
        """It doesn't answer, or accepts no connection for the partitions in this lane."""
        self._failing_queues.add((node, lane))
        # The metadata may drop a broker that is down. Its problem keeps its name all the same.
        name = self.failing.setdefault(node, self._named(node))
        self._problems.report(
            Problem(
                name,
                ProblemCode.BROKER_UNREACHABLE,
                f"The {name} does not answer",
                reason,
                "it is tried again until it answers",
            ),
            shown=True,
        )

    def broker_answers(self, queue: FetchQueue) -> None:
        """A failing broker has answered on this queue."""
        node = queue.node
        self._failing_queues.discard((node, queue.lane))
        others = {(node, lane) for lane in Lane} & self._failing_queues
        # A broker may refuse one connection and serve the others. That is one problem, not a new one after each answer.
        if not any(self._queues.opened[each].plan.wanted for each in others):
            self._failing_queues -= others
            name = self.failing.pop(node)
            self._problems.resolve(name, ProblemCode.BROKER_UNREACHABLE, line=f"The {name} answers again")

    def _named(self, node: int) -> str:
        at = self._cluster.nodes.get(node)
        return f"{self._side} broker {f'{at.host}:{at.port}' if at else node}"
