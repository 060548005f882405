"""How far away a broker is: the round trip of small requests, on a connection without records.

Answers to records would also show the load.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from typing import Final

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.connection import ConnectionLost, UnsupportedByBroker
from mirror_connect.kafka_io.protocol.connection_setup import ApiVersions

# From this round trip on, the distance may be what limits copying.
FAR_S: Final = 0.02
# So fast a link is to be filled over any distance, if the buffers' settings allow it. Somewhat more than 2 Gbit/s.
LINK_BYTES_PER_S: Final = 256 << 20
ROUND_TRIP_TRIES: Final = 3
# A busy machine delays answers, too. A broker counts as far only if no answer of this many tries was quick.
FAR_TRIES: Final = 20
ROUND_TRIP_PAUSE_S: Final = 0.1
ROUND_TRIP_EVERY_S: Final = 60.0
# A full link delays the measuring requests, too. The quickest answer of so many measurements counts.
ROUND_TRIPS: Final = 10


async def keep_round_trip(
    cluster: Cluster, node_id: int, measured: Callable[[float], None], silent: Callable[[], None]
) -> None:
    """Measures it for ever. Calls `measured` with the seconds, or `silent` when no answer comes."""
    clock = asyncio.get_running_loop().time
    found: deque[float] = deque(maxlen=ROUND_TRIPS)
    while True:
        quickest = math.inf
        # The first one may have to connect.
        for number in range(FAR_TRIES + 1):
            started = clock()
            try:
                await cluster.send(node_id, ApiVersions())
            except (ClusterUnreachable, ConnectionLost, NotAuthorized, UnsupportedByBroker):
                silent()
                quickest = math.inf
                break
            if number > 0:
                quickest = min(quickest, clock() - started)
            if number >= ROUND_TRIP_TRIES and quickest <= FAR_S:
                break
            await asyncio.sleep(ROUND_TRIP_PAUSE_S)
        if quickest < math.inf:
            found.append(quickest)
            measured(min(found))
        await asyncio.sleep(ROUND_TRIP_EVERY_S)
