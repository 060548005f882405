"""`verify --follow`: behind a running link, what has been copied since the last round is looked at, again and again.

A round: positions from the worker, then looks at the partitions that have moved, the longest neglected first, for as
long as the CPU share allows. Trouble of a partition or cluster is told once and tried again; no restart of a broker ends it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.kafka_io.consumer.fetched import SourcePartition
from mirror_connect.verify.baseline import Baselines, TargetEnd
from mirror_connect.verify.cpu_share import CpuShare
from mirror_connect.verify.follow_report import FollowReport, FollowWatcher
from mirror_connect.verify.followed import FollowedPartition
from mirror_connect.verify.link import Link, Positions
from mirror_connect.verify.peek import ClusterPeek, ReadingPrice
from mirror_connect.verify.place import EARLIEST, LATEST, CannotCompareError, Key
from mirror_connect.verify.rate import Rate
from mirror_connect.verify.reading import ClusterReader
from mirror_connect.verify.topic_ids import TopicIds

_PATIENCE_S: Final = 5.0
# A partition that can't be looked at is left alone for so long.
_REST_S: Final = 10.0
_TOPICS_EVERY_S: Final = 30.0
# What lies on the target may be hidden for a moment when its leader changes.
_DOUBT_S: Final = 2.0
# Bytes; before it is known what looking costs here.
_FIRST_LOOK: Final = 64 << 10
_ROUND_S: Final = (0.5, 10.0)
# Asking for positions may take so much of the share.
_ASKING: Final = 0.2
_POSITIONS: Final = "positions"


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """`cpu_share`: of what copying costs, None to read everything. `rate`: bytes a second from each cluster at most.

    `from_ms`: what was copied before, from this time on, is verified too.
    """

    cpu_share: float | None = 0.05
    rate: float | None = None
    from_ms: int | None = None
    most_listed: int = 20
    seed: int = 0
    strict: bool = False


class Follower:
    """`positions` tells how far the link has come, None if nobody can. `own`: this process' CPU seconds. `doubt_s`: after
    so long a difference is looked at again before it is told. Errors of `run` are those before its first round.
    """

    def __init__(
        self,
        link: Link,
        positions: Callable[[], Awaitable[Positions | None]],
        options: FollowOptions,
        watcher: FollowWatcher,
        *,
        own: Callable[[], float] = time.process_time,
        doubt_s: float = _DOUBT_S,
    ) -> None:
        self._link = link
        self._doubt_s = doubt_s
        self._positions = positions
        self._options = options
        self._watcher = watcher
        self._rng = random.Random(options.seed)
        self._price = ReadingPrice() if options.cpu_share is None else ReadingPrice(look=_FIRST_LOOK)
        self._share = CpuShare(options.cpu_share, self._price, own=own)
        self.report = FollowReport(
            link.name, datetime.now(UTC), options.seed, whole=options.cpu_share is None, strict=options.strict
        )
        self._source = self._reader("source", committed=link.committed)
        # An exactly-once link writes transactions: what counts is what readers of committed records see.
        self._target = self._reader("target", committed=True)
        self._began = time.monotonic()
        self._ids = TopicIds(self._source, self._target)
        self._baselines = Baselines(link, self._source, self._target)
        # Where targets were seen to end behind partitions at rest, and when that is looked at again.
        self._ends: dict[Key, TargetEnd] = {}
        self._ends_at = 0.0
        self._topics_at = 0.0
        # Positions of a topic that is no more.
        self._stale: dict[Key, int] = {}
        self._resting: dict[Key, float] = {}
        self._looked: dict[Key, float] = {}
        # Bytes, as far as the last round knows.
        self._copied = 0.0
        self._look_cost = 0.0
        self._asking_cost = 0.0
        # When it was paused last, and the CPU seconds of copying then.
        self._paused_at = self._began, 0.0
        self._first_round = True

    async def run(self) -> None:
        """Follows until cancelled. ClusterUnreachable, NotAuthorized, ConfigError, CannotCompareError at its beginning."""
        try:
            await self._source.open(())
            await self._target.open(())
            while True:
                await self._round()
                self._watcher.moved(self._summed())
                await asyncio.sleep(self._pause())
        finally:
            self._summed()
            await self._source.close()
            await self._target.close()

    def _reader(self, place: str, *, committed: bool) -> ClusterReader:
        side = self._link.source if place == "source" else self._link.target
        return ClusterReader(
            "source" if place == "source" else "target",
            side.consumer,
            committed=committed,
            rate=Rate(self._options.rate),
            patience_s=_PATIENCE_S,
        )

    # --- rounds -----------------------------------------------------------------------------------------------------

    async def _round(self) -> None:
        began = self._share.used()
        try:
            wanted = await self._hear()
            if self._first_round:
                await self._baselines.look_at_untouched(wanted)
        except (CannotCompareError, ClusterUnreachable, NotAuthorized) as error:
            if self._first_round:
                raise
            self._trouble(_POSITIONS, str(error))
            return
        await self._place_what_rests(wanted)
        self._first_round = False
        self._well(_POSITIONS)
        self._copied = self._copied_bytes()
        self._asking_cost = _average(self._asking_cost, self._share.used() - began)
        now = time.monotonic()
        moved = [
            key
            for key, (_, each) in self.report.partitions.items()
            if each.pending and self._resting.get(key, 0.0) <= now
        ]
        moved.sort(key=lambda key: self._looked.get(key, 0.0))
        for number, key in enumerate(moved):
            left = self._left()
            if left <= 0:
                break
            looks = left / self._look_cost if self._look_cost else 1.0
            await self._look(key, looks / (len(moved) - number))

    async def _look(self, key: Key, looks: float) -> None:
        _, partition = self.report.partitions[key]
        self._looked[key] = time.monotonic()
        whole = self._options.cpu_share is None
        partition.plan(float("inf") if whole else looks)
        name = f"{key[0]}-{key[1]}"
        try:
            while True:
                began = self._share.used()
                if not await partition.step():
                    break
                cost = self._share.used() - began
                self._look_cost = _average(self._look_cost, cost)
                if not whole:
                    self._price.looked(cost)
                self._watcher.moved(self.report)
                if self._left() <= 0:
                    break
        except (CannotCompareError, ClusterUnreachable, NotAuthorized) as error:
            self._resting[key] = time.monotonic() + _REST_S
            self._trouble(name, f"{name}: not verified at present: {error}")
            # It may be another topic by now.
            self._topics_at = 0.0
        else:
            self._well(name)

    async def _hear(self) -> Positions:
        """How far the link has come, in what it is to copy."""
        positions = await self._positions()
        if positions is None:
            raise CannotCompareError("the worker doesn't tell the link's positions: it has no such connector any more")
        wanted = {key: offset for key, offset in positions.items() if self._link.selection.should_replicate(key[0])}
        new = [key for key in wanted if key not in self.report.partitions and self._stale.get(key) != wanted[key]]
        if new or time.monotonic() - self._topics_at > _TOPICS_EVERY_S:
            await self._look_at_topics(key[0] for key in new)
        await self._add(new, wanted)
        for key, offset in wanted.items():
            if self._stale.get(key) == offset:
                continue
            self._stale.pop(key, None)
            if key in self.report.partitions:
                self.report.partitions[key][1].until = offset + 1
        return wanted

    async def _place_what_rests(self, wanted: Positions) -> None:
        """Where nothing is in flight, what comes to the target from now on is known to belong to what comes next."""
        if self._ends_at > time.monotonic():
            return
        following = {
            key: each.until
            for key, (_, each) in self.report.partitions.items()
            # Of a topic made again, 0, no position needs to be told.
            if each.unplaced and each.until in (0, wanted.get(key, -1) + 1)
        }
        if following:
            try:
                ends = await self._baselines.target_ends(following)
            except (CannotCompareError, ClusterUnreachable, NotAuthorized):
                ends = {}  # whoever looks at them will say so
            for key, end in ends.items():
                # Of a topic that had the name before, something may be in flight still: then it is looked at twice.
                at_rest = end.at_rest and (self._first_round or self._ends.get(key) == end)
                self.report.partitions[key][1].target_ended(end.offset, at_rest=at_rest)
            self._ends = ends
        self._ends_at = time.monotonic() + _REST_S

    async def _add(self, new: list[Key], positions: Positions) -> None:
        if not new:
            return
        # What is heard of only later was copied from its beginning on meanwhile.
        begin = {key: positions[key] + 1 if self._first_round else 0 for key in new}
        remotes = {key: (self._link.remote_topic(key[0]), key[1]) for key in new}
        for key in new:
            if not (self._source.has(key) and self._target.has(remotes[key])):
                self._stale[key] = positions[key]
        new = [key for key in new if key not in self._stale]
        remotes = {key: remotes[key] for key in new}
        first = await self._source.offsets(dict.fromkeys(new, EARLIEST))
        if self._first_round and self._options.from_ms is not None:
            found = await self._source.offsets(dict.fromkeys(new, self._options.from_ms))
            begin = {key: begin[key] if (at := found[key]) is None else min(at, begin[key]) for key in new}
        target_first = await self._target.offsets(dict.fromkeys(remotes.values(), EARLIEST))
        target_last = await self._target.offsets(dict.fromkeys(remotes.values(), LATEST))
        for key in new:
            remote = remotes[key]
            untouched = None if self._first_round else self._baselines.untouched(key)
            partition = FollowedPartition(
                ClusterPeek(self._source, SourcePartition(*key), self._price),
                ClusterPeek(self._target, SourcePartition(*remote), self._price),
                untouched.source if untouched and untouched.certain else max(begin[key], first[key] or 0),
                rng=self._rng,
                doubt=partial(self._still_the_same, key),
                on_fault=partial(self._watcher.fault, key),
                most_listed=self._options.most_listed,
            )
            behind = (target_last[remote] or 0) - positions[key] - 1
            partition.guesses = ((target_first[remote] or 0) - (first[key] or 0), behind)
            if untouched is not None:
                partition.target_ended(untouched.target, at_rest=untouched.certain)
            self.report.partitions[key] = remote[0], partition

    # --- topics -----------------------------------------------------------------------------------------------------

    async def _still_the_same(self, key: Key) -> bool:
        """Waits a moment; whether both topics are those that they were."""
        await asyncio.sleep(self._doubt_s)
        return not await self._look_at_topics([key[0]], only=True)

    async def _look_at_topics(self, new: Iterable[str] = (), *, only: bool = False) -> bool:
        """Asks both clusters for the topics' ids; whether there is another topic under a known name."""
        topics = set(new) if only else {topic for topic, _ in self.report.partitions} | set(new)
        changed = await self._ids.changed({topic: self._link.remote_topic(topic) for topic in topics})
        for topic, remote, at_source in changed:
            self._begin_anew(topic, remote, at_source=at_source)
        if not only:
            self._topics_at = time.monotonic()
        return bool(changed)

    def _begin_anew(self, topic: str, remote: str, *, at_source: bool) -> None:
        name, consequence = (
            (f"source topic {topic}", "verified from the beginning of the new one")
            if at_source
            else (f"target topic {remote}", "what it had is gone with it, and verified is what is copied from now on")
        )
        self._notice(f"{name} was deleted and created again: {consequence}")
        for key, (_, partition) in self.report.partitions.items():
            if key[0] == topic:
                if at_source and not partition.set_back:
                    # Until the link tells a position of the new one.
                    self._stale[key] = partition.until - 1
                if at_source:
                    partition.restart(0)
                else:
                    partition.restart(partition.until, 0)
                self._ends.pop(key, None)
                partition.guesses = (0,)

    # --- the account ------------------------------------------------------------------------------------------------

    def _copied_bytes(self) -> float:
        partitions = [each for _, each in self.report.partitions.values()]
        read = sum(each.tally.read for each in partitions)
        usual = sum(each.tally.size for each in partitions) / read if read else 0.0
        return sum(each.copied * (each.bytes_per_offset or usual) for each in partitions)

    def _left(self) -> float:
        return self._share.left(self._copied)

    def _copying(self) -> float:
        return self._share.copying(self._copied)

    def _pause(self) -> float:
        """Positions are asked for as often as a part of the share pays for, and not before what is owed is paid back."""
        least, most = _ROUND_S
        if self._options.cpu_share is None:
            return least
        now, copying = time.monotonic(), self._copying()
        then, before = self._paused_at
        self._paused_at = now, copying
        rate = max(self._options.cpu_share * (copying - before) / max(now - then, 0.001), self._share.resting)
        owed = max(0.0, -self._left())
        return min(most, max(least, self._asking_cost / (_ASKING * rate), owed / rate))

    def _summed(self) -> FollowReport:
        report = self.report
        report.seconds = time.monotonic() - self._began
        report.own_cpu = self._share.used()
        report.copying_cpu = self._copying()
        report.read_bytes = self._price.read
        return report

    # --- what people hear -------------------------------------------------------------------------------------------

    def _trouble(self, what: str, line: str) -> None:
        if what not in self.report.troubles:
            self._watcher.notice(f"{line}; tried again")
        self.report.troubles[what] = line

    def _well(self, what: str) -> None:
        if self.report.troubles.pop(what, None) is not None:
            self._watcher.notice(
                "the link's positions are told again" if what == _POSITIONS else f"{what}: verified again"
            )

    def _notice(self, line: str) -> None:
        if line not in self.report.notices:
            self.report.notices.append(line)
        self._watcher.notice(line)


def _average(known: float, new: float) -> float:
    return new if not known else 0.8 * known + 0.2 * new
