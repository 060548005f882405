"""How much later a record is on the target than at a consumer of the source: the same records, received on both ends.

All sides run at the same time, each with its own topic; the rounds go in turns, so that what the machine does meanwhile
troubles all alike. A side that has no turn waits at the end of its topic.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from benchmarks.accounting import ProcessTree
from benchmarks.console import Console
from benchmarks.latency_probe import AFTER_LAST_S, READ_COMMITTED, Load, Receiver, send
from benchmarks.pairing import Lateness, Pair, lateness, pairs
from benchmarks.plan import LATENCY_RECORD_BYTES, PARTITIONS, RATES, Durations
from benchmarks.rig import Rig
from benchmarks.saturation import saturated
from benchmarks.sides import LABELS, MM2, NONE, OURS, Side, connector_config, in_turns, open_side

FIRST_RECORD_S: Final = 180.0
# Before what counts: the measuring producer and consumers have just been started.
PROBE_WARM_UP_S: Final = 1.0
# How many times as many rounds there are on a saturated machine.
SATURATED_TIMES: Final = 2


@dataclass(frozen=True, slots=True)
class Delay:
    """Lateness at one rate, over all rounds; `rounds`: the same of each round alone.

    `cpu_percent`: of all the side's processes, in percent of one core, while the records that count are sent. `busy`:
    processes beside it that compute without a pause meanwhile.
    """

    side: str
    rate: int
    sent: int
    lateness: Lateness
    rounds: list[Lateness]
    cpu_percent: float
    busy: int = 0

    def figures(self) -> dict[str, Any]:
        """By name, as results have them."""
        rounds = [each.figures() for each in self.rounds]
        named = {"side": self.side, "rate": self.rate, "sent": self.sent, **self.lateness.figures()}
        return {**named, "rounds": rounds, "cpu_percent": self.cpu_percent, "busy": self.busy}


@dataclass(frozen=True, slots=True)
class Round:
    """One round of one side: its records; the side's CPU seconds while they were sent, which took `seconds`."""

    pairs: list[Pair]
    cpu: float
    seconds: float


@contextmanager
def _alone() -> Iterator[int]:
    yield 0


def measure(
    durations: Durations,
    console: Console,
    sides: Sequence[str] = (MM2, OURS),
    beside: Callable[[], AbstractContextManager[int]] = _alone,
) -> list[dict[str, Any]]:
    """Every side at every rate, one worker each. `beside`: what the machine does in the rounds; gives `Delay.busy`."""
    found = []
    with Rig() as rig, ExitStack() as stack:
        trees = {name: _opened(rig, stack.enter_context(open_side(name, rig.target))) for name in sides}
        for rate in RATES:
            rounds: dict[str, list[Round]] = defaultdict(list)
            for name in sides:
                console.say(f"{LABELS[name]}: {rate:,} records/s, warm-up {durations.warm_up:g} s")
                warm_up(rig, name, rate, durations.warm_up)
            # After the warm-up: a JVM that has not compiled its code yet is another measurement.
            with beside() as busy:
                for number in range(durations.latency_rounds):
                    for name in in_turns(sides, number):
                        warm_up(rig, name, rate, durations.warm_again)
                        rounds[name].append(measure_round(rig, name, load_of(rate, durations), trees[name]))
            for name in sides:
                found.append(_delay(name, rate, rounds[name], durations, busy))
                console.say(_line(found[-1]))
    return [each.figures() for each in found]


def measure_saturated(
    durations: Durations, console: Console, sides: Sequence[str] = (MM2, OURS)
) -> list[dict[str, Any]]:
    """The same where other processes take all the processor time there is, in more rounds: they differ more."""
    more = replace(
        durations,
        latency=durations.latency * SATURATED_TIMES,
        latency_rounds=durations.latency_rounds * SATURATED_TIMES,
    )
    return measure(more, console, sides, saturated)


def _opened(rig: Rig, side: Side) -> ProcessTree:
    copy_alone(rig, side, "copy", side.name)
    return side.tree()


def copy_alone(rig: Rig, side: Side, connector: str, topic: str, settings: Mapping[str, str] = NONE) -> None:
    """Returns when a new connector copies a new topic of its own, to `<topic>.<topic>`. `settings`: of the connector."""
    rig.create_source_topic(topic, PARTITIONS)
    side.put(connector, {**connector_config(rig.source, rig.target, topic, topic), **settings})
    side.wait_running(connector)
    send(rig.source, topic, PARTITIONS, Load(100, 0.0, 1.0, LATENCY_RECORD_BYTES))
    rig.wait_for_first_record(f"{topic}.{topic}", PARTITIONS, FIRST_RECORD_S)


def warm_up(rig: Rig, topic: str, rate: int, seconds: float) -> None:
    """Sends records that don't count."""
    send(rig.source, topic, PARTITIONS, Load(rate, seconds, 0.0, LATENCY_RECORD_BYTES))
    # What was sent to warm it up must be through.
    time.sleep(PROBE_WARM_UP_S)


def load_of(rate: int, durations: Durations) -> Load:
    """What one round sends."""
    return Load(rate, PROBE_WARM_UP_S, durations.latency / durations.latency_rounds, LATENCY_RECORD_BYTES)


def measure_round(rig: Rig, topic: str, load: Load, tree: ProcessTree, isolation: str = READ_COMMITTED) -> Round:
    """Of the connector that copies this topic alone; `isolation`: the level of the target's consumer."""
    remote = f"{topic}.{topic}"
    with (
        Receiver(rig.source, topic, PARTITIONS) as near,
        Receiver(rig.target, remote, PARTITIONS, isolation) as far,
    ):
        cpu, began = tree.cpu_seconds(), time.monotonic()
        send(rig.source, topic, PARTITIONS, load)
        used, seconds = tree.cpu_seconds() - cpu, time.monotonic() - began
        time.sleep(AFTER_LAST_S)
        found = pairs(near.arrivals(), far.arrivals())
    if not found:
        raise RuntimeError(f"none of {load.measured:,} records came to {remote}")
    return Round(found, used, seconds)


def _delay(name: str, rate: int, rounds: Sequence[Round], durations: Durations, busy: int) -> Delay:
    return Delay(
        side=name,
        rate=rate,
        sent=load_of(rate, durations).measured * len(rounds),
        lateness=lateness([pair for each in rounds for pair in each.pairs]),
        rounds=[lateness(each.pairs) for each in rounds],
        cpu_percent=100 * sum(each.cpu for each in rounds) / sum(each.seconds for each in rounds),
        busy=busy,
    )


def _line(delay: Delay) -> str:
    late = delay.lateness
    return (
        f"{LABELS[delay.side]} at {delay.rate:,}/s: a record is {late.over_p50:+.1f} ms (p50), {late.over_p99:+.1f} ms"
        f" (p99) later than at a consumer of the source; {late.received:,} of {delay.sent:,} records,"
        f" {delay.cpu_percent:.0f} % CPU"
    )
