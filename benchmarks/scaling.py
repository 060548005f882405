"""What a record costs with more partitions and with more tasks: the same records in topics of 16 to 1,600 partitions.

Only this product is measured: the question is whether its cost grows, and MirrorMaker 2's figures are under Copying. A
broker takes some milliseconds for the first record of a partition, so starts do not count (held_copies.py).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from benchmarks.console import Console
from benchmarks.feeder import SteadyFeed, feed
from benchmarks.figures import Span, median, span
from benchmarks.findings import Aim, Table
from benchmarks.held_copies import COPIED, QUOTA_SAMPLES, HeldCopies
from benchmarks.payload import batches
from benchmarks.plan import AIM_SCALING, PROFILES, Durations
from benchmarks.rig import Rig
from benchmarks.sides import OURS, Side, connector_config, in_turns, open_side
from benchmarks.throughput import FIRST_RECORD_S, WARM_BYTES_PER_SECOND, watch

# Partitions and tasks; the first one is what the others are compared with.
CASES: Final = ((16, 1), (160, 1), (1_600, 1), (160, 4), (160, 16))
PROFILE: Final = PROFILES[0]
RECORDS: Final = 5_000_000
WARM: Final = "warm"
COPY_S: Final = 8.0


@dataclass(frozen=True, slots=True)
class Cost:
    """One case. `microseconds`: of CPU for each record, the median of all rounds; `ratios`: to the first case, by round."""

    partitions: int
    tasks: int
    records: int
    seconds: float
    microseconds: float
    ratios: list[float]


def measure(durations: Durations, console: Console, sides: Sequence[str] = (OURS,)) -> list[dict[str, Any]]:
    """Each case in each round, forwards and backwards. `sides` is not used: there is one."""
    del sides
    pool = batches(PROFILE)
    records = int(RECORDS * durations.data_share)
    found: dict[tuple[int, int], list[Span]] = {case: [] for case in CASES}
    with Rig(QUOTA_SAMPLES) as rig, open_side(OURS, rig.target) as side:
        for partitions in sorted({partitions for partitions, _ in CASES}):
            rig.create_source_topic(_topic(partitions), partitions)
            fed = feed(rig.source_addresses, _topic(partitions), partitions, pool, records)
            console.say(f"{partitions:,} partitions: {fed.records:,} records written")
        _warm_up(rig, side, pool, durations)
        copies = HeldCopies(rig, side, WARM)
        cases = [f"{partitions} {tasks}" for partitions, tasks in CASES]
        for number in range(durations.rounds):
            for name in in_turns(cases, number):
                partitions, tasks = map(int, name.split())
                with copies.copying(_topic(partitions), partitions, tasks) as remote:
                    samples = watch(rig, side, remote, int(records * COPIED), COPY_S, partitions=partitions)
                copied = span(samples)
                found[partitions, tasks].append(copied)
                console.say(
                    f"{partitions:,} partitions, {tasks} tasks: {copied.records:,} records in {copied.seconds:.1f} s,"
                    f" {copied.microseconds_per_record:.2f} µs a record"
                )
    plain = [each.microseconds_per_record for each in found[CASES[0]]]
    return [asdict(_cost(*case, spans, plain)) for case, spans in found.items()]


def _cost(partitions: int, tasks: int, spans: Sequence[Span], plain: Sequence[float]) -> Cost:
    costs = [each.microseconds_per_record for each in spans]
    return Cost(
        partitions,
        tasks,
        sum(each.records for each in spans),
        sum(each.seconds for each in spans),
        median(costs),
        [cost / first for cost, first in zip(costs, plain, strict=True)],
    )


def _topic(partitions: int) -> str:
    return f"data-{partitions}"


def _warm_up(rig: Rig, side: Side, pool: Sequence[Any], durations: Durations) -> None:
    rig.create_source_topic(WARM, 1)
    side.put("copy", connector_config(rig.source, rig.target, WARM, WARM))
    with SteadyFeed(rig.source_addresses, WARM, 1, pool, WARM_BYTES_PER_SECOND):
        rig.wait_for_first_record(f"{WARM}.{WARM}", 1, FIRST_RECORD_S)
        time.sleep(durations.warm_up)


def findings(figures: Sequence[dict[str, Any]]) -> tuple[Table, list[Aim]]:
    """A row for each case; the aims are ratios to the first one."""
    rows, aims = [], []
    for each in figures:
        name = f"{each['partitions']:,} partitions, {each['tasks']} {'task' if each['tasks'] == 1 else 'tasks'}"
        ratio = median(each["ratios"])
        spread = f"{min(each['ratios']):.2f} to {max(each['ratios']):.2f}"
        rows.append(
            (
                name,
                f"{each['records']:,}",
                f"{each['seconds']:.0f}",
                f"{each['microseconds']:.2f}",
                f"{ratio:.2f}",
                spread,
            )
        )
        if each is not figures[0]:
            what = f"{name}: CPU per record against {figures[0]['partitions']} partitions and one task"
            aims.append(Aim(what, f"{ratio:.2f} × ({spread})", f"≤ {AIM_SCALING:g} ×", ratio <= AIM_SCALING))
    return Table(("", "records", "s", "µs CPU/record", "times the first", "of single rounds"), rows), aims
