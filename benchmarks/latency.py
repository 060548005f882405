"""How much later a record is on the target than at a consumer of the source: the same records, received on both ends."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from benchmarks.accounting import ProcessTree
from benchmarks.console import Console
from benchmarks.figures import percentile
from benchmarks.latency_probe import AFTER_LAST_S, Load, Receiver, send
from benchmarks.plan import LATENCY_RECORD_BYTES, PARTITIONS, RATES, Durations
from benchmarks.rig import Rig
from benchmarks.sides import LABELS, MM2, OURS, connector_config, open_side

FIRST_RECORD_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Delay:
    """Milliseconds at one rate; the floor is a consumer of the source at the same time."""

    side: str
    rate: int
    sent: int
    received: int
    floor_p50: float
    floor_p99: float
    p50: float
    p99: float
    # Of all the side's processes, in percent of one core, warm-up included.
    cpu_percent: float


def measure(durations: Durations, console: Console, sides: Sequence[str] = (MM2, OURS)) -> list[dict[str, Any]]:
    """Every side at every rate, one worker each."""
    found = []
    with Rig() as rig:
        for name in sides:
            rig.create_source_topic(name, PARTITIONS)
            with open_side(name, rig.target) as side:
                side.put("copy", connector_config(rig.source, rig.target, name, name))
                side.wait_running("copy")
                send(rig.source, name, PARTITIONS, Load(100, 0.0, 1.0, LATENCY_RECORD_BYTES))
                rig.wait_for_first_record(f"{name}.{name}", PARTITIONS, FIRST_RECORD_S)
                # What was sent to wake it up must be through.
                time.sleep(1.0)
                tree = side.tree()
                for rate in RATES:
                    console.say(f"{LABELS[name]}: {rate:,} records/s, warm-up {durations.warm_up:g} s")
                    found.append(_delay(rig, name, rate, tree, durations))
                    console.say(_line(found[-1]))
    return [asdict(each) for each in found]


def _delay(rig: Rig, name: str, rate: int, tree: ProcessTree, durations: Durations) -> Delay:
    load = Load(rate, durations.warm_up, durations.latency, LATENCY_RECORD_BYTES)
    with Receiver(rig.source, name, PARTITIONS) as near, Receiver(rig.target, f"{name}.{name}", PARTITIONS) as far:
        cpu, began = tree.cpu_seconds(), time.monotonic()
        send(rig.source, name, PARTITIONS, load)
        percent = (tree.cpu_seconds() - cpu) / (time.monotonic() - began) * 100
        time.sleep(AFTER_LAST_S)
        floor, there = near.latencies(), far.latencies()
    if not there:
        raise RuntimeError(f"{LABELS[name]} copied none of {load.measured:,} records")
    return Delay(
        name,
        rate,
        load.measured,
        len(there),
        percentile(floor, 50),
        percentile(floor, 99),
        percentile(there, 50),
        percentile(there, 99),
        percent,
    )


def _line(delay: Delay) -> str:
    return (
        f"{LABELS[delay.side]} at {delay.rate:,}/s: p50 {delay.p50:.1f} ms, p99 {delay.p99:.1f} ms; consumed directly"
        f" {delay.floor_p50:.1f} and {delay.floor_p99:.1f} ms; {delay.received:,} of {delay.sent:,} records,"
        f" {delay.cpu_percent:.0f} % CPU"
    )
