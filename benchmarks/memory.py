"""Proportional set size of everything a connector with two idle tasks needs, and of one task whose target is slow."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from benchmarks.accounting import ProcessTree
from benchmarks.console import Console
from benchmarks.feeder import feed
from benchmarks.figures import median
from benchmarks.payload import batches
from benchmarks.plan import (
    PROFILES,
    THROTTLE_BYTES_PER_SECOND,
    THROTTLED_PARTITIONS,
    Durations,
)
from benchmarks.rig import Ends, Rig
from benchmarks.sides import LABELS, MM2, OURS, Side, connector_config, in_turns, open_side

TASKS: Final = 2
FIRST_RECORD_S: Final = 180.0
EVERY_S: Final = 0.5
TASK: Final = "Python task"


@dataclass(frozen=True, slots=True)
class Idle:
    """Megabytes (10^6 bytes) of PSS after a while without records; the sum of all processes and of each kind. `rounds`: the
    sums of all rounds, of which this one is the median.
    """

    side: str
    total_mb: float
    by_kind: dict[str, float]
    cpu_percent: float
    rounds: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Throttled:
    """The task process of this product while its target takes `bytes_per_second`."""

    source_bytes: int
    partitions: int
    bytes_per_second: int
    seconds: float
    copied_bytes_per_second: float
    peak_task_mb: float
    peak_total_mb: float


def measure(durations: Durations, console: Console, sides: Sequence[str] = (MM2, OURS)) -> dict[str, Any]:
    """Both figures."""
    rounds: dict[str, list[Idle]] = {name: [] for name in sides}
    for number in range(durations.idle_rounds):
        for name in in_turns(sides, number):
            rounds[name].append(_idle(name, durations, console))
    idle = [median_idle(rounds[name]) for name in sides]
    throttled = [asdict(_throttled(durations, console))] if OURS in sides else []
    return {"idle": [asdict(each) for each in idle], "throttled": throttled}


def median_idle(rounds: Sequence[Idle]) -> Idle:
    """The round whose sum is the median one, with the sums of all."""
    totals = [each.total_mb for each in rounds]
    middle = median(totals)
    return replace(next(each for each in rounds if each.total_mb == middle), rounds=totals)


def _idle(name: str, durations: Durations, console: Console) -> Idle:
    with Rig() as rig:
        profile = PROFILES[0]
        pool = batches(profile)[:8]
        rig.create_source_topic("data", 4)
        # Something small went through each task: connections and buffers are those of one in use.
        fed = feed(rig.source.bootstrap_servers, "data", 4, pool, 2_000)
        with open_side(name, rig.target) as side:
            side.put("copy", connector_config(rig.source, rig.target, name, "data", TASKS))
            side.wait_running("copy", TASKS)
            with Ends(rig.target, f"{name}.data", 4) as ends:
                ends.wait_for(fed.records, FIRST_RECORD_S)
            console.say(f"{LABELS[name]}: {TASKS} tasks idle for {durations.idle:g} s")
            tree = side.tree()
            time.sleep(durations.idle / 2)
            before, began = tree.cpu_seconds(), time.monotonic()
            time.sleep(durations.idle / 2)
            percent = (tree.cpu_seconds() - before) / (time.monotonic() - began) * 100
            kinds: dict[str, float] = defaultdict(float)
            for kind, _, megabytes in tree.pss():
                kinds[kind] += megabytes
    idle = Idle(name, sum(kinds.values()), dict(kinds), percent)
    parts = ", ".join(f"{kind} {megabytes:.0f}" for kind, megabytes in sorted(kinds.items()))
    console.say(f"{LABELS[name]}: {idle.total_mb:.0f} MB PSS ({parts}), {percent:.1f} % CPU")
    return idle


def _throttled(durations: Durations, console: Console) -> Throttled:
    with Rig() as rig:
        profile = replace(PROFILES[0], name="throttled")
        pool = batches(profile)
        wire = sum(len(batch.data) for batch in pool) / sum(batch.records for batch in pool)
        rig.create_source_topic("data", THROTTLED_PARTITIONS)
        records = int(durations.throttled_bytes / wire)
        fed = feed(rig.source.bootstrap_servers, "data", THROTTLED_PARTITIONS, pool, records)
        rig.throttle_producers(THROTTLE_BYTES_PER_SECOND)
        console.say(
            f"{fed.wire_bytes / 1e6:,.0f} MB wait in {THROTTLED_PARTITIONS} partitions for a target that is slow"
        )
        with open_side(OURS, rig.target) as side:
            side.put("copy", connector_config(rig.source, rig.target, OURS, "data"))
            rig.wait_for_first_record(f"{OURS}.data", THROTTLED_PARTITIONS, FIRST_RECORD_S)
            found = _peaks(rig, side, durations, fed.wire_bytes, fed.wire_bytes / fed.records)
    console.say(
        f"{found.seconds:.0f} s at {found.copied_bytes_per_second / 1e6:.1f} MB/s: the task's peak is"
        f" {found.peak_task_mb:.0f} MB PSS, that of all processes {found.peak_total_mb:.0f} MB"
    )
    return found


def _peaks(rig: Rig, side: Side, durations: Durations, source_bytes: int, record_bytes: float) -> Throttled:
    tree: ProcessTree = side.tree()
    peak_task = peak_total = 0.0
    with Ends(rig.target, f"{OURS}.data", THROTTLED_PARTITIONS) as ends:
        began, first = time.monotonic(), ends.records()
        while (now := time.monotonic()) - began < durations.throttled:
            processes = tree.pss()
            peak_task = max([peak_task, *(megabytes for kind, _, megabytes in processes if kind == TASK)])
            peak_total = max(peak_total, sum(megabytes for _, _, megabytes in processes))
            side.check_alive()
            time.sleep(EVERY_S)
        copied = (ends.records() - first) * record_bytes / (now - began)
    if not peak_task:
        raise RuntimeError("no process of the worker was seen to be its Python task")
    return Throttled(
        source_bytes,
        THROTTLED_PARTITIONS,
        THROTTLE_BYTES_PER_SECOND,
        now - began,
        copied,
        peak_task,
        peak_total,
    )
