"""Both sides beside each other, in one table: what mirror-connect is better at and what it costs, everything that was
measured of both, none of it chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.findings import UNPAIRED, latency_case, over
from benchmarks.plan import words_of
from benchmarks.sides import MM2, OURS


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of both sides, in `unit`, printed by the format `form`; `more`: a larger one is better."""

    what: str
    ours: float
    other: float
    unit: str
    form: str
    more: bool = False

    @property
    def better(self) -> bool | None:
        """Of mirror-connect; None where both figures look the same."""
        if self.said(self.ours) == self.said(self.other):
            return None
        return (self.ours > self.other) == self.more

    @property
    def verdict(self) -> str:
        """For the reader."""
        return {True: "better", False: "worse", None: "equal"}[self.better]

    def said(self, figure: float) -> str:
        """A figure with its unit."""
        return f"{figure:{self.form}} {self.unit}".rstrip()


def rows(figures: Any) -> list[Row]:
    """Of one part's figures, whichever part it is; none where only one side was measured."""
    if isinstance(figures, Mapping):
        # Of the part `memory`, the slow target is measured on one side only.
        if "idle" in figures:
            return list(_idle(figures["idle"]))
        # A case of this product alone compares nothing.
        return list(_exactly_once(figures)) if "copying" in figures else []
    # Without a side it is a case of this product alone, too.
    if not figures or "side" not in figures[0]:
        return []
    first = figures[0]
    # Each part is known by a member that only its figures have.
    for member, found in (
        ("records_per_cpu_second", _throughput),
        ("rate", _latency),
        ("rest", _startup),
        ("first_record", _dedicated_start),
        ("three_mb", _light_connectors),
        ("answered", _many_connectors),
        ("repeated_worst", _failover),
        ("copying", _many_topics),
    ):
        if member in first:
            return list(found(figures))
    return []


def _both(figures: Sequence[Mapping[str, Any]], *same: str) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Ours and MirrorMaker 2's of the same `same`, in the order of ours."""
    for ours in figures:
        if ours["side"] == OURS:
            for other in figures:
                if other["side"] == MM2 and all(ours[name] == other[name] for name in same):
                    yield ours, other


def _throughput(figures: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    for ours, other in _both(figures, "profile"):
        name = "records_per_cpu_second"
        yield Row(f"{ours['label']}: records per CPU second", ours[name], other[name], "", ",.0f", more=True)


def _latency(figures: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    for ours, other in _both(figures, "rate"):
        what = latency_case(ours)
        for name in ("p50", "p99"):
            mine, theirs = over(ours, name), over(other, name)
            note = "" if mine[1] and theirs[1] else f" ({UNPAIRED})"
            yield Row(f"{what}: {name} over consuming directly{note}", mine[0], theirs[0], "ms", "+.1f")
        yield Row(f"{what}: CPU", ours["cpu_percent"], other["cpu_percent"], "% of a core", ".0f")


def _idle(figures: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    for ours, other in _both(figures):
        yield Row("Idle, one connector of two tasks: memory (PSS)", ours["total_mb"], other["total_mb"], "MB", ".0f")
        yield Row(
            "Idle, one connector of two tasks: CPU", ours["cpu_percent"], other["cpu_percent"], "% of a core", ".1f"
        )


def _exactly_once(figures: Mapping[str, Any]) -> Iterator[Row]:
    for ours, other in _both(figures["copying"], "profile", "setting"):
        name = "records_per_cpu_second"
        what = f"{ours['label']}, {words_of(ours['setting'])}: records per CPU second"
        yield Row(what, ours[name], other[name], "", ",.0f", more=True)
    for ours, other in _both(figures["latency"], "rate", "setting"):
        for name in ("p50", "p99"):
            what = f"{ours['rate']:,} records/s, {words_of(ours['setting'])}: {name} over consuming directly"
            yield Row(what, ours[f"over_{name}"], other[f"over_{name}"], "ms", "+.1f")


def _light_connectors(figures: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    for ours, other in _both(figures):
        for name, what in (("three", "Three light connectors"), ("all", f"{3 + ours['connectors']} light connectors")):
            yield Row(f"{what}: memory (PSS)", ours[f"{name}_mb"], other[f"{name}_mb"], "MB", ".0f")
            yield Row(f"{what}: CPU", ours[f"{name}_cpu"], other[f"{name}_cpu"], "% of a core", ".1f")


def _startup(figures: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    for ours, other in _both(figures):
        for name, what in (
            ("rest", "From process start to the first answer of REST"),
            ("first_record", "From process start to the first record"),
            ("again", "From process start to the first record, restarted"),
        ):
            yield Row(what, ours[name], other[name], "s", ".1f")
        if "put" in ours and "put" in other:
            yield Row("From a PUT, when the worker is up, to the first record", ours["put"], other["put"], "s", ".1f")


def _dedicated_start(figures: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    for ours, other in _both(figures):
        for name, what in (("first_record", "first record"), ("again", "first record, restarted")):
            yield Row(f"Dedicated mode, from process start to the {what}", ours[name], other[name], "s", ".1f")


def _many_connectors(figures: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    for ours, other in _both(figures, "state"):
        what = f"From process start until all of {ours['connectors']} connectors {ours['state']} are told of"
        yield Row(what, ours["answered"], other["answered"], "s", ".1f")
        yield Row(
            f"{ours['connectors']} connectors {ours['state']} created", ours["created"], other["created"], "s", ".1f"
        )


def _failover(figures: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    for ours, other in _both(figures, "moment"):
        what = f"A group that moves, {ours['moment']}: reads again"
        yield Row(f"{what} (median)", ours["repeated_median"], other["repeated_median"], "records", ",.0f")
        yield Row(f"{what} (worst)", ours["repeated_worst"], other["repeated_worst"], "records", ",.0f")


def _many_topics(figures: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    for ours, other in _both(figures, "topics"):
        for name, what in (
            ("created", "all remote topics created"),
            ("all_copied", "all records copied"),
            ("refresh", "a new topic"),
            ("configs", "a changed config"),
            ("checkpoints", "all checkpoints"),
        ):
            # One that gave up has no figure.
            if "gave_up" not in ours and "gave_up" not in other:
                yield Row(f"{ours['topics']:,} topics: {what}", ours[name], other[name], "s", ".1f")
        for moment in ours["copying"]:
            for same in (each for each in other["copying"] if each["when"] == moment["when"]):
                for name in ("p50", "p99"):
                    mine, theirs = over(moment, name), over(same, name)
                    note = "" if mine[1] and theirs[1] else f" ({UNPAIRED})"
                    what = f"Copying beside {ours['topics']:,} topics, {moment['when']}"
                    yield Row(f"{what}: {name} over consuming directly{note}", mine[0], theirs[0], "ms", "+.1f")
