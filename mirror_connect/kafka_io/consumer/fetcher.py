"""Record batches out of the source cluster: one long-polling fetch per broker, with incremental sessions.

How mirror_source uses it (all in one event loop)::

    fetcher = Fetcher(cluster, settings, on_records=take, on_notice=notices.append)
    fetcher.add(SourcePartition("orders", 0), position=17)     # next offset wanted; None = by auto.offset.reset
    await fetcher.run()                                        # until cancelled; no broker or partition makes it raise

`take(fetched)` is called in the loop's thread, in offset order within a partition; after a truncation offsets come that
came before, with other records. It must not block: it puts the value into the caller's own queue of that partition. The
fetcher has no queue: it counts the bytes of every Fetched until `fetched.release()`, which the caller calls once when it no
longer needs `buffer` (its batches are acknowledged, or copied, or dropped). A partition with too many unreleased bytes is
left out of the next fetch, others go on.

The next fetch leaves as soon as the former answer is cut up, if there is room. While a broker has partitions that were
left out for want of room, its fetches wait for news 20 ms at most instead of fetch.max.wait.ms, so that a partition with
room again is soon read; a partition newly added waits fetch.max.wait.ms at most. That costs no second connection.

Which connection a partition is read on is fetch_lanes.py's, what is told of brokers that don't answer fetch_outages.py's;
fetch_upkeep.py keeps leaders and positions. Here is the reading itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

from mirror_connect.connectors.errors import NotAuthorized
from mirror_connect.connectors.records.positions import NO_EPOCH
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.connection import ConnectionLost, UnsupportedByBroker
from mirror_connect.kafka_io.client.outage import Outage, cluster_away
from mirror_connect.kafka_io.consumer.fetch_budget import FetchBudget
from mirror_connect.kafka_io.consumer.fetch_handover import FetchHandover
from mirror_connect.kafka_io.consumer.fetch_lanes import FetchLanes, Lane
from mirror_connect.kafka_io.consumer.fetch_outages import FetchOutages
from mirror_connect.kafka_io.consumer.fetch_plan import NOTHING, Judged
from mirror_connect.kafka_io.consumer.fetch_session import LOST, FetchSession
from mirror_connect.kafka_io.consumer.fetch_settings import FetchSettings
from mirror_connect.kafka_io.consumer.fetch_state import NOWHERE, PartitionState, PartitionWork
from mirror_connect.kafka_io.consumer.fetch_upkeep import FetchUpkeep
from mirror_connect.kafka_io.consumer.fetched import Fetched, SourcePartition
from mirror_connect.kafka_io.protocol import wire_codec as codes
from mirror_connect.kafka_io.protocol.wire import NO_TOPIC_ID, Fetch, FetchedPartition, FetchResponse

__all__ = ["Fetched", "Fetcher", "PartitionState", "SourcePartition"]

_WAIT_WITH_SOME_LEFT_OUT_MS: Final = 20
# Of the busy ones beside quiet ones: one that has become busy is not to wait for the others.
_WAIT_BESIDE_QUIET_MS: Final = 100


class Fetcher:
    """Fetches the added partitions until `run` is cancelled. Not thread-safe; everything in one event loop.

    `settings`: Java consumer properties, see fetch_settings.py. `buffer_limit_bytes` bounds unreleased and in-flight
    bytes together (exceeded by at most one batch per broker). `on_notice` gets one line for each thing a user should
    know, once, `side` says there whose cluster it is; `on_incident` those of what has happened and stays so, which are
    notices without it. `stop_at_new_topic`: a partition whose topic was deleted and made again stands still, and this says
    why and what to do; None: the new one is read from its beginning. Raises ConfigError for a wrong setting.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: Mapping[str, str],
        *,
        on_records: Callable[[Fetched], None],
        on_notice: Callable[[str], None],
        on_incident: Callable[[str], None] | None = None,
        away: Outage | None = None,
        buffer_limit_bytes: int = 32 << 20,
        side: str = "source",
        stop_at_new_topic: str | None = None,
    ) -> None:
        self._cluster = cluster
        self._settings = FetchSettings.of(settings)
        self._on_notice = on_notice
        self._side = side
        self._budget = FetchBudget(buffer_limit_bytes, self._settings.max_bytes, self._settings.partition_max_bytes)
        self._work: dict[tuple[str, int], PartitionWork] = {}
        away = away or cluster_away(f"{side} cluster", settings.get("bootstrap.servers"))
        self._lanes = FetchLanes(cluster, self._settings.metadata_max_age_s, self._opened)
        self._outages = FetchOutages(cluster, self._lanes, side, away, on_notice)
        self._upkeep = FetchUpkeep(
            cluster,
            self._settings,
            self._work,
            self._lanes,
            self._outages,
            notice=on_notice,
            incident=on_incident or on_notice,
            side=side,
            stop_at_new_topic=stop_at_new_topic,
        )
        self._handover = FetchHandover(self._budget, on_records, self._lanes.stir, self._wake_starved)
        # Lanes that wait for room.
        self._starved: set[Lane] = set()
        self._paused = False
        self._loops: asyncio.TaskGroup | None = None

    def add(
        self,
        partition: SourcePartition,
        position: int | None,
        topic_id: bytes | None = None,
        leader_epoch: int = NO_EPOCH,
    ) -> None:
        """Start fetching at `position` (the next offset wanted); None lets auto.offset.reset decide.

        `topic_id`: of the topic that the position is of, if that is known. If another one has the name now, it is read from
        its beginning. `leader_epoch`: of the record before the position. If that isn't in the log any more, it is read from
        where the log was truncated.
        """
        self.remove(partition)
        work = PartitionWork(partition, position, None if position is None else topic_id, leader_epoch, self._side)
        self._work[partition] = work
        self._upkeep.begin(work)

    def remove(self, partition: SourcePartition) -> None:
        """Stop fetching: no call of on_records for it after this one. What was handed over stays valid until released."""
        work = self._work.pop(partition, None)
        if work is not None:
            self._lanes.move(work, NOWHERE)

    def state(self, partition: SourcePartition) -> PartitionState:
        """Where an added partition stands; raises KeyError for another."""
        return self._work[partition].view

    def outages(self) -> list[str]:
        """A line for the cluster while it is away, or else for each broker that partitions are to be read from."""
        return self._outages.lines

    def in_trouble(self) -> list[SourcePartition]:
        """The added partitions whose state has an error."""
        return [work.key for work in self._work.values() if work.error]

    def pause(self) -> None:
        """Send no further fetch and hand nothing over (a task that is told to finish); `resume` undoes it."""
        self._paused = True

    def resume(self) -> None:
        """Go on after `pause`."""
        self._paused = False
        self._lanes.wake()

    async def run(self) -> None:
        """Fetch until cancelled. Raises NotAuthorized when the cluster refuses the credentials, nothing else."""
        try:
            async with asyncio.TaskGroup() as self._loops:
                self._loops.create_task(self._upkeep.run())
                for lane in self._lanes.opened.values():
                    self._loops.create_task(self._read_from(lane))
        except* NotAuthorized as refused:
            raise refused.exceptions[0] from None
        finally:
            self._loops = None

    # Reading: one loop for each lane.

    def _opened(self, lane: Lane) -> None:
        if self._loops is not None:
            self._loops.create_task(self._read_from(lane))

    async def _read_from(self, lane: Lane) -> None:
        session = FetchSession()
        while True:
            lane.waker.clear()
            left_out = not self._paused and self._look(lane)
            wanted = {} if self._paused else lane.plan.wanted
            room = self._budget.reserve(self._lanes.in_use()) if wanted else 0
            if room == 0:
                if wanted or left_out:
                    self._starved.add(lane)
                await lane.waker.wait()
                continue
            try:
                await self._fetch(lane, session, room, left_out=left_out)
            except (ConnectionLost, UnsupportedByBroker) as error:
                session.failed()
                self._upkeep.broker_failed(lane.node, str(error), quiet=lane.quiet)
                await asyncio.sleep(self._settings.retry_backoff_s)
            finally:
                self._budget.unreserve(room)
                self._wake_starved()

    def _wake_starved(self) -> None:
        for lane in self._starved:
            lane.waker.set()
        self._starved.clear()

    def _look(self, lane: Lane) -> bool:
        """Brings the plan up to date; whether some partitions were left out because they hold too much."""
        node, quiet = lane.node, lane.quiet
        now, at_node = time.monotonic(), self._lanes.at(node)
        budget = self._budget

        def judge(key: tuple[str, int]) -> Judged:
            work = at_node.get(key)
            if work is None or work.quiet != quiet:
                return NOTHING
            if work.preferred != NOWHERE and now >= work.preferred_until:
                self._lanes.back_to_leader(work)
                if work.node != node:
                    return NOTHING
            leader, due = self._cluster.leader(*key), work.is_due()
            restless = work.unreleased > 0 or work.preferred != NOWHERE or not due
            if leader is not None and work.is_unchecked(leader.epoch):
                self._upkeep.doubt(work)
                return Judged(None, restless)
            if work.position is None or leader is None or not due:
                return Judged(None, restless)
            cap, size = budget.partition_cap(work.released), budget.partition_bytes(work.released)
            if work.unreleased > 0 and work.unreleased + min(size, work.max_bytes) > cap:
                return Judged(None, restless, full=True)
            return Judged(work.wanted(leader.epoch, size), restless)

        return lane.plan.look(judge)

    async def _fetch(self, lane: Lane, session: FetchSession, room: int, *, left_out: bool) -> None:
        settings, node, quiet = self._settings, lane.node, lane.quiet
        part = session.request(lane.plan.wanted, lane.plan.news)
        lane.plan.asked()
        beside_quiet = not quiet and (node, True) in self._lanes.opened
        most_ms = _WAIT_BESIDE_QUIET_MS if beside_quiet else settings.max_wait_ms
        request = Fetch(
            part.partitions,
            min(settings.max_wait_ms, _WAIT_WITH_SOME_LEFT_OUT_MS if left_out else most_ms),
            settings.min_bytes,
            room,
            read_committed=settings.read_committed,
            session_id=part.session_id,
            session_epoch=part.session_epoch,
            forgotten=part.forgotten,
            rack=settings.rack,
            names=part.names,
        )
        answer = await self._cluster.send(node, request, purpose="fetch-quiet" if quiet else "fetch")
        if node in self._outages.brokers:
            self._outages.broker_answers(lane)
        if answer.error == codes.NONE:
            session.answered(answer.session_id)
            self._take(lane, session, answer)
        else:
            session.failed(answer.error)
            if answer.error not in LOST:
                self._on_notice(f"{self._side} broker {node} refuses to be read: {codes.error_name(answer.error)}")
                await asyncio.sleep(settings.retry_backoff_max_s)

    def _take(self, lane: Lane, session: FetchSession, answer: FetchResponse) -> None:
        node, quiet = lane.node, lane.quiet
        now = time.monotonic()
        fresh: list[tuple[PartitionWork, FetchedPartition]] = []
        for part in answer.partitions:
            work = self._work.get((part.topic, part.partition))
            asked = session.asked((part.topic, part.partition))
            # Removed, moved to another broker or set to another position meanwhile: the answer is nobody's.
            if self._paused or work is None or asked is None or asked.offset != work.position:
                continue
            if work.node != node or work.quiet != quiet:
                continue
            if asked.topic_id != (work.topic_id or NO_TOPIC_ID) or asked.last_epoch != work.last_epoch:
                continue
            if part.error != codes.NONE:
                self._upkeep.fetch_failed(work, part.error)
                continue
            if part.diverging is not None:
                self._upkeep.diverges(work)
                continue
            # Whatever was read up to here is in this leader's log, or of an epoch that isn't known.
            work.checked = asked.leader_epoch
            work.high_watermark = max(part.high_watermark, -1)
            work.log_start = part.log_start if part.log_start >= 0 else work.log_start
            self._upkeep.answered(work)
            if part.preferred_replica >= 0 and part.preferred_replica != node:
                self._lanes.prefer(work, part.preferred_replica)
            if len(part.records) > 0:
                fresh.append((work, part))
                if quiet:
                    self._lanes.has_records(work, now)
                work.records_at = now
        if fresh:
            self._handover.give(fresh, answer.size)
