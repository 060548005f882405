"""Positions that aren't known, or may be of a log that isn't there any more: where to read on.

An offset is not one of every log that a partition had: after an unclean leader election it is shorter, and grows again with
other records. So the leader is asked, by the epoch of the last record that was read, whether its log is still that one
(KIP-320): before the first fetch, under each new leader, and where a fetch says that it isn't, or finds nothing at the
position (docs/decisions/0019).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Final, Protocol, TypeVar

from mirror_connect.connectors.records.positions import NO_EPOCH
from mirror_connect.connectors.told_once import ToldTogether
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.connection import ConnectionLost, UnsupportedByBroker
from mirror_connect.kafka_io.consumer.fetch_lanes import FetchLanes
from mirror_connect.kafka_io.consumer.fetch_settings import FetchSettings
from mirror_connect.kafka_io.consumer.fetch_state import NOWHERE, PartitionWork
from mirror_connect.kafka_io.consumer.fetched import SourcePartition
from mirror_connect.kafka_io.protocol import wire_codec as codes
from mirror_connect.kafka_io.protocol.wire import EARLIEST, LATEST, ListOffsets
from mirror_connect.kafka_io.protocol.wire_codec import Request
from mirror_connect.kafka_io.protocol.wire_control import EpochEnd, OffsetForLeaderEpoch

T = TypeVar("T")
RESET: Final = "source.consumer.auto.offset.reset"


class Upkeep(Protocol):
    """What FetchUpkeep does with what the answers lead to. `refreshed`: how often metadata have been read."""

    refreshed: int

    def note_error(self, work: PartitionWork, code: int) -> None:
        """A broker has refused to answer for this partition."""

    def broker_failed(self, node: int, reason: str) -> None:
        """A broker doesn't answer."""

    def fail(self, work: PartitionWork, line: str, kind: str) -> None:
        """The partition goes no further."""

    def want_metadata(self) -> None:
        """Leaders or topics may be others than is known."""

    def look_again(self) -> None:
        """Something is to be asked for."""


class FetchPositions:
    """`together`, `happened`: who is told of troubles, and of what stays so. The rest as FetchUpkeep has it."""

    def __init__(
        self,
        cluster: Cluster,
        settings: FetchSettings,
        added: Mapping[tuple[str, int], PartitionWork],
        lanes: FetchLanes,
        upkeep: Upkeep,
        *,
        together: ToldTogether,
        happened: ToldTogether,
        side: str,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._added = added
        self._lanes = lanes
        self._upkeep = upkeep
        self._together = together
        self._happened_together = happened
        self._side = side
        # Those whose position is to be checked before anything is fetched there.
        self._doubted: dict[PartitionWork, None] = {}

    @property
    def is_due(self) -> bool:
        """Whether one of the doubted may be asked about now."""
        return any(work.node != NOWHERE and work.is_due() for work in self._doubted)

    def doubt(self, work: PartitionWork) -> None:
        """Its leader's log may be another one than was read; `check` finds out whether there is anything to ask."""
        self._doubted[work] = None

    def out_of_range(self, work: PartitionWork) -> None:
        """Its leader has nothing at the position: by retention, or was the log truncated?"""
        if work.last_epoch == NO_EPOCH:
            self.reset(work)
        else:
            work.out_of_range, work.checked = True, None
            self.doubt(work)

    async def check(self) -> None:
        """Asks the leaders of the doubted, those that may be tried now."""
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
        await asyncio.gather(*(self._ask_about(node, asked) for node, asked in by_node.items()))

    async def _ask_about(
        self, node: int, asked: Mapping[tuple[str, int], tuple[PartitionWork, int, int | None]]
    ) -> None:
        request = OffsetForLeaderEpoch({key: (epoch, work.last_epoch) for key, (work, epoch, _) in asked.items()})
        ended = await self._ask(node, request, [work for work, _, _ in asked.values()])
        for key, found in (ended or {}).items():
            work, leader_epoch, position = asked[key]
            # What came meanwhile is checked with what came before.
            if self._added.get(key) is not work or work.position != position or work.failed:
                continue
            if found.error != codes.NONE:
                self._upkeep.note_error(work, found.error)
                self._upkeep.want_metadata()
            else:
                self._checked(work, leader_epoch, found)

    def _checked(self, work: PartitionWork, leader_epoch: int, found: EpochEnd) -> None:
        knows = found.leader_epoch >= 0 and found.end_offset >= 0
        at = work.diverges_at(found.leader_epoch, found.end_offset) if knows else None
        if knows and at is None:
            work.checked, work.suspected = leader_epoch, None
            if work.out_of_range:
                self.reset(work)
        elif work.suspected in (None, self._upkeep.refreshed):
            # It was asked by name, and the name may be another topic's now, which the metadata tell.
            work.suspected = self._upkeep.refreshed
            self._upkeep.want_metadata()
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
            self._upkeep.fail(
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
            # A partition that is added anew, at a position of before that, finds the same once more. In the log of another
            # topic of the name it is another one.
            if self._happened_together.is_news(work.key, kind, (at, leader_epoch, work.topic_id)):
                self._happened_together.tell(line, kind, before - at, f"are gone from the {self._side}")
        self._lanes.place(work)
        self._upkeep.look_again()

    async def _ask(self, node: int, request: Request[T], works: Iterable[PartitionWork]) -> T | None:
        try:
            return await self._cluster.send(node, request)
        except (ConnectionLost, UnsupportedByBroker) as error:
            for work in works:
                work.back_off(self._settings.retry_backoff_s, self._settings.retry_backoff_max_s)
            self._upkeep.broker_failed(node, str(error))
            return None

    # Positions that aren't known, or aren't in the log.

    def reset(self, work: PartitionWork) -> None:
        """The log has nothing at its position: where to go on is looked up next."""
        # Of a log that is another one than was read nothing has been had yet.
        work.reset(EARLIEST if work.made_again or work.rewound else None)

    async def look_up(self) -> None:
        """Asks for the positions that aren't known, of those that may be tried now."""
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
        self._upkeep.fail(work, line, f"{self._side} partitions have no position to be read from, and {reset}")

    async def _look_up(self, node: int, works: Iterable[PartitionWork]) -> None:
        asked: dict[tuple[str, int], tuple[PartitionWork, int]] = {}
        for work in works:
            leader = self._cluster.leader(*work.key)
            if leader is not None:
                asked[work.key] = (work, leader.epoch)
        wanted = {key: (self._reset_timestamp(work), epoch) for key, (work, epoch) in asked.items()}
        request = ListOffsets(wanted, read_committed=self._settings.read_committed)
        for answer in await self._ask(node, request, [work for work, _ in asked.values()]) or ():
            work, leader_epoch = asked[SourcePartition(answer.topic, answer.partition)]
            if self._added.get(work.key) is not work or work.position is not None:
                continue
            if answer.error != codes.NONE:
                self._upkeep.note_error(work, answer.error)
                self._upkeep.want_metadata()
            elif answer.offset < 0:
                work.timestamp = LATEST  # nothing is as late as the time asked for
                self._upkeep.look_again()
            else:
                skipped = 0 if work.lost is None else max(0, answer.offset - work.lost)
                if line := work.moved(answer.offset):
                    kind = f"{self._side} partitions whose position was not in the log any more"
                    if self._happened_together.is_news(work.key, kind, (line, leader_epoch)):
                        self._happened_together.tell(line, kind, skipped)
                self._lanes.place(work)

    def _reset_timestamp(self, work: PartitionWork) -> int:
        reset = self._settings.reset
        if work.timestamp is not None:
            return work.timestamp
        if reset.ago_ms is not None:
            return int(time.time() * 1000) - reset.ago_ms
        return EARLIEST if reset.timestamp is None else reset.timestamp
