"""Keeps what a fetch needs up to date: each partition's leader, its topic's id, its position.

It decides what follows from each error. Metadata and positions are requested together, periodically and when they are
needed, but never more often than retry.backoff.ms. fetch_positions.py finds the positions.

A position belongs to a topic, not to a name. Fetches name the topic by its id where the broker supports that (Kafka 3.1).
So no record of a topic that was deleted and created again is taken for one of the former topic. Older brokers are asked by
name. If there a topic is created again between two fetches, and no error shows it, the next metadata does, after
metadata.max.age.ms at worst.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping, Set
from typing import Final

from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problem, ProblemCode, Problems
from mirror_connect.connectors.records.topic_ids import topic_id_text
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.consumer.fetch_positions import FetchPositions
from mirror_connect.kafka_io.consumer.fetch_queues import FetchQueues
from mirror_connect.kafka_io.consumer.fetch_reachability import FetchReachability
from mirror_connect.kafka_io.consumer.fetch_settings import FetchSettings
from mirror_connect.kafka_io.consumer.fetch_state import (
    LEADERSHIP_ERRORS,
    NOWHERE,
    TOPIC_IN_DOUBT,
    Lane,
    PartitionFetchState,
)
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode, error_name

_MADE_AGAIN: Final = "topics that were deleted and created again"


class FetchUpkeep:
    """`added`: the fetcher's partitions. `problems`, `side`, `stop_at_new_topic`: those of the fetcher.

    `run` does what is due; the other methods note what has happened. `refreshed`: how often each topic's metadata was read.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: FetchSettings,
        added: Mapping[TopicPartition, PartitionFetchState],
        queues: FetchQueues,
        reachability: FetchReachability,
        *,
        problems: Problems,
        side: str,
        stop_at_new_topic: str | None,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._added = added
        self._queues = queues
        self._reachability = reachability
        self._problems = problems
        self._side = side
        self._stop_at_new_topic = stop_at_new_topic
        self._wanted = asyncio.Event()
        self._refresh_at = 0.0
        # When metadata of a topic is read again of which a partition could not be placed.
        self._topics_at: dict[str, float] = {}
        self.refreshed: dict[str, int] = {}
        self._positions = FetchPositions(cluster, settings, added, queues, self, problems=problems, side=side)

    async def run(self) -> None:
        """Runs until cancelled. Raises NotAuthorized when the cluster refuses the credentials, nothing else."""
        while True:
            self._wanted.clear()
            if self._added and (topics := self._topics_due()):
                await self._refresh(topics)
            await self._positions.check()
            await self._positions.look_up()
            if time.monotonic() >= self._queues.sort_at:
                self._queues.sort()
            # However many errors there are, metadata and positions aren't requested more often than retry.backoff.ms.
            await asyncio.sleep(self._settings.retry_backoff_s)
            self._queues.wake()
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
            0.0 if state.is_due() else state.retry_at - now
            for state in self._added.values()
            if not state.failed and (state.retry_at > now or (state.position is None and state.node != NOWHERE))
        ]
        if self._positions.is_due:
            return 0.0
        topics = min(self._topics_at.values(), default=math.inf)
        return max(0.0, min([min(self._refresh_at, topics, self._queues.sort_at) - now, *due]))

    def begin(self, state: PartitionFetchState) -> None:
        """Called for a partition that has just been added."""
        known = self._cluster.topic_id(state.key.topic)
        if known is not None and state.topic_id not in (None, known):
            # Another task may have continued in a topic that is newer than this metadata: only newer metadata shows that.
            self.want_metadata()
            return
        if self._cluster.leader(*state.key) is None:
            self.want_metadata()
        self._check_incarnation(state)
        self._queues.place(state)
        self.doubt(state)

    # What an error leads to.

    def fetch_failed(self, state: PartitionFetchState, code: int) -> None:
        """A broker has answered a fetch with an error for this partition."""
        leader = self._cluster.leader(*state.key)
        if leader is not None and state.node != leader.node_id:
            # A follower may lag behind or have been restarted, so its error proves nothing. The leader is asked.
            self._queues.back_to_leader(state)
            if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                return
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._positions.out_of_range(state)
            self._queues.mark_dirty(state)
            self.want_metadata()
        else:
            self.note_error(state, code)
            self.want_metadata()
            if code in TOPIC_IN_DOUBT:
                self._queues.move(state, NOWHERE)

    def diverges(self, state: PartitionFetchState) -> None:
        """A broker has answered a fetch: its log lacks what was read. A follower may just lag behind; the leader knows."""
        state.checked = None
        self._queues.back_to_leader(state)
        self._queues.mark_dirty(state)
        self.doubt(state)

    def doubt(self, state: PartitionFetchState) -> None:
        """Its leader's log may differ from what was read."""
        self._positions.doubt(state)
        self._wanted.set()

    def answered(self, state: PartitionFetchState) -> None:
        """A broker has answered a fetch without an error for this partition."""
        if state.succeeded():
            line = f"{state} is read again from offset {state.position}"
            self._problems.resolve(str(state), line=line, many=f"{self._side} partitions are read again")

    def broker_failed(self, node: int, reason: str, lane: Lane = Lane.BUSY) -> None:
        """A broker doesn't answer, or accepts no connection for the partitions in this lane."""
        for state in list(self._queues.at(node).values()):
            if state.preferred == node:
                self._queues.back_to_leader(state)
        self.want_metadata()
        self._reachability.broker_fails(node, reason, lane)

    def note_error(self, state: PartitionFetchState, code: int) -> None:
        """A broker has answered with an error for this partition: it is tried again later."""
        state.back_off(self._settings.retry_backoff_s)
        self._queues.mark_dirty(state)
        if code in LEADERSHIP_ERRORS:
            state.preferred = NOWHERE
        if code not in LEADERSHIP_ERRORS or not state.still_quiet:
            many = f"{self._side} partitions can't be read ({error_name(code)})"
            self._problems.report(state.explain(code), many=many)

    def fail(self, state: PartitionFetchState, problem: Problem, many: str) -> None:
        """Stops trying the partition because of this problem; `many`: see Problems.report."""
        state.problem, state.failed = problem, True
        self._queues.move(state, NOWHERE)
        self._problems.report(problem, many=many)

    def wake(self) -> None:
        """Makes `run` continue now: there is something to request."""
        self._wanted.set()

    def want_metadata(self) -> None:
        """Leaders or topics may have changed: metadata is read soon."""
        self._refresh_at = 0.0
        self._wanted.set()

    # Leaders and topic ids.

    def _topics_due(self) -> set[str]:
        """All topics, or those alone of which a partition waits for its leader."""
        now = time.monotonic()
        if now >= self._refresh_at:
            self._refresh_at = now + self._settings.metadata_max_age_s
            self._topics_at.clear()
            return {key.topic for key in self._added}
        due = {topic for topic, at in self._topics_at.items() if at <= now}
        for topic in due:
            del self._topics_at[topic]
        return due

    async def _refresh(self, topics: Set[str]) -> None:
        try:
            await self._cluster.refresh(topics)
        except ClusterUnreachable as error:
            self._refresh_at = time.monotonic() + self._settings.retry_backoff_max_s
            self._reachability.cluster_fails(str(error))
            return
        self._reachability.cluster_answers()
        for topic in topics:
            self.refreshed[topic] = self.refreshed.get(topic, 0) + 1
        for state in [each for each in self._added.values() if each.key.topic in topics]:
            self._check_incarnation(state)
            code = self._metadata_error(state)
            if code == ErrorCode.NONE:
                self._queues.place(state)
                self._positions.doubt(state)
            elif not state.failed:
                self._queues.move(state, NOWHERE)
                if state.is_due():
                    self.note_error(state, code)
                topic = state.key.topic
                self._topics_at[topic] = min(self._topics_at.get(topic, math.inf), state.retry_at)

    def _metadata_error(self, state: PartitionFetchState) -> int:
        code = self._cluster.topic_error(state.key.topic)
        if code == ErrorCode.NONE and self._cluster.leader(*state.key) is None:
            exists = state.key.partition < (self._cluster.partition_count(state.key.topic) or 0)
            return ErrorCode.LEADER_NOT_AVAILABLE if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return code

    def _check_incarnation(self, state: PartitionFetchState) -> None:
        """Notices a topic that was deleted and created again by its new id. The position of the former one is void there."""
        topic_id = self._cluster.topic_id(state.key.topic)
        if topic_id is None:
            return
        if state.topic_id is None:
            state.topic_id = topic_id
        elif state.topic_id != topic_id and not state.failed:
            which = f"{self._side} topic {state.key.topic} was deleted and created again"
            ids = f"its id was {topic_id_text(state.topic_id)} and is {topic_id_text(topic_id)}"
            number = state.key.partition
            if self._stop_at_new_topic is None:
                text = f"{which} ({ids}): partition {number} is read from the beginning of the new one"
                many = f"partitions of {self._side} {_MADE_AGAIN} are read from the beginning of the new ones"
                event = Problem(str(state), ProblemCode.TOPIC_RECREATED, text)
                self._problems.event(event, many, found=topic_id)
                state.begin_anew(topic_id)
                self._wanted.set()
            else:
                problem = Problem(
                    str(state),
                    ProblemCode.TOPIC_RECREATED,
                    f"{which} ({ids}): partition {number} is stalled",
                    advice=self._stop_at_new_topic,
                )
                self.fail(state, problem, f"partitions of {self._side} {_MADE_AGAIN} are stalled")
