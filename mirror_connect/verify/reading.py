"""One cluster as `--follow` reads it: single bounded fetches over the copier's own connections, batches as they are.

Nothing is cheaper, and that is what following is for. It shares code with the copier; the comparison of a whole link, which
shall not, reads by cluster_logs.py.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.rights import MissingRight, on_topic, user_at
from mirror_connect.kafka_io.client.cluster import Cluster, Leader
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.consumer.fetch_state import LEADERSHIP_ERRORS
from mirror_connect.kafka_io.consumer.fetched import Fetched, SourcePartition, whole_batches
from mirror_connect.kafka_io.protocol import wire_codec as codes
from mirror_connect.kafka_io.protocol.wire import Fetch, FetchPartition, ListOffsets
from mirror_connect.kafka_io.protocol.wire_codec import error_name
from mirror_connect.verify.place import CannotCompareError, Key, Place
from mirror_connect.verify.rate import Rate

LOOK_BYTES: Final = 1 << 20
# A partition that can't be read gets so long to recover, as a restarted broker needs it.
PATIENCE_S: Final = 30.0
_RETRY_S: Final = 0.5


class ClusterReader:
    """One cluster. `committed`: only what readers of committed records see."""

    def __init__(
        self,
        place: Place,
        properties: Mapping[str, str],
        *,
        committed: bool,
        rate: Rate,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.place = place
        self.committed = committed
        self.rate = rate
        self._patience_s = patience_s
        self._cluster = Cluster(properties, client_id="mirror-connect-verify")

    async def open(self, topics: Iterable[str]) -> None:
        """Connects and learns the leaders. ClusterUnreachable, NotAuthorized."""
        await self._cluster.connect()
        await self._cluster.refresh(topics)

    async def close(self) -> None:
        """Closes the connections."""
        await self._cluster.close()

    async def topic_ids(self, topics: Iterable[str]) -> dict[str, bytes | None]:
        """The id of each topic as the cluster tells it now, and where its leaders are; None where there is none.

        ClusterUnreachable, NotAuthorized.
        """
        wanted = sorted(set(topics))
        if wanted:
            await self._cluster.refresh(wanted)
        return {topic: self._cluster.topic_id(topic) for topic in wanted}

    def has(self, key: Key) -> bool:
        """Whether the partition existed when its topic was last asked for."""
        return key[1] < (self._cluster.partition_count(key[0]) or 0)

    async def offsets(self, wanted: Mapping[Key, int], *, open_too: bool = False) -> dict[Key, int | None]:
        """The offset at a timestamp (ms), EARLIEST or LATEST of each partition; None where no record is as late.

        LATEST is what readers see: up to the first open transaction if they read committed records and don't ask for what
        is `open_too`. CannotCompareError.
        """
        found: dict[Key, int | None] = {}
        committed = self.committed and not open_too

        async def ask() -> bool:
            by_node: dict[int, dict[Key, tuple[int, int]]] = {}
            for key, timestamp in wanted.items():
                if key not in found:
                    leader = self._leader(key)
                    by_node.setdefault(leader.node_id, {})[key] = timestamp, leader.epoch
            for node, asked in by_node.items():
                for each in await self._cluster.send(node, ListOffsets(asked, read_committed=committed)):
                    if each.error == codes.NONE:
                        found[each.topic, each.partition] = None if each.offset < 0 else each.offset
                    elif each.error not in LEADERSHIP_ERRORS:
                        raise CannotCompareError(self._refused(each.topic, each.partition, each.error))
            return len(found) == len(wanted)

        await self._patiently({topic for topic, _ in wanted}, ask)
        return found

    async def look(
        self, key: SourcePartition, offset: int, *, hidden_too: bool = True, most: int = LOOK_BYTES
    ) -> Fetched | None:
        """About `most` bytes from `offset` on; None at the end, and where there is nothing any more. CannotCompareError.

        `hidden_too`: where an open transaction hides what is there, the end is here.
        """
        answers: list[Fetched | None] = []

        async def ask() -> bool:
            leader = self._leader(key)
            wanted = FetchPartition(*key, offset, most, leader.epoch)
            request = Fetch([wanted], 100, 1, most, read_committed=self.committed)
            # Not on the connection of fetches, where it would wait behind one that waits for news.
            answer = await self._cluster.send(leader.node_id, request)
            part = answer.partitions[0]
            if part.error in LEADERSHIP_ERRORS:
                return False
            if part.error not in (codes.NONE, codes.OFFSET_OUT_OF_RANGE):
                raise CannotCompareError(self._refused(*key, part.error))
            size, following, _ = whole_batches(part.records)
            if not size and not hidden_too and 0 <= part.last_stable_offset <= offset < part.high_watermark:
                raise CannotCompareError(
                    f"{self.place} partition {key}: an open transaction hides what is there from offset {offset} on"
                )
            whole = Fetched(key, part.records[:size], offset, following, -1, -1, -1, part.aborted)
            answers.append(whole if size else None)
            return True

        await self._patiently({key.topic}, ask)
        return answers[0]

    def _leader(self, key: Key) -> Leader:
        leader = self._cluster.leader(*key)
        if leader is None:
            raise ConnectionLost(f"partition {key[0]}-{key[1]} of the {self.place} has no leader")
        return leader

    def _refused(self, topic: str, partition: int, error: int) -> str:
        what = f"{self.place} partition {topic}-{partition} can't be read: {error_name(error)}"
        if error != codes.TOPIC_AUTHORIZATION_FAILED:
            return what
        return str(MissingRight(what, on_topic("READ", topic), user_at(self.place)))

    async def _patiently(self, topics: Iterable[str], ask: Callable[[], Awaitable[bool]]) -> None:
        """Asks until the answer is whole; leaders may move, brokers restart."""
        until = time.monotonic() + self._patience_s
        why = "leaders are changing"
        while True:
            try:
                if await ask():
                    return
            except ConnectionLost as error:
                why = str(error)
            if time.monotonic() > until:
                raise CannotCompareError(f"the {self.place} cluster does not answer: {why}")
            await asyncio.sleep(_RETRY_S)
            try:
                await self._cluster.refresh(topics)
            except ClusterUnreachable as error:
                why = str(error)
