"""Latency over the end of an epoch: a task gives its work to the next one while records go on."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from benchmarks.console import Console
from benchmarks.figures import median
from benchmarks.findings import Aim, Table
from benchmarks.latency_probe import AFTER_LAST_S, Load, Receiver, send
from benchmarks.pairing import Arrival, Lateness, Pair, first_arrivals, lateness
from benchmarks.plan import AIM_OVER_MS, LATENCY_RECORD_BYTES, PARTITIONS, Durations
from benchmarks.rig import Rig
from benchmarks.sides import OURS, connector_config, open_side
from mirror_connect.spark_jobs.task_context import EPOCH_SECONDS

# Enough for a task to keep a process of its own, and few enough for a quarter of an hour of them to be kept in memory.
RATE: Final = 1_000
FIRST_RECORD_S: Final = 180.0
# An epoch lasts from the task's start; what is measured begins later.
LONGER_S: Final = 30.0
# The end of an epoch is somewhere among these.
SECTION_S: Final = 10.0
TOPIC: Final = "epochs"
_NAMES: Final = {"p50": "p50", "p99": "p99", "p999": "p99.9"}


@dataclass(frozen=True, slots=True)
class Epochs:
    """Milliseconds. `usual_p999`, `worst_p999`: of the median and of the worst section of SECTION_S.

    `worst`: of one record. `lateness`: of all.
    """

    rate: int
    seconds: float
    sent: int
    lateness: Lateness
    usual_p999: float
    worst_p999: float
    worst: float

    def figures(self) -> dict[str, Any]:
        """By name, as results have them."""
        named = asdict(self)
        return {**named.pop("lateness"), **named}


def measure(durations: Durations, console: Console, sides: Sequence[str] = (OURS,)) -> list[dict[str, Any]]:
    """One run. `sides` is not used: MirrorMaker 2 has no epochs."""
    del sides
    seconds = (EPOCH_SECONDS + LONGER_S) * durations.data_share
    load = Load(RATE, durations.warm_up, seconds, LATENCY_RECORD_BYTES)
    with Rig() as rig, open_side(OURS, rig.target) as side:
        rig.create_source_topic(TOPIC, PARTITIONS)
        side.put("copy", connector_config(rig.source, rig.target, OURS, TOPIC))
        side.wait_running("copy")
        send(rig.source, TOPIC, PARTITIONS, Load(100, 0.0, 1.0, LATENCY_RECORD_BYTES))
        rig.wait_for_first_record(f"{OURS}.{TOPIC}", PARTITIONS, FIRST_RECORD_S)
        console.say(f"{RATE:,} records/s for {seconds:g} s, in which an epoch ends")
        with (
            Receiver(rig.source, TOPIC, PARTITIONS) as near,
            Receiver(rig.target, f"{OURS}.{TOPIC}", PARTITIONS) as far,
        ):
            send(rig.source, TOPIC, PARTITIONS, load)
            time.sleep(AFTER_LAST_S)
            found = epochs(near.arrivals(), far.arrivals(), load)
    console.say(
        f"a record is {found.lateness.over_p50:+.1f} ms (p50), {found.lateness.over_p999:+.1f} ms (p99.9), at worst"
        f" {found.worst:+.1f} ms later than at a consumer of the source"
    )
    return [found.figures()]


def epochs(near: Sequence[Arrival], far: Sequence[Arrival], load: Load) -> Epochs:
    """Of the arrivals at the two consumers. ValueError for none."""
    at_source, at_target = first_arrivals(near), first_arrivals(far)
    sections: dict[int, list[Pair]] = defaultdict(list)
    for key, arrived in at_target.items():
        if key in at_source:
            number, sent = key
            pair = Pair((at_source[key] - sent) * 1000, (arrived - sent) * 1000)
            sections[int(number / load.rate / SECTION_S)].append(pair)
    tails = [lateness(section).over_p999 for section in sections.values()]
    everything = [pair for section in sections.values() for pair in section]
    return Epochs(
        load.rate,
        load.seconds,
        load.measured,
        lateness(everything),
        median(tails),
        max(tails),
        max(pair.over for pair in everything),
    )


def findings(figures: Sequence[Mapping[str, Any]]) -> tuple[Table, list[Aim]]:
    """One row; the aims are those of latency."""
    rows, aims = [], []
    for each in figures:
        rows.append(
            (
                f"{each['rate']:,}",
                f"{each['seconds']:.0f}",
                *(f"{each[name]:+.1f}" for name in ("over_p50", "over_p99", "over_p999")),
                f"{each['usual_p999']:+.1f}",
                f"{each['worst_p999']:+.1f}",
                f"{each['worst']:+.1f}",
                f"{each['received']:,} of {each['sent']:,}",
            )
        )
        proves = each["received"] >= each["sent"] and each["seconds"] >= EPOCH_SECONDS
        for name, most in AIM_OVER_MS.items():
            found = each[f"over_{name}"]
            what = f"{each['rate']:,} records/s while an epoch ends: {_NAMES[name]} over consuming directly"
            aims.append(Aim(what, f"{found:+.1f} ms", f"≤ {most:g} ms", found <= most if proves else None))
    sections = f"p99.9 of {SECTION_S:g} s"
    head = ("records/s", "s", "over p50", "over p99", "over p99.9", f"{sections}, median", f"{sections}, worst")
    return Table((*head, "the worst record", "records"), rows), aims
