"""What SQL in flight costs: a filter, and a hash with the whole record written again, of JSON records; and how much later a
record is with a statement than without one, once it is warm and in its first seconds.

Only this product is measured: MirrorMaker 2 reads bytes, and no transformation of its sees a field in them. What it can do,
a Filter by a header, is the case `filter`.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from benchmarks.console import Console
from benchmarks.figures import Span, together
from benchmarks.findings import STEADY, Aim, Table
from benchmarks.latency import FIRST_RECORD_S
from benchmarks.latency_probe import AFTER_LAST_S, Load, Receiver, send
from benchmarks.pairing import Lateness, Pair, lateness, pairs
from benchmarks.plan import (
    AIM_FIRST_SECONDS_MS,
    AIM_STATEMENT_MS,
    AIM_STATEMENT_RECORDS,
    COMPUTE,
    LATENCY_RECORD_BYTES,
    PARTITIONS,
    Durations,
)
from benchmarks.rig import Rig
from benchmarks.sides import NONE, OURS, Side, connector_config, open_side
from benchmarks.throughput import Copier, prepare, rounds_of

FILTER: Final = "filter"
REWRITE: Final = "hash and rewrite"
_SCHEMA: Final = "id BIGINT, country STRING, email STRING, card STRING, note STRING"
STATEMENTS: Final[Mapping[str, Mapping[str, str]]] = {
    FILTER: {
        "spark.transform.sql": "SELECT * FROM records WHERE get_json_object(CAST(value AS STRING), '$.country') = 'EU'"
    },
    REWRITE: {
        "spark.transform.value.schema": _SCHEMA,
        "spark.transform.secret.pepper": "0123456789abcdef0123456789abcdef",
        "spark.transform.sql": (
            "SELECT named_struct('id', value.id, 'country', value.country,"
            " 'email', sha2(concat(secrets.pepper, value.email), 256),"
            " 'card', concat(repeat('*', length(value.card) - 4), right(value.card, 4)), 'note', value.note) AS value"
            " FROM records"
        ),
    },
}
# Which part of the records arrives.
SHARES: Final = {FILTER: 0.5, REWRITE: 1.0}
COPY_S: Final = 9.0
ROUNDS: Final = 3
# Bytes, and none of JSON: it is the way through Spark that is measured.
PROBED: Final = {"spark.transform.sql": "SELECT * FROM records WHERE length(value) > 0"}
WARM: Final = "warm"
FIRST_SECONDS: Final = "first seconds"
FIRST_S: Final = 5.0
RATES: Final = (100, 1_000, 2_000)
LATENCY_ROUNDS: Final = 2
# Of the warm-up before all of it, and once more with the statement: until brokers and JVMs have compiled what records need.
# Without it their compilers take the two processors from tasks (measured: p99 +48 to +108 ms at 100 records/s).
WARM_UPS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Computed:
    """What a record of the source costs with one statement. `by_round`: records per CPU second of each round."""

    statement: str
    rounds: int
    by_round: list[float]
    records: int
    seconds: float
    records_per_second: float
    microseconds_per_record: float
    records_per_cpu_second: float
    cpu_by_kind: dict[str, float]


@dataclass(frozen=True, slots=True)
class Later:
    """How much later records are at the target of a connector with a statement than at that of one without, in ms."""

    moment: str
    rate: int
    sent: int
    lateness: Lateness
    rounds: list[Lateness]

    def figures(self) -> dict[str, Any]:
        """By name, as results have them."""
        named = {"moment": self.moment, "rate": self.rate, "sent": self.sent, **self.lateness.figures()}
        return {**named, "rounds": [each.figures() for each in self.rounds]}


def measure(durations: Durations, console: Console, sides: Sequence[str] = (OURS,)) -> dict[str, Any]:
    """Cost, then lateness. `sides` is not used."""
    del sides
    found: dict[str, Any] = {}
    with Rig() as rig, open_side(OURS, rig.target) as side:
        found["cost"] = [asdict(each) for each in _costs(rig, side, durations, console)]
    with Rig() as rig, open_side(OURS, rig.target) as side:
        found["latency"] = [each.figures() for each in _latency(rig, side, durations, console)]
    return found


def _costs(rig: Rig, side: Side, durations: Durations, console: Console) -> list[Computed]:
    quick = durations.rounds < ROUNDS
    rounds = 1 if quick else ROUNDS
    seconds = 4.0 if quick else COPY_S
    work = prepare(rig, COMPUTE, durations.copying(seconds, durations.warm_up / 2), console)
    copier = Copier(work, side)

    def turn(name: str) -> Span:
        return _of_source(copier.turn(STATEMENTS[name], SHARES[name]), SHARES[name])

    spans = rounds_of(tuple(STATEMENTS), rounds, turn, copier, console)
    return [_computed(name, spans[name]) for name in STATEMENTS]


def _of_source(copied: Span, share: float) -> Span:
    """The same, but of the records that were read."""
    return replace(copied, records=round(copied.records / share))


def _computed(name: str, spans: Sequence[Span]) -> Computed:
    whole = together(spans)
    return Computed(
        statement=name,
        rounds=len(spans),
        by_round=[each.records_per_cpu_second for each in spans],
        records=whole.records,
        seconds=whole.seconds,
        records_per_second=whole.records_per_second,
        microseconds_per_record=whole.microseconds_per_record,
        records_per_cpu_second=whole.records_per_cpu_second,
        cpu_by_kind={kind: round(used, 2) for kind, used in whole.cpu_by_kind.items() if used >= 0.005},
    )


def _latency(rig: Rig, side: Side, durations: Durations, console: Console) -> list[Later]:
    """Two connectors copy one topic to two, one of them with a statement.

    Brokers are warm from the start, and the statement after its first seconds: each by a minute of the highest rate.
    """
    topic = "timed"
    rig.create_source_topic(topic, PARTITIONS)
    remotes = {name: f"{name}.{topic}" for name in ("fused", "computed")}
    # The consumers are there before the first record.
    for remote in remotes.values():
        rig.target.create_topic(remote, PARTITIONS)
    _put(rig, side, "fused", topic, NONE)
    send(rig.source, topic, PARTITIONS, Load(RATES[0], 5.0, 1.0, LATENCY_RECORD_BYTES))
    rig.wait_for_first_record(remotes["fused"], PARTITIONS, FIRST_RECORD_S)
    warm_up = Load(max(RATES), WARM_UPS * durations.warm_up, 0.0, LATENCY_RECORD_BYTES)
    send(rig.source, topic, PARTITIONS, warm_up)
    # Without what was sent to warm up: the first seconds would be those of a backlog.
    _put(rig, side, "computed", topic, {**PROBED, "source.consumer.auto.offset.reset": "latest"})
    rounds: dict[tuple[str, int], list[list[Pair]]] = defaultdict(list)
    # Spark has just begun this query, and its JVM has seen no record yet.
    rounds[FIRST_SECONDS, RATES[0]].append(
        _round(rig, topic, remotes, Load(RATES[0], 0.0, FIRST_S, LATENCY_RECORD_BYTES))
    )
    send(rig.source, topic, PARTITIONS, warm_up)
    for rate in RATES:
        send(rig.source, topic, PARTITIONS, Load(rate, durations.warm_again, 0.0, LATENCY_RECORD_BYTES))
        seconds = durations.latency / durations.latency_rounds
        for _ in range(LATENCY_ROUNDS):
            rounds[WARM, rate].append(_round(rig, topic, remotes, Load(rate, 1.0, seconds, LATENCY_RECORD_BYTES)))
    sent = {FIRST_SECONDS: FIRST_S, WARM: LATENCY_ROUNDS * durations.latency / durations.latency_rounds}
    found = []
    for (moment, rate), some in rounds.items():
        whole = lateness([pair for each in some for pair in each])
        found.append(Later(moment, rate, round(rate * sent[moment]), whole, [lateness(each) for each in some]))
        console.say(
            f"{moment}, {rate:,} records/s: {whole.over_p50:+.1f} ms (p50), {whole.over_p99:+.1f} ms (p99) later"
            f" than {whole.floor_p50:.1f} and {whole.floor_p99:.1f} ms without a statement"
        )
    return found


def _put(rig: Rig, side: Side, name: str, topic: str, settings: Mapping[str, str]) -> None:
    side.put(name, {**connector_config(rig.source, rig.target, name, topic), **settings})
    side.wait_running(name)


def _round(rig: Rig, topic: str, remotes: Mapping[str, str], load: Load) -> list[Pair]:
    """Each record's two arrivals: without the statement, and with it."""
    with (
        Receiver(rig.target, remotes["fused"], PARTITIONS) as near,
        Receiver(rig.target, remotes["computed"], PARTITIONS) as far,
    ):
        send(rig.source, topic, PARTITIONS, load)
        time.sleep(AFTER_LAST_S)
        found = pairs(near.arrivals(), far.arrivals())
    if not found:
        raise RuntimeError(f"none of {load.measured:,} records came to both of {', '.join(remotes.values())}")
    return found


def findings_of_cost(figures: Mapping[str, Any]) -> tuple[Table, list[Aim]]:
    """A row for each statement; the aims are of records per CPU second."""
    rows, aims = [], []
    for each in figures["cost"]:
        by_round = each["by_round"]
        rows.append(
            (
                each["statement"],
                f"{each['records']:,}",
                f"{each['records_per_second']:,.0f}",
                f"{each['microseconds_per_record']:.2f}",
                f"{each['records_per_cpu_second']:,.0f} ({min(by_round):,.0f} to {max(by_round):,.0f})",
                ", ".join(f"{kind} {used:.1f}" for kind, used in sorted(each["cpu_by_kind"].items())),
            )
        )
        if (least := AIM_STATEMENT_RECORDS.get(each["statement"])) is not None:
            steady = max(by_round) <= STEADY * min(by_round)
            met = each["records_per_cpu_second"] >= least
            aims.append(
                Aim(
                    f"SQL, {each['statement']}: records per CPU second",
                    f"{each['records_per_cpu_second']:,.0f}",
                    f"≥ {least:,}",
                    met if steady or not met else None,
                )
            )
    head = ("", "records", "records/s", "µs CPU/record", "records/CPU s", "CPU s by process")
    return Table(head, rows), aims


def findings_of_latency(figures: Mapping[str, Any]) -> tuple[Table, list[Aim]]:
    """A row for each moment and rate."""
    rows, aims = [], []
    for each in figures["latency"]:
        rows.append(
            (
                f"{each['moment']}, {each['rate']:,} records/s",
                *(f"{each[name]:+.1f}" for name in ("over_p50", "over_p99", "over_p999")),
                f"{each['floor_p50']:.1f} / {each['floor_p99']:.1f}",
                f"{each['received']:,} of {each['sent']:,}",
            )
        )
        most = AIM_FIRST_SECONDS_MS if each["moment"] == FIRST_SECONDS else AIM_STATEMENT_MS
        late = each["over_p99"]
        met = False if late > most else True if each["received"] >= each["sent"] else None
        what = f"SQL, {each['moment']}, {each['rate']:,} records/s: p99 over copying without a statement"
        aims.append(Aim(what, f"{late:+.1f} ms", f"≤ {most:g} ms", met))
    head = ("", "over p50", "over p99", "over p99.9", "without a statement: p50 / p99", "records")
    return Table(head, rows), aims
