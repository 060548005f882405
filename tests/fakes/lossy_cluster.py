"""A connection to real brokers that loses chosen requests, before they are sent or with their answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mirror_connect.kafka_io.client.cluster import Cluster, Purpose
from mirror_connect.kafka_io.client.connection import ConnectionLost


class LossyCluster(Cluster):
    """`loses(request)`: None, or `before` or `after`. A request that is lost before is not sent, but seems to be."""

    loses: Callable[[Any], str | None] = staticmethod(lambda _request: None)

    async def send(self, node_id: int, request: Any, *, purpose: Purpose = "control") -> Any:
        lost = self.loses(request)
        if lost == "before":
            if request.before_write is not None:
                request.before_write()
            raise ConnectionLost("a test lost the request")
        answer = await super().send(node_id, request, purpose=purpose)
        if lost == "after":
            raise ConnectionLost("a test lost the answer")
        return answer
