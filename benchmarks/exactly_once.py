"""What exactly-once costs: the same topic copied with transactions and without, and when consumers see its records.

Of each side two workers run all the while, one with exactly-once and one without. A connector is given its boundary of
transactions in each turn. So all settings of both sides are measured in one run, between the same brokers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Final

from benchmarks.console import Console
from benchmarks.exactly_once_findings import label
from benchmarks.figures import Span, together
from benchmarks.latency import Round, copy_alone, load_of, measure_round, warm_up
from benchmarks.latency_probe import READ_COMMITTED, READ_UNCOMMITTED
from benchmarks.pairing import lateness
from benchmarks.plan import OFF, POLL, PROFILES, Durations, Profile
from benchmarks.rig import Rig
from benchmarks.sides import MM2, NONE, OURS, open_side
from benchmarks.throughput import Copier, drop, line, prepare

RATES: Final = (100, 1_000)
_PROFILES: Final = ("1k",)
_ENABLED: Final = {"exactly.once.source.support": "enabled"}


@dataclass(frozen=True, slots=True)
class Setting:
    """Of one side: no exactly-once, or where its transactions end. `interval_ms`: 0 for `poll` and `off`."""

    side: str
    boundary: str
    interval_ms: int = 0

    @property
    def name(self) -> str:
        """Short, for topics and results."""
        return f"{self.boundary}-{self.interval_ms}" if self.interval_ms else self.boundary

    @property
    def worker(self) -> str:
        """What tells the groups of a side's two workers apart."""
        return "" if self.boundary == OFF else "-exactly-once"

    @property
    def properties(self) -> Mapping[str, str]:
        """Of the worker."""
        return NONE if self.boundary == OFF else _ENABLED

    @property
    def connector(self) -> dict[str, str]:
        """Settings of the connector."""
        if self.boundary == OFF:
            return {}
        interval = {"transaction.boundary.interval.ms": str(self.interval_ms)} if self.interval_ms else {}
        return {"transaction.boundary": self.boundary, **interval}

    @property
    def isolation(self) -> str:
        """Of the consumer whose records count."""
        return READ_UNCOMMITTED if self.boundary == OFF else READ_COMMITTED


SETTINGS: Final = (
    Setting(MM2, OFF),
    Setting(MM2, "interval", 1000),
    Setting(MM2, POLL),
    Setting(OURS, OFF),
    Setting(OURS, "interval", 1000),
    Setting(OURS, "interval", 100),
    Setting(OURS, POLL),
)


def measure(durations: Durations, console: Console, sides: Sequence[str] = (MM2, OURS)) -> dict[str, Any]:
    """Every setting of these sides: copying of each profile, then latency at each rate."""
    settings = [each for each in SETTINGS if each.side in sides]
    profiles = [profile for profile in PROFILES if profile.name in _PROFILES]
    copying = [row for profile in profiles for row in _copying(profile, settings, durations, console)]
    return {"copying": copying, "latency": _latency(settings, durations, console)}


def _copying(
    profile: Profile, settings: Sequence[Setting], durations: Durations, console: Console
) -> list[dict[str, Any]]:
    durations = replace(
        durations,
        warm_up=durations.transactions_warm_up,
        copy_java=durations.transactions_java,
        copy_product=durations.transactions_product,
        rounds=durations.transactions_rounds,
    )
    spans: dict[Setting, list[Span]] = {each: [] for each in settings}
    with Rig() as rig, ExitStack() as stack:
        work = prepare(rig, profile, durations, console)
        copiers: dict[tuple[str, str], Copier] = {}
        # Of the turn before: whoever had it has ended its writing by now.
        remotes: list[str] = []
        for each in settings:
            if (each.side, each.worker) not in copiers:
                side = open_side(each.side, rig.target, each.worker, properties=each.properties)
                copiers[each.side, each.worker] = Copier(work, stack.enter_context(side))
        for number in range(-durations.warm_rounds, durations.rounds):
            for each in settings if number % 2 == 0 else settings[::-1]:
                copier = copiers[each.side, each.worker]
                copied = copier.turn(each.connector)
                drop(rig, remotes)
                remotes = copier.remotes
                if number >= 0:
                    spans[each].append(copied)
                console.say(f"{label(each.side, each.name)}{'' if number >= 0 else ', warming up'}: {line(copied)}")
    return [_copied(profile, each, spans[each]) for each in settings]


def _copied(profile: Profile, setting: Setting, spans: Sequence[Span]) -> dict[str, Any]:
    whole = together(spans)
    return {
        "profile": profile.name,
        "label": profile.label,
        "side": setting.side,
        "setting": setting.name,
        "records": whole.records,
        "seconds": whole.seconds,
        "cpu_seconds": whole.cpu,
        "cpu_by_kind": {kind: round(seconds, 2) for kind, seconds in whole.cpu_by_kind.items() if seconds >= 0.005},
        "records_per_second": whole.records_per_second,
        "records_per_cpu_second": whole.records_per_cpu_second,
        "by_round": [each.records_per_cpu_second for each in spans],
        "by_round_per_second": [each.records_per_second for each in spans],
        "source_broker_cpu": whole.source_broker_cpu,
        "target_broker_cpu": whole.target_broker_cpu,
    }


def _latency(settings: Sequence[Setting], durations: Durations, console: Console) -> list[dict[str, Any]]:
    durations = replace(
        durations, latency=durations.transactions_latency, latency_rounds=durations.transactions_latency_rounds
    )
    found = []
    with Rig() as rig, ExitStack() as stack:
        workers = {}
        for each in settings:
            if (each.side, each.worker) not in workers:
                side = open_side(each.side, rig.target, each.worker, properties=each.properties)
                workers[each.side, each.worker] = stack.enter_context(side)
        topics = {each: f"{each.side}-{each.name}" for each in settings}
        for each in settings:
            copy_alone(rig, workers[each.side, each.worker], topics[each], topics[each], each.connector)
        trees = {each: workers[each.side, each.worker].tree() for each in settings}
        for rate in RATES:
            rounds: dict[Setting, list[Round]] = {each: [] for each in settings}
            for each in settings:
                warm_up(rig, topics[each], rate, durations.transactions_warm_up / 2)
            load = load_of(rate, durations)
            for number in range(durations.latency_rounds):
                for each in settings if number % 2 == 0 else settings[::-1]:
                    warm_up(rig, topics[each], rate, durations.warm_again / 2)
                    rounds[each].append(measure_round(rig, topics[each], load, trees[each], each.isolation))
            for each in settings:
                found.append(_delayed(each, rate, load.measured, rounds[each]))
                console.say(
                    f"{label(each.side, each.name)} at {rate:,}/s: {found[-1]['over_p50']:+.1f} ms (p50),"
                    f" {found[-1]['over_p99']:+.1f} ms (p99), {found[-1]['received']:,} of {found[-1]['sent']:,}"
                )
    return found


def _delayed(setting: Setting, rate: int, sent: int, rounds: Sequence[Round]) -> dict[str, Any]:
    return {
        "side": setting.side,
        "setting": setting.name,
        "isolation": setting.isolation,
        "rate": rate,
        "sent": sent * len(rounds),
        **lateness([pair for each in rounds for pair in each.pairs]).figures(),
        "rounds": [lateness(each.pairs).figures() for each in rounds],
        "cpu_percent": 100 * sum(each.cpu for each in rounds) / sum(each.seconds for each in rounds),
    }
