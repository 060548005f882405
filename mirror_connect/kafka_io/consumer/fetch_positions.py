"""Finds positions to fetch from: for new partitions, lost offsets, and logs that were truncated.

After an unclean leader election a log is shorter, and grows again with other records at the same offsets. So the leader is
asked whether its log still has what was read, by the leader epoch of the last record (KIP-320). That happens before the
first fetch, under each new leader, and when a fetch reports a divergence or an offset out of range (docs/decisions/0019).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Final, Protocol, TypeVar

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problem, ProblemCode, Problems
from mirror_connect.connectors.records.source_offsets import NO_EPOCH
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.connection import ConnectionLost, UnsupportedByBroker
from mirror_connect.kafka_io.consumer.fetch_queues import FetchQueues
from mirror_connect.kafka_io.consumer.fetch_settings import FetchSettings
from mirror_connect.kafka_io.consumer.fetch_state import NOWHERE, PartitionFetchState
from mirror_connect.kafka_io.protocol.codec import Request
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode
from mirror_connect.kafka_io.protocol.log_offsets import EARLIEST, LATEST, EpochEnd, ListOffsets, OffsetForLeaderEpoch

T = TypeVar("T")
RESET: Final = "source.consumer.auto.offset.reset"


class Upkeep(Protocol):
    """What FetchPositions needs of FetchUpkeep. `refreshed`: how often the metadata of a topic was read; none if never."""

    refreshed: dict[str, int]

    def note_error(self, state: PartitionFetchState, code: int) -> None:
        """A broker has answered with an error for this partition."""

    def broker_failed(self, node: int, reason: str) -> None:
        """A broker doesn't answer."""

    def fail(self, state: PartitionFetchState, problem: Problem, many: str) -> None:
        """The partition is not read any further."""

    def want_metadata(self) -> None:
        """Leaders or topics may have changed: metadata is needed."""

    def wake(self) -> None:
        """There is something to request."""


class FetchPositions:
    """Checks and looks up positions. `upkeep` acts on the answers; the other parameters are those of FetchUpkeep."""

    def __init__(
        self,
        cluster: Cluster,
        settings: FetchSettings,
        added: Mapping[TopicPartition, PartitionFetchState],
        queues: FetchQueues,
        upkeep: Upkeep,
        *,
        problems: Problems,
        side: str,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._added = added
        self._queues = queues
        self._upkeep = upkeep
        self._problems = problems
        self._side = side
        # Partitions whose position must be checked before the next fetch.
        self._doubted: dict[PartitionFetchState, None] = {}

    @property
    def is_due(self) -> bool:
        """Whether a doubted position may be checked now."""
        return any(state.node != NOWHERE and state.is_due() for state in self._doubted)

    def doubt(self, state: PartitionFetchState) -> None:
        """Its leader's log may differ from what was read; `check` finds out whether a request is needed."""
        self._doubted[state] = None

    def out_of_range(self, state: PartitionFetchState) -> None:
        """Its leader has nothing at the position, because of retention or because the log was truncated."""
        if state.last_epoch == NO_EPOCH:
            self.reset(state)
        else:
            state.out_of_range, state.checked = True, None
            self.doubt(state)

    async def check(self) -> None:
        """Asks the leaders of the doubted partitions that may be tried now."""
        by_node: dict[int, dict[TopicPartition, tuple[PartitionFetchState, int, int | None]]] = {}
        doubted, self._doubted = self._doubted, {}
        for state in doubted:
            leader = self._cluster.leader(*state.key)
            if leader is None or self._added.get(state.key) is not state or not state.is_unchecked(leader.epoch):
                continue
            # It stays doubted until the leader confirms it.
            self._doubted[state] = None
            if state.is_due():
                by_node.setdefault(leader.node_id, {})[state.key] = state, leader.epoch, state.position
        await asyncio.gather(*(self._ask_about(node, asked) for node, asked in by_node.items()))

    async def _ask_about(
        self, node: int, asked: Mapping[TopicPartition, tuple[PartitionFetchState, int, int | None]]
    ) -> None:
        request = OffsetForLeaderEpoch({key: (epoch, state.last_epoch) for key, (state, epoch, _) in asked.items()})
        ended = await self._ask(node, request, [state for state, _, _ in asked.values()])
        for key, found in (ended or {}).items():
            state, leader_epoch, position = asked[key]
            # Records that came meanwhile are checked together with those before.
            if self._added.get(key) is not state or state.position != position or state.failed:
                continue
            if found.error != ErrorCode.NONE:
                self._upkeep.note_error(state, found.error)
                self._upkeep.want_metadata()
            else:
                self._checked(state, leader_epoch, found)

    def _checked(self, state: PartitionFetchState, leader_epoch: int, found: EpochEnd) -> None:
        knows = found.leader_epoch >= 0 and found.end_offset >= 0
        at = state.diverges_at(found.leader_epoch, found.end_offset) if knows else None
        if knows and at is None:
            state.checked, state.suspected = leader_epoch, None
            if state.out_of_range:
                self.reset(state)
        elif state.suspected in (None, refreshed := self._upkeep.refreshed.get(state.key.topic, 0)):
            # The request had the topic's name, and another topic may have that name now. The metadata shows it.
            state.suspected = refreshed
            self._upkeep.want_metadata()
            return
        elif at is None:
            epoch = state.last_epoch
            state.does_without_epochs()
            unknown = Problem(
                str(state),
                ProblemCode.PARTITION_EPOCHS_UNKNOWN,
                f"{state}: its leader knows nothing of leader epoch {epoch}, in which the record before offset "
                f"{state.position} was written; only offsets show whether its log was truncated",
            )
            many = f"{self._side} partitions whose leaders know nothing of the epochs in their logs"
            self._problems.report(unknown, many=many)
        elif self._settings.reset.timestamp is None:
            self._upkeep.fail(
                state,
                Problem(
                    str(state),
                    ProblemCode.PARTITION_TRUNCATED,
                    f"{state} was truncated at offset {at} (unclean leader election?): offsets {at} to "
                    f"{(state.position or 0) - 1}, which had been read, are gone from the {self._side}, and {RESET} is none",
                    advice="earliest continues there",
                ),
                f"{self._side} partitions were truncated, and {RESET} is none",
            )
        else:
            before = state.position or 0
            # A partition that is added again at an older position finds the same truncation, which is reported once. One in
            # another topic of the same name is another event.
            self._problems.event(
                state.rewind(at, found.leader_epoch, found.end_offset),
                f"{self._side} partitions whose logs were truncated",
                offsets=before - at,
                fate=f"are gone from the {self._side}",
                found=(at, leader_epoch, state.topic_id),
            )
        self._queues.place(state)
        self._upkeep.wake()

    async def _ask(self, node: int, request: Request[T], states: Iterable[PartitionFetchState]) -> T | None:
        try:
            return await self._cluster.send(node, request)
        except (ConnectionLost, UnsupportedByBroker) as error:
            for state in states:
                state.back_off(self._settings.retry_backoff_s, self._settings.retry_backoff_max_s)
            self._upkeep.broker_failed(node, error.reason if isinstance(error, ConnectionLost) else str(error))
            return None

    # Positions that aren't known, or aren't in the log.

    def reset(self, state: PartitionFetchState) -> None:
        """The log has nothing at its position: the next position is looked up."""
        # Nothing of a new or truncated log has been read yet, so it is read from its beginning.
        state.reset(EARLIEST if state.made_again or state.rewound else None)

    async def look_up(self) -> None:
        """Looks up the positions that aren't known, of the partitions that may be tried now."""
        by_node: dict[int, list[PartitionFetchState]] = {}
        for state in self._added.values():
            leader = self._cluster.leader(*state.key)
            if state.position is None and leader is not None and state.is_due():
                if state.timestamp is None and self._settings.reset.timestamp is None:
                    self._fail_without_position(state)
                else:
                    by_node.setdefault(leader.node_id, []).append(state)
        await asyncio.gather(*(self._look_up(node, states) for node, states in by_node.items()))

    def _fail_without_position(self, state: PartitionFetchState) -> None:
        where = "has no position yet" if state.lost is None else f"has no offset {state.lost} any more, or not yet"
        advice = (
            "begin with earliest or latest, and set none afterwards"
            if state.lost is None
            else "earliest continues after the offsets that are gone"
        )
        reset = f"{RESET} is none"
        text = f"{state} {where}, and {reset}"
        problem = Problem(str(state), ProblemCode.PARTITION_WITHOUT_POSITION, text, advice=advice)
        self._upkeep.fail(state, problem, f"{self._side} partitions have no position to be read from, and {reset}")

    async def _look_up(self, node: int, states: Iterable[PartitionFetchState]) -> None:
        asked: dict[TopicPartition, tuple[PartitionFetchState, int]] = {}
        for state in states:
            leader = self._cluster.leader(*state.key)
            if leader is not None:
                asked[state.key] = (state, leader.epoch)
        wanted = {key: (self._reset_timestamp(state), epoch) for key, (state, epoch) in asked.items()}
        request = ListOffsets(wanted, read_committed=self._settings.read_committed)
        for answer in await self._ask(node, request, [state for state, _ in asked.values()]) or ():
            state, leader_epoch = asked[TopicPartition(answer.topic, answer.partition)]
            if self._added.get(state.key) is not state or state.position is not None:
                continue
            if answer.error != ErrorCode.NONE:
                self._upkeep.note_error(state, answer.error)
                self._upkeep.want_metadata()
            elif answer.offset < 0:
                state.timestamp = LATEST  # no record is as late as the timestamp
                self._upkeep.wake()
            else:
                lost = state.lost
                if event := state.moved(answer.offset):
                    self._problems.event(
                        event,
                        f"{self._side} partitions whose position was not in the log any more",
                        offsets=max(0, answer.offset - (lost or 0)),
                        found=(lost, answer.offset, leader_epoch),
                    )
                self._queues.place(state)

    def _reset_timestamp(self, state: PartitionFetchState) -> int:
        reset = self._settings.reset
        if state.timestamp is not None:
            return state.timestamp
        if reset.ago_ms is not None:
            return int(time.time() * 1000) - reset.ago_ms
        return EARLIEST if reset.timestamp is None else reset.timestamp
