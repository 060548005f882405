"""Record batches out of the source cluster: one long-polling fetch per broker, with incremental sessions.

How mirror_source uses it (all in one event loop)::

    fetcher = Fetcher(cluster, settings, on_records=take, on_notice=notices.append)
    fetcher.add(SourcePartition("orders", 0), position=17)     # next offset wanted; None = by auto.offset.reset
    await fetcher.run()                                        # until cancelled; no broker or partition makes it raise

`take(fetched)` is called in the loop's thread, in offset order within a partition. It must not block: it puts the value
into the caller's own queue of that partition. The fetcher has no queue: it counts the bytes of every Fetched until
`fetched.release()`, which the caller calls once when it no longer needs `buffer` (its batches are acknowledged, or
copied, or dropped). A partition with too many unreleased bytes is left out of the next fetch, others go on.

The next fetch leaves as soon as the former answer is cut up, if there is room. While a broker has partitions that were
left out for want of room, its fetches wait for news 20 ms at most instead of fetch.max.wait.ms, so that a partition with
room again is soon read; a partition newly added waits fetch.max.wait.ms at most. That costs no second connection.

A broker looks at every partition of a session for each fetch, so a thousand quiet ones would slow down every record of a
busy one. Of many partitions at one broker those that have had nothing for a while are asked for on a connection of their
own; one that has records again goes back when it has them twice in a row.

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

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.topic_ids import topic_id_text
from mirror_connect.kafka_io import wire_codec as codes
from mirror_connect.kafka_io.cluster import Cluster
from mirror_connect.kafka_io.connection import ConnectionLost, UnsupportedByBroker
from mirror_connect.kafka_io.wire import (
    EARLIEST,
    LATEST,
    NO_TOPIC_ID,
    Fetch,
    FetchedPartition,
    FetchResponse,
    ListOffsets,
)
from mirror_connect.spark_jobs.fetch_budget import FetchBudget
from mirror_connect.spark_jobs.fetch_plan import NOTHING, FetchPlan, Judged
from mirror_connect.spark_jobs.fetch_session import LOST, FetchSession
from mirror_connect.spark_jobs.fetch_settings import FetchSettings
from mirror_connect.spark_jobs.fetch_state import (
    LEADERSHIP_ERRORS,
    NOWHERE,
    TOPIC_IN_DOUBT,
    PartitionState,
    PartitionWork,
)
from mirror_connect.spark_jobs.fetched import Fetched, Share, SourcePartition, whole_batches
from mirror_connect.spark_jobs.outage import Outage, cluster_away

__all__ = ["Fetched", "Fetcher", "PartitionState", "SourcePartition"]

_WAIT_WITH_SOME_LEFT_OUT_MS: Final = 20
# So many partitions at a broker are many.
MANY: Final = 300
QUIET_AFTER_S: Final = 20.0
BUSY_AGAIN_S: Final = 5.0
# Of the busy ones beside quiet ones: one that has become busy is not to wait for the others.
_WAIT_BESIDE_QUIET_MS: Final = 100

# A broker's node id, and whether its quiet partitions are meant.
_Lane = tuple[int, bool]


class Fetcher:
    """Fetches the added partitions until `run` is cancelled. Not thread-safe; everything in one event loop.

    `settings`: Java consumer properties, see fetch_settings.py. `buffer_limit_bytes` bounds unreleased and in-flight
    bytes together (exceeded by at most one batch per broker). `on_notice` gets one line for each thing a user should
    know, once, `side` says there whose cluster it is. `stop_at_new_topic`: a partition whose topic was deleted and made
    again stands still, and this says why and what to do; None: the new one is read from its beginning. Raises ConfigError
    for a wrong setting.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: Mapping[str, str],
        *,
        on_records: Callable[[Fetched], None],
        on_notice: Callable[[str], None],
        away: Outage | None = None,
        buffer_limit_bytes: int = 32 << 20,
        side: str = "source",
        stop_at_new_topic: str | None = None,
    ) -> None:
        self._stop_at_new_topic = stop_at_new_topic
        self._cluster = cluster
        self._side = side
        self._settings = FetchSettings.of(settings)
        self._on_records = on_records
        self._on_notice = on_notice
        self._budget = FetchBudget(buffer_limit_bytes, self._settings.max_bytes, self._settings.partition_max_bytes)
        self._work: dict[tuple[str, int], PartitionWork] = {}
        self._by_node: dict[int, dict[tuple[str, int], PartitionWork]] = {}
        self._wakers: dict[_Lane, asyncio.Event] = {}
        self._plans: dict[_Lane, FetchPlan] = {}
        self._starved: set[_Lane] = set()
        self._sort_at = time.monotonic() + QUIET_AFTER_S
        self._chores = asyncio.Event()
        self._refresh_at = 0.0
        self._paused = False
        self._unreachable = ""
        self._away = away or cluster_away(f"{side} cluster", settings.get("bootstrap.servers"))
        self._troubled: dict[int, Outage] = {}
        self._failing: set[_Lane] = set()
        self._loops: asyncio.TaskGroup | None = None

    def add(self, partition: SourcePartition, position: int | None, topic_id: bytes | None = None) -> None:
        """Start fetching at `position` (the next offset wanted); None lets auto.offset.reset decide.

        `topic_id`: of the topic that the position is of, if that is known. If another one has the name now, it is read from
        its beginning.
        """
        self.remove(partition)
        work = self._work[partition] = PartitionWork(partition, position, None if position is None else topic_id)
        if self._cluster.leader(*partition) is None:
            self._want_metadata()
        self._check_incarnation(work)
        self._place(work)
        self._chores.set()

    def remove(self, partition: SourcePartition) -> None:
        """Stop fetching: no call of on_records for it after this one. What was handed over stays valid until released."""
        work = self._work.pop(partition, None)
        if work is not None:
            self._move(work, NOWHERE)

    def state(self, partition: SourcePartition) -> PartitionState:
        """Where an added partition stands; raises KeyError for another."""
        return self._work[partition].view

    def outages(self) -> list[str]:
        """A line for the cluster while it is away, or else for each broker that partitions are to be read from."""
        if self._away.line:
            return [self._away.line]
        lines = [outage.line for node, outage in sorted(self._troubled.items()) if self._by_node.get(node)]
        return [line for line in lines if line]

    def in_trouble(self) -> list[SourcePartition]:
        """The added partitions whose state has an error."""
        return [work.key for work in self._work.values() if work.error]

    def pause(self) -> None:
        """Send no further fetch and hand nothing over (a task that is told to finish); `resume` undoes it."""
        self._paused = True

    def resume(self) -> None:
        """Go on after `pause`."""
        self._paused = False
        self._wake(self._wakers)

    async def run(self) -> None:
        """Fetch until cancelled. Raises NotAuthorized when the cluster refuses the credentials, nothing else."""
        try:
            async with asyncio.TaskGroup() as self._loops:
                self._loops.create_task(self._do_chores())
                for lane in self._wakers:
                    self._loops.create_task(self._read_from(lane))
        except* NotAuthorized as refused:
            raise refused.exceptions[0] from None
        finally:
            self._loops = None

    # Chores: metadata, and positions that aren't known.

    async def _do_chores(self) -> None:
        while True:
            self._chores.clear()
            if self._work and time.monotonic() >= self._refresh_at:
                await self._refresh()
            await self._look_up_positions()
            if time.monotonic() >= self._sort_at:
                self._sort_lanes()
            # Metadata and lookups aren't asked for more often than retry.backoff.ms, however many errors want them.
            await asyncio.sleep(self._settings.retry_backoff_s)
            self._wake(self._wakers)
            try:
                async with asyncio.timeout(self._next_chore()):
                    await self._chores.wait()
            except TimeoutError:
                continue

    def _next_chore(self) -> float:
        """Seconds until something is due: a refresh, a lookup, or a partition that has backed off."""
        if not self._work:
            return self._settings.metadata_max_age_s
        now = time.monotonic()
        due = [
            0.0 if work.is_due() else work.retry_at - now
            for work in self._work.values()
            if not work.failed and (work.retry_at > now or (work.position is None and work.node != NOWHERE))
        ]
        return max(0.0, min([self._refresh_at - now, self._sort_at - now, *due]))

    def _sort_lanes(self) -> None:
        now = time.monotonic()
        self._sort_at = now + QUIET_AFTER_S
        for works in self._by_node.values():
            many = len(works) >= MANY
            for work in works.values():
                if work.quiet != (quiet := many and now - work.records_at >= QUIET_AFTER_S) and (quiet or not many):
                    self._change_lane(work, quiet=quiet)

    def _change_lane(self, work: PartitionWork, *, quiet: bool) -> None:
        # What the other connection may still bring of it is not taken.
        self._stir(work)
        work.quiet = quiet
        self._move(work, work.node)

    async def _refresh(self) -> None:
        self._refresh_at = time.monotonic() + self._settings.metadata_max_age_s
        try:
            await self._cluster.refresh({key[0] for key in self._work})
        except ClusterUnreachable as error:
            self._refresh_at = time.monotonic() + self._settings.retry_backoff_max_s
            if not self._unreachable:
                self._on_notice(f"{self._side} cluster: {error}; tried again until it answers")
            self._unreachable = str(error)
            self._away.lasts(str(error))
            return
        self._away.over()
        if self._unreachable:
            self._unreachable = ""
            self._on_notice(f"{self._side} cluster: answers again")
        for work in list(self._work.values()):
            self._check_incarnation(work)
            code = self._metadata_error(work)
            if code == codes.NONE:
                self._place(work)
            elif not work.failed:
                self._move(work, NOWHERE)
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
                self._on_notice(f"{which} ({ids}): partition {number} is read from the beginning of the new one")
                work.begin_anew(topic_id)
                self._chores.set()
            else:
                self._fail(work, f"{which} ({ids}): partition {number} stands still. {self._stop_at_new_topic}")

    async def _look_up_positions(self) -> None:
        by_node: dict[int, list[PartitionWork]] = {}
        for work in self._work.values():
            leader = self._cluster.leader(*work.key)
            if work.position is None and leader is not None and work.is_due():
                if work.timestamp is None and self._settings.reset.timestamp is None:
                    self._fail_without_position(work)
                else:
                    by_node.setdefault(leader.node_id, []).append(work)
        await asyncio.gather(*(self._look_up(node, works) for node, works in by_node.items()))

    def _fail_without_position(self, work: PartitionWork) -> None:
        where = "has no known position" if work.lost is None else f"has no offset {work.lost}"
        self._fail(
            work, f"source partition {work.key} {where} and auto.offset.reset is none: set it to earliest or latest"
        )

    def _fail(self, work: PartitionWork, line: str) -> None:
        work.error, work.failed = line, True
        self._move(work, NOWHERE)
        self._on_notice(line)

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
            self._broker_trouble(node, str(error))
            return
        for answer in found:
            work = asked[SourcePartition(answer.topic, answer.partition)][0]
            if self._work.get(work.key) is not work or work.position is not None:
                continue
            if answer.error != codes.NONE:
                self._note_error(work, answer.error)
                self._want_metadata()
            elif answer.offset < 0:
                work.timestamp = LATEST  # nothing is as late as the time asked for
                self._chores.set()
            else:
                notice = work.moved(answer.offset)
                if notice:
                    self._on_notice(notice)
                self._place(work)

    def _reset_timestamp(self, work: PartitionWork) -> int:
        reset = self._settings.reset
        if work.timestamp is not None:
            return work.timestamp
        if reset.ago_ms is not None:
            return int(time.time() * 1000) - reset.ago_ms
        return EARLIEST if reset.timestamp is None else reset.timestamp

    # Reading: one loop per broker.

    async def _read_from(self, lane: _Lane) -> None:
        session = FetchSession()
        waker, plan = self._wakers[lane], self._plans[lane]
        while True:
            waker.clear()
            left_out = not self._paused and self._look(lane, plan)
            wanted = {} if self._paused else plan.wanted
            room = self._budget.reserve(self._lanes_in_use()) if wanted else 0
            if room == 0:
                if wanted or left_out:
                    self._starved.add(lane)
                await waker.wait()
                continue
            try:
                await self._fetch(lane, session, plan, room, left_out=left_out)
            except (ConnectionLost, UnsupportedByBroker) as error:
                session.failed()
                self._broker_trouble(lane[0], str(error), quiet=lane[1])
                await asyncio.sleep(self._settings.retry_backoff_s)
            finally:
                self._budget.unreserve(room)
                self._wake(self._starved)

    async def _fetch(
        self,
        lane: _Lane,
        session: FetchSession,
        plan: FetchPlan,
        room: int,
        *,
        left_out: bool,
    ) -> None:
        settings, (node, quiet) = self._settings, lane
        part = session.request(plan.wanted, plan.news)
        plan.asked()
        most_ms = _WAIT_BESIDE_QUIET_MS if not quiet and (node, True) in self._plans else settings.max_wait_ms
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
        if node in self._troubled:
            self._answers(lane)
        if answer.error == codes.NONE:
            session.answered(answer.session_id)
            self._take(lane, session, answer)
        else:
            session.failed(answer.error)
            if answer.error not in LOST:
                self._on_notice(f"source broker {node} refuses to be read: {codes.error_name(answer.error)}")
                await asyncio.sleep(settings.retry_backoff_max_s)

    def _look(self, lane: _Lane, plan: FetchPlan) -> bool:
        """Brings the plan up to date; whether some partitions were left out because they hold too much."""
        node, quiet = lane
        now, at_node = time.monotonic(), self._by_node.get(node, {})
        cap, size = self._budget.partition_cap(), self._budget.partition_bytes()

        def judge(key: tuple[str, int]) -> Judged:
            work = at_node.get(key)
            if work is None or work.quiet != quiet:
                return NOTHING
            if work.preferred != NOWHERE and now >= work.preferred_until:
                work.preferred = NOWHERE
                self._place(work)
                if work.node != node:
                    return NOTHING
            leader, due = self._cluster.leader(*key), work.is_due()
            restless = work.unreleased > 0 or work.preferred != NOWHERE or not due
            if work.position is None or leader is None or not due:
                return Judged(None, restless)
            if work.unreleased > 0 and work.unreleased + min(size, work.max_bytes) > cap:
                return Judged(None, restless, full=True)
            return Judged(work.wanted(leader.epoch, size), restless)

        return plan.look(judge)

    def _stir(self, work: PartitionWork) -> None:
        """What is to be asked for it may be another thing now."""
        if work.node != NOWHERE:
            self._plans[work.node, work.quiet].stir(work.key)

    def _take(self, lane: _Lane, session: FetchSession, answer: FetchResponse) -> None:
        node, quiet = lane
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
            if asked.topic_id != (work.topic_id or NO_TOPIC_ID):
                continue
            if part.error != codes.NONE:
                self._partition_error(work, part.error)
                continue
            work.high_watermark = max(part.high_watermark, -1)
            work.log_start = part.log_start if part.log_start >= 0 else work.log_start
            self._say(work.succeeded())
            if part.preferred_replica >= 0 and part.preferred_replica != node:
                self._prefer(work, part.preferred_replica)
            if len(part.records) > 0:
                fresh.append((work, part))
                if quiet and now - work.records_at < BUSY_AGAIN_S:
                    self._change_lane(work, quiet=False)
                work.records_at = now
        self._hand_over([(work, part, *whole_batches(part.records)) for work, part in fresh], answer.size)

    def _hand_over(self, pieces: list[tuple[PartitionWork, FetchedPartition, int, int]], frame_size: int) -> None:
        if not pieces:
            return
        budget = self._budget
        copied = budget.is_tight and len(pieces) > 1
        common = Share(frame_size, len(pieces), self._free)
        if not copied:
            budget.take(frame_size)
        for work, part, whole, next_offset in pieces:
            # Not one whole batch means a corrupt length, which asking again at once would not heal.
            size = whole or len(part.records)
            buffer, share = part.records[:size], common
            if copied:
                # A slow partition's piece must not keep the frame of all the others alive.
                buffer, share = memoryview(bytes(buffer)), Share(size, 1, self._free)
                budget.take(size)
            budget.loaded_partitions += work.unreleased == 0
            work.unreleased += size
            position = work.position or 0  # known: the answer was to it
            fetched = Fetched(
                work.key,
                buffer,
                position,
                next_offset,
                part.high_watermark,
                part.last_stable_offset,
                part.log_start,
                part.aborted,
                work.topic_id,
                self._release_of(work, share),
            )
            work.position = max(next_offset, position)
            self._stir(work)
            self._on_records(fetched)

    def _release_of(self, work: PartitionWork, share: Share) -> Callable[[int], None]:
        def released(size: int) -> None:
            work.unreleased -= size
            self._budget.loaded_partitions -= work.unreleased == 0
            share.part_done()
            self._wake(self._starved)

        return released

    def _free(self, size: int) -> None:
        self._budget.free(size)

    # Errors.

    def _partition_error(self, work: PartitionWork, code: int) -> None:
        leader = self._cluster.leader(*work.key)
        if leader is not None and work.node != leader.node_id:
            # A follower's word isn't the last one: it may lag behind or have been restarted. The leader is asked.
            work.preferred = NOWHERE
            self._place(work)
            if code == codes.OFFSET_OUT_OF_RANGE:
                return
        if code == codes.OFFSET_OUT_OF_RANGE:
            work.lost, work.position = work.position, None
            work.timestamp = EARLIEST if work.made_again else None
            self._stir(work)
            self._want_metadata()
        else:
            self._note_error(work, code)
            self._want_metadata()
            if code in TOPIC_IN_DOUBT:
                self._move(work, NOWHERE)

    def _note_error(self, work: PartitionWork, code: int) -> None:
        work.back_off(self._settings.retry_backoff_s)
        self._stir(work)
        if code in LEADERSHIP_ERRORS:
            work.preferred = NOWHERE
        if code not in LEADERSHIP_ERRORS or not work.still_quiet:
            self._say(work.explain(code))

    def _answers(self, lane: _Lane) -> None:
        self._failing.discard(lane)
        node, quiet = lane
        other = (node, not quiet)
        its_plan = self._plans.get(other)
        # A broker may refuse one connection and serve the other: that is told once, not each time one of them answers.
        if other not in self._failing or its_plan is None or not its_plan.wanted:
            self._failing.discard(other)
            self._troubled.pop(node).over()
            self._on_notice(f"{self._side} {self._named(node)}: answers again")

    def _broker_trouble(self, node: int, reason: str, *, quiet: bool = False) -> None:
        self._failing.add((node, quiet))
        for work in list(self._by_node.get(node, {}).values()):
            if work.preferred == node:
                work.preferred = NOWHERE
                self._place(work)
        self._want_metadata()
        if node not in self._troubled:
            self._troubled[node] = Outage(f"The {self._side} {self._named(node)} can't be read from")
            self._on_notice(f"{self._side} {reason}; tried again until it answers")
        self._troubled[node].lasts(reason.removeprefix(f"{self._named(node)}: "))

    def _named(self, node: int) -> str:
        at = self._cluster.nodes.get(node)
        return f"broker {f'{at.host}:{at.port}' if at else node}"

    def _say(self, line: str | None) -> None:
        if line:
            self._on_notice(line)

    # Which broker a partition is read from.

    def _prefer(self, work: PartitionWork, replica: int) -> None:
        work.preferred = replica
        work.preferred_until = time.monotonic() + self._settings.metadata_max_age_s
        self._place(work)

    def _place(self, work: PartitionWork) -> None:
        leader = self._cluster.leader(*work.key)
        if work.preferred != NOWHERE and work.preferred not in self._cluster.nodes:
            work.preferred = NOWHERE
        node = work.preferred if work.preferred != NOWHERE else NOWHERE if leader is None else leader.node_id
        if not work.failed:
            self._move(work, node)

    def _move(self, work: PartitionWork, node: int) -> None:
        if work.node != node:
            self._stir(work)
            self._by_node.get(work.node, {}).pop(work.key, None)
            work.node = node
            if node != NOWHERE:
                self._by_node.setdefault(node, {})[work.key] = work
        if node == NOWHERE:
            return
        lane = (node, work.quiet)
        if lane not in self._wakers:
            self._wakers[lane], self._plans[lane] = asyncio.Event(), FetchPlan()
            if self._loops is not None:
                self._loops.create_task(self._read_from(lane))
        self._stir(work)
        self._wakers[lane].set()

    def _lanes_in_use(self) -> int:
        return max(1, sum(1 for plan in self._plans.values() if plan.wanted))

    def _want_metadata(self) -> None:
        self._refresh_at = 0.0
        self._chores.set()

    def _wake(self, lanes: Iterable[_Lane]) -> None:
        for lane in list(lanes):
            self._wakers[lane].set()
        if lanes is self._starved:
            self._starved.clear()
