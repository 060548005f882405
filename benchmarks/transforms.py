"""What Kafka's transformations of bytes cost: beside the re-encoding that the task does without any of them.

A source topic with LogAppendTime makes the task write each record again. So that is the floor, and what is above it is the
transformation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Final

from benchmarks.console import Console
from benchmarks.figures import Span, together
from benchmarks.findings import STEADY, Aim, Table
from benchmarks.payload import MARK
from benchmarks.plan import AIM_TRANSFORMS, TRANSFORMS, Durations
from benchmarks.rig import Rig
from benchmarks.sides import NONE, OURS, open_side
from benchmarks.throughput import Copier, prepare, rounds_of

RE_ENCODED: Final = "re-encoding alone"
_KAFKAS: Final = "org.apache.kafka.connect.transforms."
# Every other record has the header `MARK`. The Filter keeps all records, so all of them are written.
SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    RE_ENCODED: NONE,
    "InsertHeader": {
        "transforms": "origin",
        "transforms.origin.type": f"{_KAFKAS}InsertHeader",
        "transforms.origin.header": "origin",
        "transforms.origin.value.literal": "private",
    },
    "DropHeaders": {
        "transforms": "internal",
        "transforms.internal.type": f"{_KAFKAS}DropHeaders",
        "transforms.internal.headers": MARK,
    },
    "Filter with HasHeaderKey": {
        "transforms": "secret",
        "transforms.secret.type": f"{_KAFKAS}Filter",
        "transforms.secret.predicate": "secret",
        "predicates": "secret",
        "predicates.secret.type": f"{_KAFKAS}predicates.HasHeaderKey",
        "predicates.secret.name": "secret",
    },
}
COPY_S: Final = 8.0
ROUNDS: Final = 4


@dataclass(frozen=True, slots=True)
class Transformed:
    """What a record costs with one transformation. `by_round`: times what re-encoding alone costs in the same round."""

    transformation: str
    rounds: int
    by_round: list[float]
    records: int
    seconds: float
    records_per_second: float
    microseconds_per_record: float
    records_per_cpu_second: float


def measure(durations: Durations, console: Console, sides: Sequence[str] = (OURS,)) -> dict[str, Any]:
    """The same worker with each of `SETTINGS`, in turns. `sides` is not used."""
    del sides
    quick = durations.rounds < ROUNDS
    rounds = 1 if quick else ROUNDS
    seconds = 4.0 if quick else COPY_S
    with Rig() as rig, open_side(OURS, rig.target) as side:
        # A copier divides its seconds by the rounds.
        timed = durations.copying(seconds, durations.warm_up / 2)
        copier = Copier(prepare(rig, TRANSFORMS, timed, console), side)
        spans = rounds_of(tuple(SETTINGS), rounds, lambda name: copier.turn(SETTINGS[name]), copier, console)
    return {"cost": [asdict(_transformed(name, spans)) for name in SETTINGS]}


def _transformed(name: str, spans: Mapping[str, Sequence[Span]]) -> Transformed:
    whole = together(spans[name])
    return Transformed(
        transformation=name,
        rounds=len(spans[name]),
        by_round=[
            each.microseconds_per_record / alone.microseconds_per_record
            for each, alone in zip(spans[name], spans[RE_ENCODED], strict=True)
        ],
        records=whole.records,
        seconds=whole.seconds,
        records_per_second=whole.records_per_second,
        microseconds_per_record=whole.microseconds_per_record,
        records_per_cpu_second=whole.records_per_cpu_second,
    )


def findings(figures: Mapping[str, Any]) -> tuple[Table, list[Aim]]:
    """A row for each transformation; the aim is of its CPU per record against re-encoding alone."""
    rows, aims = [], []
    for each in figures["cost"]:
        by_round, alone = each["by_round"], each["transformation"] == RE_ENCODED
        times, spread = median(by_round), f"({min(by_round):.2f} to {max(by_round):.2f})"
        rows.append(
            (
                each["transformation"],
                f"{each['records']:,}",
                f"{each['records_per_second']:,.0f}",
                f"{each['microseconds_per_record']:.2f}",
                f"{each['records_per_cpu_second']:,.0f}",
                "" if alone else f"{times:.2f} × {spread}",
            )
        )
        if not alone:
            steady = max(by_round) <= STEADY * min(by_round)
            met = times <= AIM_TRANSFORMS
            what = f"{each['transformation']}: CPU per record against {RE_ENCODED}"
            wanted = f"≤ {AIM_TRANSFORMS:g} ×"
            aims.append(Aim(what, f"{times:.2f} × {spread}", wanted, met if steady or not met else None))
    head = ("", "records", "records/s", "µs CPU/record", "records/CPU s", f"against {RE_ENCODED}")
    return Table(head, rows), aims
