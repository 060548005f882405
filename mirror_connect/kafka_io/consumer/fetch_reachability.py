"""Reports a cluster or broker that does not answer: a problem from the first failure to the first answer."""

from __future__ import annotations

from mirror_connect.connectors.problems import Problem, ProblemCode, Problems
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.consumer.fetch_queues import FetchQueue, FetchQueues


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
        self._failing_queues: set[tuple[int, bool]] = set()
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

    def broker_fails(self, node: int, reason: str, *, quiet: bool) -> None:
        """It doesn't answer, or accepts no connection. `quiet`: that was the connection for its quiet partitions."""
        self._failing_queues.add((node, quiet))
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
        node, other = queue.node, self._queues.opened.get((queue.node, not queue.quiet))
        self._failing_queues.discard((node, queue.quiet))
        # A broker may refuse one connection and serve the other. That is one problem, not a new one after each answer.
        if (node, not queue.quiet) not in self._failing_queues or other is None or not other.plan.wanted:
            self._failing_queues.discard((node, not queue.quiet))
            name = self.failing.pop(node)
            self._problems.resolve(name, ProblemCode.BROKER_UNREACHABLE, line=f"The {name} answers again")

    def _named(self, node: int) -> str:
        at = self._cluster.nodes.get(node)
        return f"{self._side} broker {f'{at.host}:{at.port}' if at else node}"
