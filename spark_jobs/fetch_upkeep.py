"""What must be known before a partition can be read, kept true beside the reading: its leader, its topic's id, its position.

Every error puts some of it in doubt; here is what each of them leads to. Metadata and positions are asked for together,
now and then and when something wants them, never more often than retry.backoff.ms.

A position is one of a topic, not of a name. A broker that takes topic ids (Kafka 3.1) is asked by id, so of a topic that
was deleted and made again not one record is taken for one of the former. Older ones are asked by name: there a topic that
was made again between two fetches, with no error in between, is noticed with the next metadata, metadata.max.age.ms later
at worst.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.topic_ids import topic_id_text
from mirror_connect.kafka_io import wire_codec as codes
from mirror_connect.kafka_io.cluster import Cluster
from mirror_connect.kafka_io.connection import ConnectionLost, UnsupportedByBroker
from mirror_connect.kafka_io.wire import EARLIEST, LATEST, ListOffsets
from mirror_connect.spark_jobs.fetch_lanes import FetchLanes
from mirror_connect.spark_jobs.fetch_outages import FetchOutages
from mirror_connect.spark_jobs.fetch_settings import FetchSettings
from mirror_connect.spark_jobs.fetch_state import LEADERSHIP_ERRORS, NOWHERE, TOPIC_IN_DOUBT, PartitionWork
from mirror_connect.spark_jobs.fetched import SourcePartition
from mirror_connect.spark_jobs.told_once import ToldTogether

RESET: Final = "source.consumer.auto.offset.reset"
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

    async def run(self) -> None:
        """Until cancelled. Raises NotAuthorized when the cluster refuses the credentials, nothing else."""
        while True:
            self._wanted.clear()
            if self._added and time.monotonic() >= self._refresh_at:
                await self._refresh()
            await self._look_up_positions()
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
        return max(0.0, min([self._refresh_at - now, self._lanes.sort_at - now, *due]))

    def begin(self, work: PartitionWork) -> None:
        """It has just been added."""
        if self._cluster.leader(*work.key) is None:
            self._want_metadata()
        self._check_incarnation(work)
        self._lanes.place(work)
        self._wanted.set()

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
            work.lost, work.position = work.position, None
            work.timestamp = EARLIEST if work.made_again else None
            self._lanes.stir(work)
            self._want_metadata()
        else:
            self._note_error(work, code)
            self._want_metadata()
            if code in TOPIC_IN_DOUBT:
                self._lanes.move(work, NOWHERE)

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
        self._want_metadata()
        self._outages.broker_fails(node, reason, quiet=quiet)

    def _note_error(self, work: PartitionWork, code: int) -> None:
        work.back_off(self._settings.retry_backoff_s)
        self._lanes.stir(work)
        if code in LEADERSHIP_ERRORS:
            work.preferred = NOWHERE
        if code not in LEADERSHIP_ERRORS or not work.still_quiet:
            line = work.explain(code)
            if line:
                self._together.tell(line, f"{self._side} partitions can't be read ({codes.error_name(code)})")

    def _fail(self, work: PartitionWork, line: str, kind: str) -> None:
        work.error, work.failed = line, True
        self._lanes.move(work, NOWHERE)
        self._together.tell(line, kind)

    def _want_metadata(self) -> None:
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
        for work in list(self._added.values()):
            self._check_incarnation(work)
            code = self._metadata_error(work)
            if code == codes.NONE:
                self._lanes.place(work)
            elif not work.failed:
                self._lanes.move(work, NOWHERE)
                if work.is_due():
                    self._note_error(work, code)
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
                self._happened_together.tell(
                    line, f"partitions of {self._side} {_MADE_AGAIN} are read from the beginning of the new ones"
                )
                work.begin_anew(topic_id)
                self._wanted.set()
            else:
                line = f"{which} ({ids}): partition {number} stands still. {self._stop_at_new_topic}"
                self._fail(work, line, f"partitions of {self._side} {_MADE_AGAIN} stand still")

    # Positions that aren't known, or aren't in the log.

    async def _look_up_positions(self) -> None:
        by_node: dict[int, list[PartitionWork]] = {}
        for work in self._added.values():
            leader = self._cluster.leader(*work.key)
            if work.position is None and leader is not None and work.is_due():
                if work.timestamp is None and self._settings.reset.timestamp is None:
                    self._fail_without_position(work)
                else:
                    by_node.setdefault(leader.node_id, []).append(work)
        await asyncio.gather(*(self._look_up(node, works) for node, works in by_node.items()))

    def _fail_without_position(self, work: PartitionWork) -> None:
        where = "has no position yet" if work.lost is None else f"has no offset {work.lost} any more, or not yet"
        todo = (
            "begin with earliest or latest, and set none afterwards"
            if work.lost is None
            else "earliest goes on behind what is gone by retention or deletion"
        )
        reset = f"{RESET} is none"
        line = f"{work} {where}, and {reset}: {todo}"
        self._fail(work, line, f"{self._side} partitions have no position to be read from, and {reset}")

    async def _look_up(self, node: int, works: Iterable[PartitionWork]) -> None:
        asked: dict[tuple[str, int], tuple[PartitionWork, int]] = {}
        for work in works:
            leader = self._cluster.leader(*work.key)
            if leader is not None:
                asked[work.key] = (work, leader.epoch)
        wanted = {key: (self._reset_timestamp(work), epoch) for key, (work, epoch) in asked.items()}
        try:
            found = await self._cluster.send(node, ListOffsets(wanted, read_committed=self._settings.read_committed))
        except (ConnectionLost, UnsupportedByBroker) as error:
            for work, _ in asked.values():
                work.back_off(self._settings.retry_backoff_s, self._settings.retry_backoff_max_s)
            self.broker_failed(node, str(error))
            return
        for answer in found:
            work = asked[SourcePartition(answer.topic, answer.partition)][0]
            if self._added.get(work.key) is not work or work.position is not None:
                continue
            if answer.error != codes.NONE:
                self._note_error(work, answer.error)
                self._want_metadata()
            elif answer.offset < 0:
                work.timestamp = LATEST  # nothing is as late as the time asked for
                self._wanted.set()
            else:
                skipped = 0 if work.lost is None else max(0, answer.offset - work.lost)
                if line := work.moved(answer.offset):
                    kind = f"{self._side} partitions whose position was not in the log any more"
                    self._happened_together.tell(line, kind, skipped)
                self._lanes.place(work)

    def _reset_timestamp(self, work: PartitionWork) -> int:
        reset = self._settings.reset
        if work.timestamp is not None:
            return work.timestamp
        if reset.ago_ms is not None:
            return int(time.time() * 1000) - reset.ago_ms
        return EARLIEST if reset.timestamp is None else reset.timestamp
