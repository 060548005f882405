"""Counts a cluster's requests by kind: answers, errors, times, bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mirror_connect.kafka_io.protocol.codec import Request


@dataclass(slots=True)
class KindTotals:
    """Requests of one kind. Times in seconds from the request to its answer, `most_s` since it was last taken.

    `requests`: those that were answered; `errors`: those that were not. `sent`, `received`: bytes.
    """

    kind: str
    requests: int = 0
    errors: int = 0
    total_s: float = 0.0
    most_s: float = 0.0
    sent: int = 0
    received: int = 0
    throttled_ms: int = 0

    def answered(self, seconds: float, received: int) -> None:
        """An answer has come."""
        self.requests += 1
        self.total_s += seconds
        self.received += received
        self.most_s = max(self.most_s, seconds)


class RequestTotals:
    """The totals of one cluster, over all its connections."""

    def __init__(self) -> None:
        self._kinds: dict[type[Request[Any]], KindTotals] = {}

    def of(self, request: Request[Any]) -> KindTotals:
        """Those of the request's kind."""
        kind = type(request)
        found = self._kinds.get(kind)
        if found is None:
            found = self._kinds[kind] = KindTotals(kind.__name__)
        return found

    def all(self) -> list[KindTotals]:
        """Every kind that there was."""
        return list(self._kinds.values())
