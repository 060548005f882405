"""Makes rows of what a task's clusters have counted of their requests."""

from __future__ import annotations

from collections.abc import Sequence

from mirror_connect.connectors.task_measures import SOURCE, TARGET, RequestMeasures
from mirror_connect.kafka_io.client.cluster import Cluster


class RequestRows:
    """Of one task. `clusters`: each with its side (SOURCE, TARGET); several may be of one side."""

    def __init__(self, clusters: Sequence[tuple[str, Cluster]]) -> None:
        self._clusters = clusters

    def take(self) -> tuple[RequestMeasures, ...]:
        """A row for each side and kind; the longest times begin anew."""
        sums: dict[tuple[str, str], RequestMeasures] = {}
        for side, cluster in self._clusters:
            for each in cluster.totals.all():
                most_ms, each.most_s = round(each.most_s * 1000, 1), 0.0
                row = RequestMeasures(
                    side,
                    each.kind,
                    each.requests,
                    each.errors,
                    round(each.total_s * 1000, 1),
                    most_ms,
                    each.sent,
                    each.received,
                    each.throttled_ms,
                )
                other = sums.get((side, each.kind))
                sums[side, each.kind] = row if other is None else _sum(row, other)
        return tuple(sums.values())

    @property
    def connections(self) -> tuple[int, int]:
        """How many are open to the source and to the target."""
        source, target = (
            sum(cluster.connections for its, cluster in self._clusters if its == side) for side in (SOURCE, TARGET)
        )
        return source, target


def _sum(one: RequestMeasures, other: RequestMeasures) -> RequestMeasures:
    return RequestMeasures(
        one.side,
        one.kind,
        one.requests + other.requests,
        one.errors + other.errors,
        round(one.total_ms + other.total_ms, 1),
        max(one.most_ms, other.most_ms),
        one.sent + other.sent,
        one.received + other.received,
        one.throttled_ms + other.throttled_ms,
    )
