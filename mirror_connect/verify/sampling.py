"""Sampling verification (`verify --follow`): rounds behind a running link, each checks what was copied since the last one.

A round asks the worker for source offsets. Then it samples the partitions that have moved, the longest neglected first,
for as long as the CPU share allows. A problem of a partition or cluster is reported once, and the next rounds try again.
So a broker's restart does not end the verification.
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
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.verify.baseline import Baselines, TargetEnd
from mirror_connect.verify.clusters import EARLIEST, LATEST
from mirror_connect.verify.cpu_share import CpuShare
from mirror_connect.verify.errors import CannotCompareError
from mirror_connect.verify.link import Link, Positions
from mirror_connect.verify.peek import ClusterPeek, ReadingPrice
from mirror_connect.verify.rate import Rate
from mirror_connect.verify.reading import ClusterReader
from mirror_connect.verify.sampled_partition import SampledPartition
from mirror_connect.verify.sampling_report import SamplingReport, SamplingWatcher
from mirror_connect.verify.topic_ids import TopicIds

_PATIENCE_S: Final = 5.0
# Seconds until a partition that can't be read is tried again.
_REST_S: Final = 10.0
_TOPICS_EVERY_S: Final = 30.0
# Records on the target may be hidden for a moment when its leader changes.
_DOUBT_S: Final = 2.0
# Bytes of a fetch, until its cost is known.
_FIRST_FETCH: Final = 64 << 10
_ROUND_S: Final = (0.5, 10.0)
# The part of the CPU share that source offsets may take.
_ASKING: Final = 0.2
_SOURCE_OFFSETS: Final = "source offsets"


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """`cpu_share`: of the cost of copying, None to read everything. `rate`: the most bytes per second from each cluster.

    `from_ms`: records with this timestamp or a later one are verified, also those that were copied before the start.
    """

    cpu_share: float | None = 0.05
    rate: float | None = None
    from_ms: int | None = None
    most_listed: int = 20
    seed: int = 0
    strict: bool = False


class SamplingVerifier:
    """`positions` returns the link's source offsets, None if the worker has none. `own`: the CPU seconds of this process.

    `doubt_s`: a difference is reported only if it is still there after this time. `run` raises the errors of its first
    round.
    """

    def __init__(
        self,
        link: Link,
        positions: Callable[[], Awaitable[Positions | None]],
        options: SamplingOptions,
        watcher: SamplingWatcher,
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
        self._price = ReadingPrice() if options.cpu_share is None else ReadingPrice(fetch_bytes=_FIRST_FETCH)
        self._share = CpuShare(options.cpu_share, self._price, own=own)
        self.report = SamplingReport(
            link.name, datetime.now(UTC), options.seed, whole=options.cpu_share is None, strict=options.strict
        )
        self._source = self._reader("source", committed=link.committed)
        # An exactly-once link writes transactions: what readers of committed records see is compared.
        self._target = self._reader("target", committed=True)
        self._began = time.monotonic()
        self._ids = TopicIds(self._source, self._target)
        self._baselines = Baselines(link, self._source, self._target)
        # Target ends of the partitions at rest, and when to read them again.
        self._ends: dict[TopicPartition, TargetEnd] = {}
        self._ends_at = 0.0
        self._topics_at = 0.0
        # Source offsets of a topic that no longer exists.
        self._stale: dict[TopicPartition, int] = {}
        self._resting: dict[TopicPartition, float] = {}
        self._sampled_at: dict[TopicPartition, float] = {}
        # Bytes that were copied up to the last round.
        self._copied = 0.0
        self._sample_cost = 0.0
        self._asking_cost = 0.0
        # The time of the last pause, and the CPU seconds of copying up to then.
        self._paused_at = self._began, 0.0
        self._first_round = True

    async def run(self) -> None:
        """Verifies until cancelled. At the beginning: ClusterUnreachable, NotAuthorized, ConfigError, CannotCompareError."""
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

    def _reader(self, role: str, *, committed: bool) -> ClusterReader:
        side = self._link.source if role == "source" else self._link.target
        return ClusterReader(
            "source" if role == "source" else "target",
            side.consumer,
            committed=committed,
            rate=Rate(self._options.rate),
            patience_s=_PATIENCE_S,
        )

    # Rounds.

    async def _round(self) -> None:
        began = self._share.used()
        try:
            wanted = await self._source_offsets()
            if self._first_round:
                await self._baselines.read_untouched(wanted)
        except (CannotCompareError, ClusterUnreachable, NotAuthorized) as error:
            if self._first_round:
                raise
            self._report_problem(_SOURCE_OFFSETS, str(error))
            return
        await self._pair_partitions_at_rest(wanted)
        self._first_round = False
        self._resolve(_SOURCE_OFFSETS)
        self._copied = self._copied_bytes()
        self._asking_cost = _average(self._asking_cost, self._share.used() - began)
        now = time.monotonic()
        moved = [
            key
            for key, (_, each) in self.report.partitions.items()
            if each.pending and self._resting.get(key, 0.0) <= now
        ]
        moved.sort(key=lambda key: self._sampled_at.get(key, 0.0))
        for number, key in enumerate(moved):
            left = self._left()
            if left <= 0:
                break
            samples = left / self._sample_cost if self._sample_cost else 1.0
            await self._sample(key, samples / (len(moved) - number))

    async def _sample(self, key: TopicPartition, samples: float) -> None:
        _, partition = self.report.partitions[key]
        self._sampled_at[key] = time.monotonic()
        whole = self._options.cpu_share is None
        partition.plan(float("inf") if whole else samples)
        name = f"{key[0]}-{key[1]}"
        try:
            while True:
                began = self._share.used()
                if not await partition.step():
                    break
                cost = self._share.used() - began
                self._sample_cost = _average(self._sample_cost, cost)
                if not whole:
                    self._price.adapt(cost)
                self._watcher.moved(self.report)
                if self._left() <= 0:
                    break
        except (CannotCompareError, ClusterUnreachable, NotAuthorized) as error:
            self._resting[key] = time.monotonic() + _REST_S
            self._report_problem(name, f"{name}: not verified now: {error}")
            # The topic may have been created again.
            self._topics_at = 0.0
        else:
            self._resolve(name)

    async def _source_offsets(self) -> Positions:
        """The link's source offsets, for the topics of its config."""
        positions = await self._positions()
        if positions is None:
            raise CannotCompareError("the worker reports no source offsets: it no longer has this connector")
        wanted = {key: offset for key, offset in positions.items() if self._link.selection.should_replicate(key[0])}
        new = [key for key in wanted if key not in self.report.partitions and self._stale.get(key) != wanted[key]]
        if new or time.monotonic() - self._topics_at > _TOPICS_EVERY_S:
            await self._check_topics(key[0] for key in new)
        await self._add(new, wanted)
        for key, offset in wanted.items():
            if self._stale.get(key) == offset:
                continue
            self._stale.pop(key, None)
            if key in self.report.partitions:
                self.report.partitions[key][1].until = offset + 1
        return wanted

    async def _pair_partitions_at_rest(self, wanted: Positions) -> None:
        """Finds partitions with nothing in flight: the next target record there is the copy of the next source record."""
        if self._ends_at > time.monotonic():
            return
        following = {
            key: each.until
            for key, (_, each) in self.report.partitions.items()
            # 0: the topic was created again, which needs no source offset.
            if each.unpaired and each.until in (0, wanted.get(key, -1) + 1)
        }
        if following:
            try:
                ends = await self._baselines.target_ends(following)
            except (CannotCompareError, ClusterUnreachable, NotAuthorized):
                ends = {}  # sampling them reports it
            for key, end in ends.items():
                # Records of a former topic of this name may still be in flight: so the end must be the same twice.
                at_rest = end.at_rest and (self._first_round or self._ends.get(key) == end)
                self.report.partitions[key][1].set_target_end(end.offset, at_rest=at_rest)
            self._ends = ends
        self._ends_at = time.monotonic() + _REST_S

    async def _add(self, new: list[TopicPartition], positions: Positions) -> None:
        if not new:
            return
        # A partition that appears later is copied from its beginning.
        begin = {key: positions[key] + 1 if self._first_round else 0 for key in new}
        remotes = {key: self._link.remote(key) for key in new}
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
            partition = SampledPartition(
                ClusterPeek(self._source, key, self._price),
                ClusterPeek(self._target, remote, self._price),
                untouched.source if untouched and untouched.certain else max(begin[key], first[key] or 0),
                rng=self._rng,
                doubt=partial(self._still_the_same, key),
                on_fault=partial(self._watcher.fault, key),
                most_listed=self._options.most_listed,
            )
            behind = (target_last[remote] or 0) - positions[key] - 1
            partition.guesses = ((target_first[remote] or 0) - (first[key] or 0), behind)
            if untouched is not None:
                partition.set_target_end(untouched.target, at_rest=untouched.certain)
            self.report.partitions[key] = remote[0], partition

    # Topics.

    async def _still_the_same(self, key: TopicPartition) -> bool:
        """Waits a moment. Returns whether both topics are still the same."""
        await asyncio.sleep(self._doubt_s)
        return not await self._check_topics([key[0]], only=True)

    async def _check_topics(self, new: Iterable[str] = (), *, only: bool = False) -> bool:
        """Asks both clusters for topic ids. Returns whether a known name belongs to a new topic."""
        topics = set(new) if only else {topic for topic, _ in self.report.partitions} | set(new)
        changed = await self._ids.changed({topic: self._link.remote_topic(topic) for topic in topics})
        for topic, remote, at_source in changed:
            self._begin_anew(topic, remote, at_source=at_source)
        if not only:
            self._topics_at = time.monotonic()
        return bool(changed)

    def _begin_anew(self, topic: str, remote: str, *, at_source: bool) -> None:
        name, consequence = (
            (f"source topic {topic}", "verifying from the beginning of the new one")
            if at_source
            else (f"target topic {remote}", "its records are gone; verifying what is copied from now on")
        )
        self._notice(f"{name} was deleted and created again: {consequence}")
        for key, (_, partition) in self.report.partitions.items():
            if key[0] == topic:
                if at_source and not partition.set_back:
                    # Ignored until the link has a source offset of the new topic.
                    self._stale[key] = partition.until - 1
                if at_source:
                    partition.restart(0)
                else:
                    partition.restart(partition.until, 0)
                self._ends.pop(key, None)
                partition.guesses = (0,)

    # The budget.

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
        """Seconds until the next round: as the CPU share allows, and not before the budget is positive again."""
        least, most = _ROUND_S
        if self._options.cpu_share is None:
            return least
        now, copying = time.monotonic(), self._copying()
        then, before = self._paused_at
        self._paused_at = now, copying
        rate = max(self._options.cpu_share * (copying - before) / max(now - then, 0.001), self._share.resting)
        owed = max(0.0, -self._left())
        return min(most, max(least, self._asking_cost / (_ASKING * rate), owed / rate))

    def _summed(self) -> SamplingReport:
        report = self.report
        report.seconds = time.monotonic() - self._began
        report.own_cpu = self._share.used()
        report.copying_cpu = self._copying()
        report.read_bytes = self._price.read
        return report

    # Lines for people.

    def _report_problem(self, what: str, line: str) -> None:
        if what not in self.report.problems:
            self._watcher.notice(f"{line}; trying again")
        self.report.problems[what] = line

    def _resolve(self, what: str) -> None:
        if self.report.problems.pop(what, None) is not None:
            self._watcher.notice(
                "the worker reports source offsets again" if what == _SOURCE_OFFSETS else f"{what}: verified again"
            )

    def _notice(self, line: str) -> None:
        if line not in self.report.notices:
            self.report.notices.append(line)
        self._watcher.notice(line)


def _average(known: float, new: float) -> float:
    return new if not known else 0.8 * known + 0.2 * new
