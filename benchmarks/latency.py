"""How much later a record is on the target than at a consumer of the source: the same records, received on both ends.

All sides run at the same time, each with its own topic; the rounds go in turns, so that what the machine does meanwhile
troubles all alike. A side that has no turn waits at the end of its topic.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.accounting import ProcessTree
from benchmarks.console import Console
from benchmarks.latency_probe import AFTER_LAST_S, Load, Receiver, send
from benchmarks.pairing import Lateness, Pair, lateness, pairs
from benchmarks.plan import LATENCY_RECORD_BYTES, PARTITIONS, RATES, Durations
from benchmarks.rig import Rig
from benchmarks.sides import LABELS, MM2, OURS, Side, connector_config, in_turns, open_side

FIRST_RECORD_S: Final = 180.0
# Before what counts: the measuring producer and consumers have just been started.
PROBE_WARM_UP_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Delay:
    """Lateness at one rate, over all rounds; `rounds`: the same of each round alone.

    `cpu_percent`: of all the side's processes, in percent of one core, while the records that count are sent.
    """

    side: str
    rate: int
    sent: int
    lateness: Lateness
    rounds: list[Lateness]
    cpu_percent: float

    def figures(self) -> dict[str, Any]:
        """By name, as results have them."""
        rounds = [each.figures() for each in self.rounds]
        named = {"side": self.side, "rate": self.rate, "sent": self.sent, **self.lateness.figures()}
        return {**named, "rounds": rounds, "cpu_percent": self.cpu_percent}


@dataclass(frozen=True, slots=True)
class _Round:
    pairs: list[Pair]
    cpu: float
    seconds: float


def measure(durations: Durations, console: Console, sides: Sequence[str] = (MM2, OURS)) -> list[dict[str, Any]]:
    """Every side at every rate, one worker each."""
    found = []
    with Rig() as rig, ExitStack() as stack:
        trees = {name: _opened(rig, stack.enter_context(open_side(name, rig.target))) for name in sides}
        for rate in RATES:
            rounds: dict[str, list[_Round]] = defaultdict(list)
            for name in sides:
                console.say(f"{LABELS[name]}: {rate:,} records/s, warm-up {durations.warm_up:g} s")
                _warm_up(rig, name, rate, durations.warm_up)
            for number in range(durations.latency_rounds):
                for name in in_turns(sides, number):
                    _warm_up(rig, name, rate, durations.warm_again)
                    rounds[name].append(_round(rig, name, rate, trees[name], durations))
            for name in sides:
                found.append(_delay(name, rate, rounds[name], durations))
                console.say(_line(found[-1]))
    return [each.figures() for each in found]


def _opened(rig: Rig, side: Side) -> ProcessTree:
    rig.create_source_topic(side.name, PARTITIONS)
    side.put("copy", connector_config(rig.source, rig.target, side.name, side.name))
    side.wait_running("copy")
    send(rig.source, side.name, PARTITIONS, Load(100, 0.0, 1.0, LATENCY_RECORD_BYTES))
    rig.wait_for_first_record(f"{side.name}.{side.name}", PARTITIONS, FIRST_RECORD_S)
    return side.tree()


def _warm_up(rig: Rig, name: str, rate: int, seconds: float) -> None:
    send(rig.source, name, PARTITIONS, Load(rate, seconds, 0.0, LATENCY_RECORD_BYTES))
    # What was sent to warm it up must be through.
    time.sleep(PROBE_WARM_UP_S)


def _load(rate: int, durations: Durations) -> Load:
    return Load(rate, PROBE_WARM_UP_S, durations.latency / durations.latency_rounds, LATENCY_RECORD_BYTES)


def _round(rig: Rig, name: str, rate: int, tree: ProcessTree, durations: Durations) -> _Round:
    load = _load(rate, durations)
    with Receiver(rig.source, name, PARTITIONS) as near, Receiver(rig.target, f"{name}.{name}", PARTITIONS) as far:
        cpu, began = tree.cpu_seconds(), time.monotonic()
        send(rig.source, name, PARTITIONS, load)
        used, seconds = tree.cpu_seconds() - cpu, time.monotonic() - began
        time.sleep(AFTER_LAST_S)
        found = pairs(near.arrivals(), far.arrivals())
    if not found:
        raise RuntimeError(f"{LABELS[name]} copied none of {load.measured:,} records")
    return _Round(found, used, seconds)


def _delay(name: str, rate: int, rounds: Sequence[_Round], durations: Durations) -> Delay:
    return Delay(
        side=name,
        rate=rate,
        sent=_load(rate, durations).measured * len(rounds),
        lateness=lateness([pair for each in rounds for pair in each.pairs]),
        rounds=[lateness(each.pairs) for each in rounds],
        cpu_percent=100 * sum(each.cpu for each in rounds) / sum(each.seconds for each in rounds),
    )


def _line(delay: Delay) -> str:
    late = delay.lateness
    return (
        f"{LABELS[delay.side]} at {delay.rate:,}/s: a record is {late.over_p50:+.1f} ms (p50), {late.over_p99:+.1f} ms"
        f" (p99) later than at a consumer of the source; {late.received:,} of {delay.sent:,} records,"
        f" {delay.cpu_percent:.0f} % CPU"
    )
