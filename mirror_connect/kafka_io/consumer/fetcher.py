"""Fetches record batches from the source cluster: a long-polling fetch per broker and queue, with incremental sessions.

How mirror_source uses it (all in one event loop)::

    fetcher = Fetcher(cluster, settings, on_records=take, problems=problems)
    fetcher.add(TopicPartition("orders", 0), position=17)     # next offset wanted; None = by auto.offset.reset
    await fetcher.run()                                        # until cancelled; no broker or partition makes it raise

`take(fetched)` is called in the loop's thread, in offset order within a partition. After a truncation, offsets come again
with other records. `take` must not block: it puts the value into the caller's own queue of that partition. The fetcher has
no queue. It counts the bytes of every CompletedFetch until the caller calls `fetched.release()`, once, when it no longer
needs `buffer`: its batches are acknowledged, copied or dropped. A partition with too many unreleased bytes is left out of
the next fetch; others continue.

The next fetch leaves as soon as the former answer is parsed, if there is room. While partitions of a broker are left out
for want of room, its fetches wait 20 ms at most instead of fetch.max.wait.ms. So a partition that has room again is soon
read. A new partition waits fetch.max.wait.ms at most. After an answer with few bytes the next fetch waits a little, see
fetch_pause.py.

This module does the reading itself. fetch_queues.py chooses the connection of a partition, fetch_distances.py has two for
far brokers, fetch_reachability.py reports brokers that don't answer, and fetch_upkeep.py maintains leaders and positions.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

from mirror_connect.connectors.errors import NotAuthorized
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problem, Problems, cluster_unreachable
from mirror_connect.connectors.records.source_offsets import NO_EPOCH
from mirror_connect.kafka_io.client.cluster import Cluster, Purpose
from mirror_connect.kafka_io.client.connection import ConnectionLost, UnsupportedByBroker
from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch
from mirror_connect.kafka_io.consumer.fetch_budget import FetchBudget
from mirror_connect.kafka_io.consumer.fetch_distances import FetchDistances
from mirror_connect.kafka_io.consumer.fetch_handover import FetchHandover
from mirror_connect.kafka_io.consumer.fetch_pause import BETWEEN_SMALL_S, FetchPause
from mirror_connect.kafka_io.consumer.fetch_plan import NOTHING, Judged
from mirror_connect.kafka_io.consumer.fetch_queues import FetchQueue, FetchQueues
from mirror_connect.kafka_io.consumer.fetch_reachability import FetchReachability
from mirror_connect.kafka_io.consumer.fetch_session import LOST, FetchSession
from mirror_connect.kafka_io.consumer.fetch_settings import FetchSettings
from mirror_connect.kafka_io.consumer.fetch_state import NOWHERE, FetchStatus, Lane, PartitionFetchState
from mirror_connect.kafka_io.consumer.fetch_upkeep import FetchUpkeep
from mirror_connect.kafka_io.consumer.log_ends import LogEnds
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode, error_name
from mirror_connect.kafka_io.protocol.fetch import NO_TOPIC_ID, Fetch, FetchedPartition, FetchResponse

__all__ = ["CompletedFetch", "FetchStatus", "Fetcher"]

_WAIT_WITH_SOME_LEFT_OUT_MS: Final = 20
# For the busy queue beside a quiet one: a partition that has become busy must not wait for the others.
_WAIT_BESIDE_QUIET_MS: Final = 100
_SMALL_BYTES: Final = 64 << 10
_PURPOSES: Final[Mapping[Lane, Purpose]] = {
    Lane.BUSY: "fetch",
    Lane.SECOND: "fetch-second",
    Lane.QUIET: "fetch-quiet",
}


class Fetcher:
    """Fetches the added partitions until `run` is cancelled. Not thread-safe; everything in one event loop.

    `settings`: Java consumer properties, see fetch_settings.py. `buffer_limit_bytes` bounds unreleased and in-flight
    bytes together; one batch per broker may exceed it. `adapts`: to far brokers, see fetch_distances.py. `problems` gets
    what a user should know. There, `side` names the cluster, and `unreachable` is the problem of the whole cluster.
    `stop_at_new_topic`: the advice for a partition that is stalled because its topic was deleted and created again; None:
    the new topic is read from its beginning. `between_small_s`: the least time from a fetch to the next one, if its answer
    had records, but few bytes; see FetchPause. Raises ConfigError for a wrong setting.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: Mapping[str, str],
        *,
        on_records: Callable[[CompletedFetch], None],
        problems: Problems,
        unreachable: Problem | None = None,
        buffer_limit_bytes: int = 32 << 20,
        adapts: bool = False,
        side: str = "source",
        stop_at_new_topic: str | None = None,
        between_small_s: float = BETWEEN_SMALL_S,
    ) -> None:
        self._cluster = cluster
        self._settings = FetchSettings.of(settings)
        self._problems = problems
        self._side = side
        self._pause = FetchPause(between_small_s)
        self._budget = FetchBudget(buffer_limit_bytes, self._settings.max_bytes, self._settings.partition_max_bytes)
        self._states: dict[TopicPartition, PartitionFetchState] = {}
        self.log_ends = LogEnds(
            cluster,
            self.position,
            read_committed=self._settings.read_committed,
            wait_s=self._settings.max_wait_ms / 1000,
        )
        unreachable = unreachable or cluster_unreachable(f"{side} cluster", settings.get("bootstrap.servers"))
        self._queues = FetchQueues(cluster, self._settings.metadata_max_age_s, self._opened)
        self._distances = (
            FetchDistances(cluster, self._queues, self._budget, self._settings.far_max_bytes) if adapts else None
        )
        self._reachability = FetchReachability(cluster, self._queues, side, unreachable, problems)
        self._upkeep = FetchUpkeep(
            cluster,
            self._settings,
            self._states,
            self._queues,
            self._reachability,
            problems=problems,
            side=side,
            stop_at_new_topic=stop_at_new_topic,
        )
        self._handover = FetchHandover(self._budget, on_records, self._queues.mark_dirty, self._wake_starved)
        # Queues that wait for room.
        self._starved: set[FetchQueue] = set()
        self._paused = False
        self._loops: asyncio.TaskGroup | None = None

    def add(
        self,
        partition: TopicPartition,
        position: int | None,
        topic_id: bytes | None = None,
        leader_epoch: int = NO_EPOCH,
    ) -> None:
        """Starts fetching at `position` (the next offset wanted); None lets auto.offset.reset decide.

        `topic_id`: of the topic that the position belongs to, if known. If another topic has the name now, that one is read
        from its beginning. `leader_epoch`: of the record before the position. If the log does not have that record any more,
        reading begins where the log was truncated.
        """
        self.remove(partition)
        state = PartitionFetchState(
            partition,
            position,
            None if position is None else topic_id,
            leader_epoch,
            self._side,
            log_end=self.log_ends.of(partition),
        )
        self._states[partition] = state
        self._upkeep.begin(state)

    def remove(self, partition: TopicPartition) -> None:
        """Stops fetching: `on_records` is not called for it any more. What it got stays valid until it is released."""
        state = self._states.pop(partition, None)
        if state is not None:
            self._problems.resolve(str(state))
            self._queues.move(state, NOWHERE)
            state.log_end.leave()

    def state(self, partition: TopicPartition) -> FetchStatus:
        """The status of an added partition. KeyError for any other."""
        return self._states[partition].view

    def position(self, partition: TopicPartition) -> int | None:
        """The next offset to fetch; None if it isn't known, or the partition isn't fetched at present."""
        state = self._states.get(partition)
        return None if state is None else state.position

    @property
    def buffered(self) -> tuple[int, int]:
        """Bytes that were passed on and not released, and the most of them."""
        return self._budget.used, self._budget.limit

    def unreachable(self) -> list[Problem]:
        """The problem of the cluster if it doesn't answer, or else of each such broker that partitions are read from."""
        return self._reachability.problems

    def with_problems(self) -> list[TopicPartition]:
        """The added partitions whose state has a problem."""
        return [state.key for state in self._states.values() if state.problem]

    def pause(self) -> None:
        """Sends no further fetch and passes nothing on, for a task that is to finish; `resume` undoes it."""
        self._paused = True

    def resume(self) -> None:
        """Continues after `pause`."""
        self._paused = False
        self._queues.wake()

    async def run(self) -> None:
        """Fetches until cancelled. Raises NotAuthorized when the cluster refuses the credentials, nothing else."""
        try:
            async with asyncio.TaskGroup() as self._loops:
                self._loops.create_task(self._upkeep.run())
                for queue in self._queues.opened.values():
                    self._opened(queue)
        except* NotAuthorized as refused:
            raise refused.exceptions[0] from None
        finally:
            self._loops = None

    # Reading: one loop for each queue.

    def _opened(self, queue: FetchQueue) -> None:
        if self._loops is None:
            return
        self._loops.create_task(self._read_from(queue))
        if self._distances is not None and queue.lane is Lane.BUSY:
            self._loops.create_task(self._distances.keep(queue.node))

    async def _read_from(self, queue: FetchQueue) -> None:
        session = FetchSession()
        while True:
            queue.waker.clear()
            left_out = not self._paused and self._refresh_plan(queue)
            wanted = {} if self._paused else queue.plan.wanted
            room = self._budget.reserve(self._queues.in_use()) if wanted else 0
            if room == 0:
                if wanted or left_out:
                    self._starved.add(queue)
                await queue.waker.wait()
                continue
            soonest = time.monotonic() + self._pause.seconds
            small = False
            try:
                small = await self._fetch(queue, session, room, left_out=left_out)
            except (ConnectionLost, UnsupportedByBroker) as error:
                session.failed()
                if self._distances is not None and queue.lane is Lane.SECOND:
                    # The first connection shows whether the broker answers at all.
                    self._distances.second_failed(queue.node)
                    continue
                reason = error.reason if isinstance(error, ConnectionLost) else str(error)
                self._upkeep.broker_failed(queue.node, reason, queue.lane)
                await asyncio.sleep(self._settings.retry_backoff_s)
            finally:
                self._budget.unreserve(room)
                self._wake_starved()
            if small:
                self._pause.answered()
                if (early := soonest - time.monotonic()) > 0:
                    await asyncio.sleep(early)

    def _wake_starved(self) -> None:
        for queue in self._starved:
            queue.waker.set()
        self._starved.clear()

    def _refresh_plan(self, queue: FetchQueue) -> bool:
        """Updates the plan. True if some partitions are left out because they hold too many bytes."""
        node, lane = queue.node, queue.lane
        now, at_node = time.monotonic(), self._queues.at(node)
        budget = self._budget

        def judge(key: TopicPartition) -> Judged:
            found = decide(key)
            if found.wanted is None:
                state = self._states.get(key)
                # The session drops it, so answers say nothing about it until the broker has named it again.
                if state is not None and state.log_end.queue is queue:
                    state.log_end.leave()
            return found

        def decide(key: TopicPartition) -> Judged:
            state = at_node.get(key)
            if state is None or state.lane is not lane:
                return NOTHING
            if state.preferred != NOWHERE and now >= state.preferred_until:
                self._queues.back_to_leader(state)
                if state.node != node or state.lane is not lane:
                    return NOTHING
            leader, due = self._cluster.leader(*key), state.is_due()
            recheck = state.preferred != NOWHERE or not due
            if leader is not None and state.is_unchecked(leader.epoch):
                self._upkeep.doubt(state)
                return Judged(None, recheck)
            if state.position is None or leader is None or not due:
                return Judged(None, recheck)
            cap, size = budget.partition_cap(state.released), budget.partition_bytes(state.released)
            if state.unreleased > 0 and (held := state.unreleased + min(size, state.max_bytes)) > cap:
                return Judged(None, recheck, budget.most_loaded(held, state.released))
            return Judged(state.wanted(leader.epoch, size), recheck)

        return queue.plan.refresh(judge, budget.loaded_partitions)

    async def _fetch(self, queue: FetchQueue, session: FetchSession, room: int, *, left_out: bool) -> bool:
        """True if there were records, but few bytes of them."""
        settings, node = self._settings, queue.node
        part = session.request(queue.plan.wanted, queue.plan.changed)
        queue.plan.asked()
        beside_quiet = queue.lane is not Lane.QUIET and (node, Lane.QUIET) in self._queues.opened
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
        sent_at = time.monotonic()
        answer = await self._cluster.send(node, request, purpose=_PURPOSES[queue.lane])
        if node in self._reachability.failing:
            self._reachability.broker_answers(queue)
        if answer.error == ErrorCode.NONE:
            session.answered(answer.session_id)
            records = self._take(queue, session, answer)
            if self._distances is not None:
                self._distances.answered(node, time.monotonic() - sent_at, answer.size)
            return records and answer.size < _SMALL_BYTES
        session.failed(answer.error)
        if answer.error not in LOST:
            name, error = f"{self._side} broker {node}", error_name(answer.error)
            self._problems.log(f"The {name} refused a fetch: {error}")
            await asyncio.sleep(settings.retry_backoff_max_s)
        return False

    def _take(self, queue: FetchQueue, session: FetchSession, answer: FetchResponse) -> bool:
        """True if records were passed on."""
        node, lane = queue.node, queue.lane
        now = time.monotonic()
        fresh: list[tuple[PartitionFetchState, FetchedPartition]] = []
        for part in answer.partitions:
            key = TopicPartition(part.topic, part.partition)
            state = self._states.get(key)
            asked = session.asked(key)
            # If the partition was removed, moved to another broker or got another position meanwhile, drop the answer.
            if self._paused or state is None or asked is None or asked.offset != state.position:
                continue
            if state.node != node or state.lane is not lane:
                continue
            if asked.topic_id != (state.topic_id or NO_TOPIC_ID) or asked.last_epoch != state.last_epoch:
                continue
            if part.error != ErrorCode.NONE:
                state.log_end.leave()
                self._upkeep.fetch_failed(state, part.error)
                continue
            if part.diverging is not None:
                self._upkeep.diverges(state)
                continue
            # This leader's log has all that was read, or the epoch of that isn't known.
            state.checked = asked.leader_epoch
            state.high_watermark = max(part.high_watermark, -1)
            state.log_start = part.log_start if part.log_start >= 0 else state.log_start
            stable = part.last_stable_offset
            end = stable if self._settings.read_committed and stable >= 0 else state.high_watermark
            if end >= 0:
                state.log_end.told(end, state.position, now)
                state.log_end.queue = queue
            self._upkeep.answered(state)
            if part.preferred_replica >= 0 and part.preferred_replica != node:
                self._queues.prefer(state, part.preferred_replica)
            if len(part.records) > 0:
                fresh.append((state, part))
                if lane is Lane.QUIET:
                    self._queues.has_records(state, now)
                state.records_at = now
        # What is dropped in a pause isn't told again as long as it does not change.
        if answer.throttle_ms == 0 and not self._paused:
            queue.answered_at = now
        if fresh:
            self._handover.give(fresh, answer.size)
        return bool(fresh)
