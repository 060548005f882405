"""What must be known before a partition can be read, kept true beside the reading: its leader, its topic's id, its position.

Every error puts some of it in doubt; here is what each of them leads to. Metadata and positions are asked for together,
now and then and when something wants them, never more often than retry.backoff.ms.

A position is one of a topic, not of a name. A broker that takes topic ids (Kafka 3.1) is asked by id, so of a topic that
was deleted and made again not one record is taken for one of the former. Older ones are asked by name: there a topic that
was made again between two fetches, with no error in between, is noticed with the next metadata, metadata.max.age.ms later
at worst.

Nor is an offset one of every log that a partition had: after an unclean leader election it is shorter, and grows again with
other records. So the leader is asked, by the epoch of the last record that was read, whether its log is still that one
(KIP-320): before the first fetch, under each new leader, and where a fetch says that it isn't, or finds nothing at the
position (docs/decisions/0017).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.positions import NO_EPOCH
from mirror_connect.connectors.topic_ids import topic_id_text
from mirror_connect.kafka_io import wire_codec as codes
from mirror_connect.kafka_io.cluster import Cluster
from mirror_connect.kafka_io.connection import ConnectionLost, UnsupportedByBroker
from mirror_connect.kafka_io.wire import EARLIEST, LATEST, ListOffsets
from mirror_connect.kafka_io.wire_codec import Request
from mirror_connect.kafka_io.wire_control import EpochEnd, OffsetForLeaderEpoch
from mirror_connect.spark_jobs.fetch_lanes import FetchLanes
from mirror_connect.spark_jobs.fetch_outages import FetchOutages
from mirror_connect.spark_jobs.fetch_settings import FetchSettings
from mirror_connect.spark_jobs.fetch_state import LEADERSHIP_ERRORS, NOWHERE, TOPIC_IN_DOUBT, PartitionWork
from mirror_connect.spark_jobs.fetched import SourcePartition
from mirror_connect.spark_jobs.told_once import ToldTogether

T = TypeVar("T")
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
        self._refreshed = 0
        # Those whose position is to be checked before anything is fetched there.
        self._doubted: dict[PartitionWork, None] = {}

    async def run(self) -> None:
        """Until cancelled. Raises NotAuthorized when the cluster refuses the credentials, nothing else."""
        while True:
            self._wanted.clear()
            if self._added and time.monotonic() >= self._refresh_at:
                await self._refresh()
            await self._check_positions()
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
        if any(work.node != NOWHERE and work.is_due() for work in self._doubted):
            return 0.0
        return max(0.0, min([self._refresh_at - now, self._lanes.sort_at - now, *due]))

    def begin(self, work: PartitionWork) -> None:
        """It has just been added."""
        if self._cluster.leader(*work.key) is None:
            self._want_metadata()
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
            if work.last_epoch == NO_EPOCH:
                self._reset(work)
            else:
                # Is it retention that took what was there, or was the log truncated?
                work.out_of_range, work.checked = True, None
                self.doubt(work)
            self._lanes.stir(work)
            self._want_metadata()
        else:
            self._note_error(work, code)
            self._want_metadata()
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
        self._doubted[work] = None
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
        self._refreshed += 1
        for work in list(self._added.values()):
            self._check_incarnation(work)
            code = self._metadata_error(work)
            if code == codes.NONE:
                self._lanes.place(work)
                self._doubted[work] = None
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

    # Positions that may be of a log that isn't there any more.

    async def _check_positions(self) -> None:
        by_node: dict[int, dict[tuple[str, int], tuple[PartitionWork, int, int | None]]] = {}
        doubted, self._doubted = self._doubted, {}
        for work in doubted:
            leader = self._cluster.leader(*work.key)
            if leader is None or self._added.get(work.key) is not work or not work.is_unchecked(leader.epoch):
                continue
            # In doubt until it is found to be right.
            self._doubted[work] = None
            if work.is_due():
                by_node.setdefault(leader.node_id, {})[work.key] = work, leader.epoch, work.position
        await asyncio.gather(*(self._check(node, asked) for node, asked in by_node.items()))

    async def _check(self, node: int, asked: Mapping[tuple[str, int], tuple[PartitionWork, int, int | None]]) -> None:
        request = OffsetForLeaderEpoch({key: (epoch, work.last_epoch) for key, (work, epoch, _) in asked.items()})
        ended = await self._ask(node, request, [work for work, _, _ in asked.values()])
        for key, found in (ended or {}).items():
            work, leader_epoch, position = asked[key]
            # What came meanwhile is checked with what came before.
            if self._added.get(key) is not work or work.position != position or work.failed:
                continue
            if found.error != codes.NONE:
                self._note_error(work, found.error)
                self._want_metadata()
            else:
                self._checked(work, leader_epoch, found)

    def _checked(self, work: PartitionWork, leader_epoch: int, found: EpochEnd) -> None:
        knows = found.leader_epoch >= 0 and found.end_offset >= 0
        at = work.diverges_at(found.leader_epoch, found.end_offset) if knows else None
        if knows and at is None:
            work.checked, work.suspected = leader_epoch, None
            if work.out_of_range:
                self._reset(work)
        elif work.suspected in (None, self._refreshed):
            # It was asked by name, and the name may be another topic's now, which the metadata tell.
            work.suspected = self._refreshed
            self._want_metadata()
            return
        elif at is None:
            epoch = work.last_epoch
            work.does_without_epochs()
            self._together.tell(
                f"{work}: its leader knows nothing of leader epoch {epoch}, in which the record before offset "
                f"{work.position} was written; whether its log was truncated is told by offsets alone",
                f"{self._side} partitions whose leaders know nothing of the epochs in their logs",
            )
        elif self._settings.reset.timestamp is None:
            self._fail(
                work,
                f"{work} was truncated at offset {at}, as by an unclean leader election: offsets {at} to "
                f"{(work.position or 0) - 1}, which had been read, are gone from the {self._side}, and {RESET} is none: "
                "earliest goes on there",
                f"{self._side} partitions were truncated, and {RESET} is none",
            )
        else:
            before = work.position or 0
            line = work.rewind(at, found.leader_epoch, found.end_offset)
            kind = f"{self._side} partitions whose logs were truncated"
            self._happened_together.tell(line, kind, before - at, f"are gone from the {self._side}")
        self._lanes.place(work)
        self._wanted.set()

    async def _ask(self, node: int, request: Request[T], works: Iterable[PartitionWork]) -> T | None:
        try:
            return await self._cluster.send(node, request)
        except (ConnectionLost, UnsupportedByBroker) as error:
            for work in works:
                work.back_off(self._settings.retry_backoff_s, self._settings.retry_backoff_max_s)
            self.broker_failed(node, str(error))
            return None

    # Positions that aren't known, or aren't in the log.

    def _reset(self, work: PartitionWork) -> None:
        # Of a log that is another one than was read nothing has been had yet.
        work.reset(EARLIEST if work.made_again or work.rewound else None)

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
        request = ListOffsets(wanted, read_committed=self._settings.read_committed)
        for answer in await self._ask(node, request, [work for work, _ in asked.values()]) or ():
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
