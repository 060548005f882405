"""Figures beside their aims: rows for the console and for RESULTS.md alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.plan import (
    AIM_ALL_CONNECTORS_S,
    AIM_BESIDE_MANY_MS,
    AIM_CHECKPOINTS_S,
    AIM_IDLE_MB,
    AIM_OVER_MS,
    AIM_OVER_RATIO,
    AIM_PUT_S,
    AIM_REFRESH_S,
    AIM_REST_S,
    AIM_THROTTLED_MB,
    AIM_WORKER_MB,
    PROFILES,
)
from benchmarks.sides import LABELS, MM2, OURS

# Figures of before records were paired; see `over`.
UNPAIRED: Final = "unpaired"
# How many times the worst round the best one of a side may be.
STEADY: Final = 1.5


@dataclass(frozen=True, slots=True)
class Aim:
    """One promise: what was measured, what is wanted, and whether it holds; None: it was not measured as it must be.

    `doubt`: why it does not count, if that is nothing to be seen in the figures.
    """

    what: str
    measured: str
    wanted: str
    met: bool | None
    doubt: str = ""

    @property
    def verdict(self) -> str:
        """For the reader."""
        uncounted = f"does not count: {self.doubt}" if self.doubt else "does not count"
        return {True: "met", False: "MISSED", None: uncounted}[self.met]


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as text; the first column names the row."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def throughput(figures: Sequence[Mapping[str, Any]]) -> tuple[Table, list[Aim]]:
    """A row for each side of each profile; the aims are ratios within one profile."""
    rows, aims = [], []
    for profile in PROFILES:
        by_side = {each["side"]: each for each in figures if each["profile"] == profile.name}
        for side, each in by_side.items():
            rows.append(
                (
                    f"{profile.label}: {LABELS[side]}",
                    f"{each['records']:,}",
                    f"{each['seconds']:.0f}",
                    f"{each['records_per_second']:,.0f}",
                    f"{each['cpu_seconds']:.1f}",
                    f"{each['microseconds_per_record']:.2f}",
                    f"{each['records_per_cpu_second']:,.0f}{_spread(each.get('by_round', ()), ',.0f')}",
                    f"{each['source_broker_cpu']:.1f} + {each['target_broker_cpu']:.1f}",
                )
            )
        if OURS not in by_side:
            continue
        for other, least in profile.least.items():
            if other in by_side:
                ratio = by_side[OURS]["records_per_cpu_second"] / by_side[other]["records_per_cpu_second"]
                fair = all(by_side[side]["long_enough"] and _steady(by_side[side]) for side in (OURS, other))
                aims.append(
                    Aim(
                        f"{profile.label}: records per CPU second against {LABELS[other]}",
                        f"{ratio:.1f} ×{_spread(_ratios(by_side[OURS], by_side[other]), '.1f')}",
                        f"≥ {least:g} ×",
                        ratio >= least if fair else None,
                    )
                )
    head = (
        "",
        "records",
        "s",
        "records/s",
        "CPU s",
        "µs CPU/record",
        "records/CPU s",
        "brokers' CPU s (source + target)",
    )
    return Table(head, rows), aims


def latency(figures: Sequence[Mapping[str, Any]]) -> tuple[Table, list[Aim]]:
    """A row for each side at each rate; the floor is measured beside each.

    On a saturated machine the aims are those beside the other side alone: milliseconds are what the scheduler gives.
    """
    rows: list[tuple[str, ...]] = []
    aims: list[Aim] = []
    for each in figures:
        rows.append(
            (
                f"{latency_case(each)}: {LABELS[each['side']]}",
                *_lateness(each),
                f"{each['cpu_percent']:.0f}",
            )
        )
        if each["side"] == OURS:
            what = latency_case(each)
            if not each.get("busy"):
                aims += _not_late(each, what, AIM_OVER_MS)
            for other in (other for other in figures if other["side"] == MM2 and other["rate"] == each["rate"]):
                aims += _less_late(each, other, what)
    return Table((*_LATENESS, "CPU %"), rows), aims


def latency_case(each: Mapping[str, Any]) -> str:
    """Its rate, and whether others had work for all processors."""
    return f"{each['rate']:,} records/s{' on a saturated machine' if each.get('busy') else ''}"


def _spread(values: Sequence[float], form: str) -> str:
    """The least and the most of one round, to stand behind the figure of all; nothing where there were no rounds."""
    return f" ({min(values):{form}} to {max(values):{form}})" if values else ""


def _steady(each: Mapping[str, Any]) -> bool:
    """Whether a side's rounds are alike: one that still warms up, or that others held up, has not been measured."""
    rounds = each.get("by_round", ())
    return not rounds or max(rounds) <= STEADY * min(rounds)


def _ratios(ours: Mapping[str, Any], other: Mapping[str, Any]) -> list[float]:
    """Of each round, whose turns followed each other, how many times as many records per CPU second."""
    return [one / another for one, another in zip(ours.get("by_round", ()), other.get("by_round", ()), strict=False)]


_LATENESS: Final = ("", "floor p50", "p50", "floor p99", "p99", "over p50", "over p99", "over p99.9", "records")
_PERCENTILE: Final = {"p50": "p50", "p99": "p99", "p999": "p99.9"}


def _lateness(each: Mapping[str, Any]) -> Iterator[str]:
    """The cells of `_LATENESS`; where there were rounds, the least and the most of a round behind the figure of all."""
    yield from (f"{each[name]:.1f}" for name in ("floor_p50", "p50", "floor_p99", "p99"))
    for name in _PERCENTILE:
        if name not in each and f"over_{name}" not in each:
            yield "–"
            continue
        late, paired = over(each, name)
        spread = _spread([one[f"over_{name}"] for one in each.get("rounds", ()) if f"over_{name}" in one], "+.1f")
        yield f"{late:+.1f}{spread}" if paired else f"{late:+.1f} {UNPAIRED}"
    yield f"{each['received']:,} of {each['sent']:,}"


def over(each: Mapping[str, Any], name: str) -> tuple[float, bool]:
    """How much later than at a consumer of the source, and whether that is of the same records.

    Parts of before records were paired have the difference of two percentiles only, which is the lateness of no record.
    """
    paired = each.get(f"over_{name}")
    return (each[name] - each[f"floor_{name}"], False) if paired is None else (paired, True)


def _not_late(each: Mapping[str, Any], what: str, aims: Mapping[str, float]) -> Iterator[Aim]:
    """The aims of one moment. A difference of percentiles may miss one, and does not meet one."""
    for name, most in aims.items():
        # Older figures have fewer percentiles.
        if name not in each and f"over_{name}" not in each:
            continue
        late, paired = over(each, name)
        whole = each["received"] >= each["sent"]
        met = False if late > most else True if whole and paired else None
        said = f"{late:+.1f} ms" if paired else f"{late:+.1f} ms, {UNPAIRED}"
        yield Aim(f"{what}: {_PERCENTILE[name]} over consuming directly", said, f"≤ {most:g} ms", met)


def _less_late(ours: Mapping[str, Any], other: Mapping[str, Any], what: str) -> Iterator[Aim]:
    """Beside the other side's lateness in the same run, which may be none at all."""
    for name, most in AIM_OVER_RATIO.items():
        (mine, mine_paired), (theirs, theirs_paired) = over(ours, name), over(other, name)
        if mine_paired and theirs_paired and theirs > 0:
            met = mine <= most * theirs if ours["received"] >= ours["sent"] else None
            measured = f"{mine / theirs:.2f} ×"
            label = f"{what}: {_PERCENTILE[name]} over consuming directly, beside that of {LABELS[other['side']]}"
            yield Aim(label, measured, f"≤ {most:.2g} ×", met)


def idle(figures: Mapping[str, Any]) -> tuple[Table, list[Aim]]:
    """A row for each kind of process and one for the sum, by side."""
    rows, aims = [], []
    for each in figures["idle"]:
        label = LABELS[each["side"]]
        rows += [(f"{label}: {kind}", f"{megabytes:.0f}", "") for kind, megabytes in sorted(each["by_kind"].items())]
        together = f"{each['total_mb']:.0f}{_spread(each.get('rounds', ()), '.0f')}"
        rows.append((f"{label}: together", together, f"{each['cpu_percent']:.1f}"))
        if each["side"] == OURS:
            measured, wanted = f"{each['total_mb']:.0f} MB", f"≤ {AIM_IDLE_MB:.0f} MB"
            aims.append(Aim("One connector, two idle tasks: PSS", measured, wanted, each["total_mb"] <= AIM_IDLE_MB))
    return Table(("", "PSS MB", "CPU %"), rows), aims


def throttled(figures: Mapping[str, Any]) -> tuple[Table, list[Aim]]:
    """The task process's peak, and that of everything."""
    rows, aims = [], []
    for each in figures["throttled"]:
        rows.append(
            (
                f"{each['source_bytes'] / 1e6:,.0f} MB, {each['partitions']} partitions, {each['seconds']:.0f} s",
                f"{each['bytes_per_second'] / 1e6:.1f}",
                f"{each['copied_bytes_per_second'] / 1e6:.1f}",
                f"{each['peak_task_mb']:.0f}",
                f"{each['peak_total_mb']:.0f}",
            )
        )
        measured, wanted = f"{each['peak_task_mb']:.0f} MB", f"< {AIM_THROTTLED_MB:.0f} MB"
        fair = each["seconds"] >= 60
        aims.append(
            Aim(
                "A task in front of a slow target: peak PSS",
                measured,
                wanted,
                each["peak_task_mb"] < AIM_THROTTLED_MB if fair else None,
            )
        )
    return Table(("", "target takes MB/s", "copied MB/s", "task's peak MB", "all processes' peak MB"), rows), aims


def startup(figures: Sequence[Mapping[str, Any]]) -> tuple[Table, list[Aim]]:
    """A row for each side."""
    rows, aims = [], []
    for each in figures:
        answers = (f"{each[name]:.2f} ({each[f'{name}_worst']:.2f})" for name in ("rest", "rest_again"))
        first, again = (
            f"{each[name]:.1f}" + (f" ({each[f'{name}_worst']:.1f})" if f"{name}_worst" in each else "")
            for name in ("first_record", "again")
        )
        put = f"{each['put']:.1f} ({each['put_worst']:.1f})" if "put" in each else "–"
        rows.append(
            (
                f"{LABELS[each['side']]} ({each['starts']} starts)",
                *answers,
                f"{each['accepted']:.1f}",
                first,
                again,
                put,
            )
        )
        if each["side"] == OURS:
            worst = max(each["rest_worst"], each["rest_again_worst"])
            said = f"{worst:.2f} s at worst"
            aims.append(Aim("REST answers after process start", said, f"≤ {AIM_REST_S:g} s", worst <= AIM_REST_S))
            aims += _first_records(each, [other for other in figures if other["side"] == MM2])
    head = (
        "s from process start to",
        "GET / → 200 (worst)",
        "the same, restarted",
        "connector accepted",
        "its first record",
        "first record, restarted",
        "from a later PUT to its first record",
    )
    return Table(head, rows), aims


def _first_records(ours: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> list[Aim]:
    aims = []
    for other in others:
        ratio = ours["first_record"] / other["first_record"]
        said = f"{ratio:.2f} × that of {LABELS[other['side']]}"
        aims.append(Aim("From process start to the first record", said, "≤ 1 ×", ratio <= 1))
    if "put" in ours:
        said = f"{ours['put']:.1f} s"
        aims.append(Aim("From a PUT to its first record", said, f"≤ {AIM_PUT_S:g} s", ours["put"] <= AIM_PUT_S))
    return aims


def many_connectors(figures: Sequence[Mapping[str, Any]]) -> tuple[Table, list[Aim]]:
    """A row for each side and state."""
    rows, aims = [], []
    for each in figures:
        label = f"{LABELS[each['side']]}, {each['connectors']} {each['state']} ({each['starts']} starts)"
        answered = f"{each['answered']:.2f} ({each['answered_worst']:.2f})"
        rows.append((label, f"{each['created']:.1f}", answered, f"{each['later_worst']:.2f}"))
        if each["side"] == OURS:
            worst = each["answered_worst"]
            aims.append(
                Aim(
                    f"{each['connectors']} connectors {each['state']}: the worker is up and has told of all",
                    f"{worst:.2f} s at worst",
                    f"≤ {AIM_ALL_CONNECTORS_S:g} s",
                    worst <= AIM_ALL_CONNECTORS_S,
                )
            )
    head = ("s", "to create all", "from process start to all told (worst)", "longest answer afterwards")
    return Table(head, rows), aims


def failover(figures: Sequence[Mapping[str, Any]]) -> tuple[Table, list[Aim]]:
    """A row for each side at each moment."""
    rows, aims = [], []
    for each in figures:
        rows.append(
            (
                f"{LABELS[each['side']]}, {each['moment']}",
                f"{each['repeated_median']:,.0f}",
                f"{each['repeated_worst']:,}",
                f"{each['records_per_partition']:,}",
                f"{each['skipped']:,}",
                f"{each['missing']} of {each['places']}",
            )
        )
        if each["side"] == OURS:
            worst, lost = each["repeated_worst"], each["skipped"] + each["missing"]
            said = f"{worst} at worst, {each['skipped']} skipped"
            aims.append(
                Aim(f"Records that a moved group reads again, {each['moment']}", said, "none", worst + lost == 0)
            )
    head = (
        "records",
        "read again, median",
        "worst",
        "of a partition's",
        "skipped, all groups",
        "places without a position",
    )
    return Table(head, rows), aims


def many_topics(figures: Sequence[Mapping[str, Any]]) -> tuple[Table, list[Aim]]:
    """A row for each side."""
    rows: list[tuple[str, ...]] = []
    aims = []
    for each in figures:
        label = f"{LABELS[each['side']]}, {each['topics']:,} topics, {each['groups']} groups"
        if "gave_up" in each:
            records = f" and {each['records']:,} of {each['all_records']:,} records" if "records" in each else ""
            said = f"given up with {each['created']:,} remote topics{records} ({each['gave_up']}). {_quoted(each)}"
            rows.append((label, said, *[""] * 6))
            continue
        memory = ", ".join(f"{kind} {megabytes:.0f}" for kind, megabytes in sorted(each["peak_mb"].items()))
        times = ("created", "all_copied", "refresh", "configs", "checkpoints", "checkpoints_worst")
        rows.append((label, *(f"{each[name]:.1f}" for name in times), memory))
        if each["side"] == OURS:
            what = f"{each['topics']:,} topics, {each['groups']} groups"
            refresh, checkpoints = max(each["created"], each["refresh"]), each["checkpoints_worst"]
            worker = each["peak_mb"].get("worker", 0.0)
            aims += [
                Aim(f"{what}: refresh", f"{refresh:.1f} s", f"≤ {AIM_REFRESH_S:g} s", refresh <= AIM_REFRESH_S),
                Aim(
                    f"{what}: a round of checkpoints",
                    f"{checkpoints:.1f} s at worst",
                    f"≤ {AIM_CHECKPOINTS_S:g} s",
                    checkpoints <= AIM_CHECKPOINTS_S,
                ),
                Aim(f"{what}: worker", f"{worker:.0f} MB", f"≤ {AIM_WORKER_MB:g} MB", 0 < worker <= AIM_WORKER_MB),
            ]
    head = (
        "s",
        "all remote topics created",
        "all records copied",
        "a new topic",
        "a changed config",
        "all checkpoints",
        "at worst",
        "peak MB of one process",
    )
    return Table(head, rows), aims


def _quoted(each: Mapping[str, Any]) -> str:
    """What a side that gave up said in its log."""
    if "said" not in each:
        return "Its log was not kept"
    lines = " · ".join(line.replace("|", "–").replace("`", "'") for line in each["said"])
    return f"Its log: `{lines}`" if lines else "Its log says nothing"


def copying_beside(figures: Sequence[Mapping[str, Any]]) -> tuple[Table, list[Aim]]:
    """A row for each moment of each side, and for each of this product an aim: none is chosen."""
    rows: list[tuple[str, ...]] = []
    aims: list[Aim] = []
    for each in figures:
        for moment in each["copying"]:
            rows.append((f"{LABELS[each['side']]}, {moment['when']}", *_lateness(moment)))
            if each["side"] == OURS:
                what = f"Copying beside {each['topics']:,} topics, {moment['when']}"
                aims += _not_late(moment, what, AIM_BESIDE_MANY_MS)
    return Table(_LATENESS, rows), aims
