"""Records per CPU second: each side copies the same topic between the same brokers, in turns or at the same time.

All sides are warmed up and run all the while; a side that has no turn waits at the end of a small topic of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.accounting import ProcessTree
from benchmarks.compaction import CLEANER, SMALL_SEGMENTS, compact
from benchmarks.console import Console
from benchmarks.feeder import Fed, SteadyFeed, feed
from benchmarks.figures import Sample, Span, span, together
from benchmarks.payload import MARK, Batch, batches
from benchmarks.plan import PARTITIONS, Durations, Profile
from benchmarks.rig import Ends, Rig
from benchmarks.sides import (
    BEFORE,
    LABELS,
    MM2,
    NONE,
    OURS,
    Side,
    SideError,
    config_of,
    connector_config,
    in_turns,
    open_side,
)
from deploy.local.connect import BYTES

EVERY_S: Final = 0.2
# In the warm-up the source grows at a pace that keeps both sides busy and leaves them room.
WARM_BYTES_PER_SECOND: Final = 20e6
FIRST_RECORD_S: Final = 180.0
# A side that copies nothing for so long is stuck.
STUCK_S: Final = 30.0
# A shorter copying is mostly its begin.
LEAST_COPY_S: Final = 2.0
# What a side that has copied may still have on its way when it is told to do something else.
REST_S: Final = 2.0
COMPACTED_S: Final = 180.0
# Of a source topic.
APPEND_TIME: Final = {"message.timestamp.type": "LogAppendTime"}
# By default this one is not among the configs that are copied. What is excluded here, no topic has.
WITH_ITS_TIME: Final = {"config.properties.exclude": "min.insync.replicas"}
# Drops records with the header; with it the other side reads headers as bytes, too.
FILTER: Final = {
    "header.converter": BYTES,
    "transforms": "public",
    "transforms.public.type": "org.apache.kafka.connect.transforms.Filter",
    "transforms.public.predicate": "internal",
    "predicates": "internal",
    "predicates.internal.type": "org.apache.kafka.connect.transforms.predicates.HasHeaderKey",
    "predicates.internal.name": MARK,
}


@dataclass(frozen=True, slots=True)
class Copied:
    """One side's figures for one profile."""

    profile: str
    label: str
    side: str
    wire_bytes_per_record: float
    raw_bytes_per_record: float
    records_per_batch: float
    rounds: int
    # Records per CPU second of each round.
    by_round: list[float]
    records: int
    seconds: float
    records_per_second: float
    cpu_seconds: float
    cpu_by_kind: dict[str, float]
    microseconds_per_record: float
    records_per_cpu_second: float
    source_broker_cpu: float
    target_broker_cpu: float
    # Whether it copied for as long as a figure needs.
    long_enough: bool


@dataclass(frozen=True, slots=True)
class Work:
    """What every side does with one profile: the topic `data` of `rig` is filled."""

    rig: Rig
    profile: Profile
    pool: Sequence[Batch]
    fed: Fed
    durations: Durations
    console: Console


def measure(
    profile: Profile,
    durations: Durations,
    console: Console,
    sides: Sequence[str] = (),
    other: Path | None = None,
    *,
    at_once: bool = False,
) -> list[dict[str, Any]]:
    """Every side on one profile; `other` is the checkout of the side BEFORE. Raises SideError when one does not copy.

    `sides`: by default those of the profile's aims, and this product.
    `at_once`: all sides copy at the same time, so whatever else the machine does affects all of them alike.
    """
    sides = sides or (*(profile.least or (MM2,)), OURS)
    limit = {"message.max.bytes": str(profile.limit)} if profile.limit else {}
    both = CLEANER if profile.compacted else {}
    with Rig(both, target_properties=limit, encrypted=profile.encrypted, brokers=profile.brokers) as rig:
        work = prepare(rig, profile, durations, console)
        spans: dict[str, list[Span]] = {name: [] for name in sides}
        with ExitStack() as stack:
            copiers = {
                name: Copier(work, stack.enter_context(open_side(name, rig.target, other=other))) for name in sides
            }
            for number in range(-durations.warm_rounds, durations.rounds):
                order = in_turns(sides, number)
                for name, copied in _turns({name: copiers[name] for name in order}, at_once=at_once):
                    if number >= 0:
                        spans[name].append(copied)
                    console.say(f"{LABELS[name]}{'' if number >= 0 else ', warming up'}: {line(copied)}")
        for name in sides:
            console.say(f"{LABELS[name]}: {line(together(spans[name]))}")
    slowest = min(sides, key=lambda name: together(spans[name]).records_per_second)
    found = []
    for name in sides:
        least = durations.slower if name == slowest else durations.faster
        found.append(_figures(work, name, spans[name], least))
    return [asdict(each) for each in found]


def prepare(rig: Rig, profile: Profile, durations: Durations, console: Console) -> Work:
    """Fills the source's topic."""
    console.say(f"{profile.label}: building batches of real text")
    pool = batches(profile)
    configs = SMALL_SEGMENTS if profile.compacted else APPEND_TIME if profile.append_time else {}
    rig.create_source_topic("data", PARTITIONS, configs)
    began = time.monotonic()
    fed = feed(rig.source_addresses, "data", PARTITIONS, pool, int(profile.records * durations.data_share))
    console.say(
        f"{profile.label}: {fed.records:,} records, {fed.wire_bytes / 1e6:,.0f} MB"
        f" ({fed.raw_bytes / 1e6:,.0f} MB uncompressed) written in {time.monotonic() - began:.1f} s"
    )
    if profile.compacted:
        left = compact(rig.source, "data", PARTITIONS, fed.records, COMPACTED_S)
        console.say(f"{profile.label}: {left:,} records are left")
        fed = Fed(left, int(fed.wire_bytes * left / fed.records), int(fed.raw_bytes * left / fed.records))
    if profile.filtered:
        # As of the compacted one, what counts is what arrives.
        fed = Fed(fed.records // 2, fed.wire_bytes // 2, fed.raw_bytes // 2)
    return Work(rig, profile, pool, fed, durations, console)


class Copier:
    """One side's worker with its connector, warmed up; the brokers and the topic go with `work`."""

    def __init__(self, work: Work, side: Side) -> None:
        self._work = work
        self._side = side
        self.rig = rig = work.rig
        warm_up = work.durations.warm_up
        copy = work.durations.copy_product if side.name in (OURS, BEFORE) else work.durations.copy_java
        self._seconds = copy / work.durations.rounds
        self._copies = 0
        # Those of the last turn; see `drop`.
        self.remotes: list[str] = []
        # Workers of one side are told apart by their groups.
        name = side.group
        warm = f"warm-{name}"
        rig.create_source_topic(warm, PARTITIONS, APPEND_TIME if work.profile.append_time else {})
        self._config = config_of(side.name, connector_config(rig.source, rig.target, name, warm))
        if work.profile.config_copied:
            self._config |= WITH_ITS_TIME
        if work.profile.filtered:
            self._config |= FILTER
        side.put("copy", self._config)
        with SteadyFeed(rig.source_addresses, warm, PARTITIONS, work.pool, WARM_BYTES_PER_SECOND):
            rig.wait_for_first_record(f"{name}.{warm}", PARTITIONS, FIRST_RECORD_S)
            work.console.say(f"{LABELS[side.name]}: warming up for {warm_up:g} s")
            time.sleep(warm_up)

    def turn(self, settings: Mapping[str, str] = NONE, share: float = 1.0) -> Span:
        """Copies the topic, again and again if need be, until its share of time is over; then waits, with nothing to do.

        `settings`: of the connector, for this turn. `share`: of the records, which arrives.
        """
        rig, side = self.rig, self._side
        spans: list[Span] = []
        self.remotes = []
        while (left := self._seconds - sum(each.seconds for each in spans)) > 0:
            # The same connector in the same processes; another alias is another remote topic and no position yet.
            self._copies += 1
            alias = f"{side.group}-{self._copies}"
            self.remotes.append(f"{alias}.data")
            side.put("copy", self._config | {**settings, "topics": "data", "source.cluster.alias": alias})
            settle = self._work.durations.settle
            samples = watch(
                rig, side, self.remotes[-1], int(self._work.fed.records * share), settle + max(left, LEAST_COPY_S)
            )
            spans.append(span(samples, settle))
        side.put("copy", self._config)
        side.wait_running("copy")
        time.sleep(REST_S)
        return together(spans)


def rounds_of(
    names: Sequence[str], rounds: int, turn: Callable[[str], Span], copier: Copier, console: Console
) -> dict[str, list[Span]]:
    """What each of these copies in its turn of each round, by name. A round in front of them does not count."""
    spans: dict[str, list[Span]] = {name: [] for name in names}
    for number in range(-1, rounds):
        for name in in_turns(names, number):
            copied = turn(name)
            drop(copier.rig, copier.remotes)
            if number >= 0:
                spans[name].append(copied)
            console.say(f"{name}{'' if number >= 0 else ', warming up'}: {line(copied)}")
    return spans


def drop(rig: Rig, remotes: Sequence[str]) -> None:
    """Deletes what was copied: disks are small. A side may still write to a topic of its last turn."""
    for remote in remotes:
        rig.target.delete_topic(remote)


def _turns(copiers: Mapping[str, Copier], *, at_once: bool) -> Iterator[tuple[str, Span]]:
    if not at_once:
        for name, copier in copiers.items():
            yield name, copier.turn()
            drop(copier.rig, copier.remotes)
        return
    with ThreadPoolExecutor(len(copiers)) as threads:
        turns = {name: threads.submit(copier.turn) for name, copier in copiers.items()}
    for name, turn in turns.items():
        yield name, turn.result()
        drop(copiers[name].rig, copiers[name].remotes)


def _figures(work: Work, name: str, spans: Sequence[Span], least_seconds: float) -> Copied:
    whole, fed, pool = together(spans), work.fed, work.pool
    return Copied(
        profile=work.profile.name,
        label=work.profile.label,
        side=name,
        wire_bytes_per_record=fed.wire_bytes / fed.records,
        raw_bytes_per_record=fed.raw_bytes / fed.records,
        records_per_batch=sum(batch.records for batch in pool) / len(pool),
        rounds=len(spans),
        by_round=[each.records_per_cpu_second for each in spans],
        records=whole.records,
        seconds=whole.seconds,
        records_per_second=whole.records_per_second,
        cpu_seconds=whole.cpu,
        cpu_by_kind={kind: round(seconds, 2) for kind, seconds in whole.cpu_by_kind.items() if seconds >= 0.005},
        microseconds_per_record=whole.microseconds_per_record,
        records_per_cpu_second=whole.records_per_cpu_second,
        source_broker_cpu=whole.source_broker_cpu,
        target_broker_cpu=whole.target_broker_cpu,
        long_enough=whole.seconds >= least_seconds,
    )


def watch(
    rig: Rig, side: Side, remote: str, expected: int, seconds: float, *, partitions: int = PARTITIONS
) -> list[Sample]:
    """Samples until everything is on the target, or `seconds` after the first record."""
    tree = side.tree()
    samples: list[Sample] = []
    began: float | None = None
    moved_at = time.monotonic()
    with Ends(rig.target, remote, partitions) as ends:
        while True:
            sample = _sample(rig, ends, tree)
            if not samples or sample.records > samples[-1].records:
                moved_at = sample.at
            samples.append(sample)
            if began is None and sample.records:
                began = sample.at
            if sample.records >= expected or (began is not None and sample.at - began >= seconds):
                return samples
            if time.monotonic() - moved_at > STUCK_S:
                raise SideError(f"{LABELS[side.name]} stands still at {sample.records:,} of {expected:,} records")
            side.check_alive()
            time.sleep(EVERY_S)


def _sample(rig: Rig, ends: Ends, tree: ProcessTree) -> Sample:
    records = ends.records()
    at = time.monotonic()
    cpu = tree.cpu_seconds()
    source, target = rig.broker_cpu()
    return Sample(at, records, cpu, tree.cpu_by_kind(), source, target)


def line(span_: Span) -> str:
    """For the console."""
    return (
        f"{span_.records:,} records in {span_.seconds:.1f} s = {span_.records_per_second:,.0f}/s, CPU {span_.cpu:.1f} s ="
        f" {span_.microseconds_per_record:.2f} µs a record, {span_.records_per_cpu_second:,.0f} records per CPU second"
    )
