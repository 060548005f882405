"""What must be known before a partition can be read, kept true beside the reading: its leader, its topic's id, its position.

Every error puts some of it in doubt; here is what each of them leads to. Metadata and positions are asked for together,
now and then and when something wants them, never more often than retry.backoff.ms.

A position is one of a topic, not of a name. A broker that takes topic ids (Kafka 3.1) is asked by id, so of a topic that
was deleted and made again not one record is taken for one of the former. Older ones are asked by name: there a topic that
was made again between two fetches, with no error in between, is noticed with the next metadata, metadata.max.age.ms later
at worst.

Where to read on is fetch_positions.py's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.records.topic_ids import topic_id_text
from mirror_connect.connectors.told_once import ToldTogether
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.consumer.fetch_lanes import FetchLanes
from mirror_connect.kafka_io.consumer.fetch_outages import FetchOutages
from mirror_connect.kafka_io.consumer.fetch_positions import FetchPositions
from mirror_connect.kafka_io.consumer.fetch_settings import FetchSettings
from mirror_connect.kafka_io.consumer.fetch_state import LEADERSHIP_ERRORS, NOWHERE, TOPIC_IN_DOUBT, PartitionWork
from mirror_connect.kafka_io.protocol import wire_codec as codes

_MADE_AGAIN: Final = "topics that were deleted and created again"


class FetchUpkeep:
    """`added`: the fetcher's partitions. `notice`, `incident`, `side`, `stop_at_new_topic`: as the fetcher has them.

    `run` does what is due, the other methods say what has become so.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: FetchSettings,
        added: Mapping[tuple[str, int], PartitionWork],
        lanes: FetchLanes,
        outages: FetchOutages,
        *,
        notice: Callable[[str], None],
        incident: Callable[[str], None],
        side: str,
        stop_at_new_topic: str | None,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._added = added
        self._lanes = lanes
        self._outages = outages
        self._together = ToldTogether(notice)
        self._happened_together = ToldTogether(incident)
        self._side = side
        self._stop_at_new_topic = stop_at_new_topic
        self._wanted = asyncio.Event()
        self._refresh_at = 0.0
        self.refreshed = 0
        self._positions = FetchPositions(
            cluster, settings, added, lanes, self, together=self._together, happened=self._happened_together, side=side
        )

    async def run(self) -> None:
        """Until cancelled. Raises NotAuthorized when the cluster refuses the credentials, nothing else."""
        while True:
            self._wanted.clear()
            if self._added and time.monotonic() >= self._refresh_at:
                await self._refresh()
            await self._positions.check()
            await self._positions.look_up()
            if time.monotonic() >= self._lanes.sort_at:
                self._lanes.sort()
            # Metadata and lookups aren't asked for more often than retry.backoff.ms, however many errors want them.
            await asyncio.sleep(self._settings.retry_backoff_s)
            self._lanes.wake()
            try:
                async with asyncio.timeout(self._until_next()):
                    await self._wanted.wait()
            except TimeoutError:
                continue

    def _until_next(self) -> float:
        """Seconds until something is due: a refresh, a lookup, or a partition that has backed off."""
        if not self._added:
            return self._settings.metadata_max_age_s
        now = time.monotonic()
        due = [
            0.0 if work.is_due() else work.retry_at - now
            for work in self._added.values()
            if not work.failed and (work.retry_at > now or (work.position is None and work.node != NOWHERE))
        ]
        if self._positions.is_due:
            return 0.0
        return max(0.0, min([self._refresh_at - now, self._lanes.sort_at - now, *due]))

    def begin(self, work: PartitionWork) -> None:
        """It has just been added."""
        known = self._cluster.topic_id(work.key.topic)
        if known is not None and work.topic_id not in (None, known):
            # Another task may have read on in a newer topic than these metadata know: only newer ones can tell.
            self.want_metadata()
            return
        if self._cluster.leader(*work.key) is None:
            self.want_metadata()
        self._check_incarnation(work)
        self._lanes.place(work)
        self.doubt(work)

    # What an error leads to.

    def fetch_failed(self, work: PartitionWork, code: int) -> None:
        """A broker has answered a fetch with an error for this partition."""
        leader = self._cluster.leader(*work.key)
        if leader is not None and work.node != leader.node_id:
            # A follower's word isn't the last one: it may lag behind or have been restarted. The leader is asked.
            self._lanes.back_to_leader(work)
            if code == codes.OFFSET_OUT_OF_RANGE:
                return
        if code == codes.OFFSET_OUT_OF_RANGE:
            self._positions.out_of_range(work)
            self._lanes.stir(work)
            self.want_metadata()
        else:
            self.note_error(work, code)
            self.want_metadata()
            if code in TOPIC_IN_DOUBT:
                self._lanes.move(work, NOWHERE)

    def diverges(self, work: PartitionWork) -> None:
        """A broker has answered a fetch with: what you read is not in my log. A follower may only lag; the leader knows."""
        work.checked = None
        self._lanes.back_to_leader(work)
        self._lanes.stir(work)
        self.doubt(work)

    def doubt(self, work: PartitionWork) -> None:
        """Its leader's log may be another one than was read."""
        self._positions.doubt(work)
        self._wanted.set()

    def answered(self, work: PartitionWork) -> None:
        """A broker has answered a fetch without an error for this partition."""
        well_again = work.succeeded()
        if well_again:
            self._together.tell(well_again, f"{self._side} partitions are read again")

    def broker_failed(self, node: int, reason: str, *, quiet: bool = False) -> None:
        """A broker doesn't answer, or takes no connection (`quiet`: for its quiet partitions)."""
        for work in list(self._lanes.at(node).values()):
            if work.preferred == node:
                self._lanes.back_to_leader(work)
        self.want_metadata()
        self._outages.broker_fails(node, reason, quiet=quiet)

    def note_error(self, work: PartitionWork, code: int) -> None:
        """A broker has refused this partition: it is tried again later."""
        work.back_off(self._settings.retry_backoff_s)
        self._lanes.stir(work)
        if code in LEADERSHIP_ERRORS:
            work.preferred = NOWHERE
        if code not in LEADERSHIP_ERRORS or not work.still_quiet:
            line = work.explain(code)
            if line:
                self._together.tell(line, f"{self._side} partitions can't be read ({codes.error_name(code)})")

    def fail(self, work: PartitionWork, line: str, kind: str) -> None:
        """It is tried no more; `line` says why."""
        work.error, work.failed = line, True
        self._lanes.move(work, NOWHERE)
        self._together.tell(line, kind)

    def look_again(self) -> None:
        """Something is to be asked for: not only when it is time."""
        self._wanted.set()

    def want_metadata(self) -> None:
        """Leaders or topics may be others than is known."""
        self._refresh_at = 0.0
        self._wanted.set()

    # Leaders and topic ids.

    async def _refresh(self) -> None:
        self._refresh_at = time.monotonic() + self._settings.metadata_max_age_s
        try:
            await self._cluster.refresh({key[0] for key in self._added})
        except ClusterUnreachable as error:
            self._refresh_at = time.monotonic() + self._settings.retry_backoff_max_s
            self._outages.cluster_fails(str(error))
            return
        self._outages.cluster_answers()
        self.refreshed += 1
        for work in list(self._added.values()):
            self._check_incarnation(work)
            code = self._metadata_error(work)
            if code == codes.NONE:
                self._lanes.place(work)
                self._positions.doubt(work)
            elif not work.failed:
                self._lanes.move(work, NOWHERE)
                if work.is_due():
                    self.note_error(work, code)
                self._refresh_at = min(self._refresh_at, work.retry_at)

    def _metadata_error(self, work: PartitionWork) -> int:
        code = self._cluster.topic_error(work.key.topic)
        if code == codes.NONE and self._cluster.leader(*work.key) is None:
            exists = work.key.partition < (self._cluster.partition_count(work.key.topic) or 0)
            return codes.LEADER_NOT_AVAILABLE if exists else codes.UNKNOWN_TOPIC_OR_PARTITION
        return code

    def _check_incarnation(self, work: PartitionWork) -> None:
        """A topic deleted and created again has another id; its offsets mean nothing to the former position."""
        topic_id = self._cluster.topic_id(work.key.topic)
        if topic_id is None:
            return
        if work.topic_id is None:
            work.topic_id = topic_id
        elif work.topic_id != topic_id and not work.failed:
            which = f"{self._side} topic {work.key.topic} was deleted and created again"
            ids = f"its id was {topic_id_text(work.topic_id)} and is {topic_id_text(topic_id)}"
            number = work.key.partition
            if self._stop_at_new_topic is None:
                line = f"{which} ({ids}): partition {number} is read from the beginning of the new one"
                kind = f"partitions of {self._side} {_MADE_AGAIN} are read from the beginning of the new ones"
                if self._happened_together.is_news(work.key, kind, topic_id):
                    self._happened_together.tell(line, kind)
                work.begin_anew(topic_id)
                self._wanted.set()
            else:
                line = f"{which} ({ids}): partition {number} stands still. {self._stop_at_new_topic}"
                self.fail(work, line, f"partitions of {self._side} {_MADE_AGAIN} stand still")
