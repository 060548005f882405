"""Tables and aims of what exactly-once costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any, Final

from benchmarks.findings import STEADY, Aim, Table
from benchmarks.plan import AIM_OF_PLAIN, OFF, words_of
from benchmarks.sides import LABELS, OURS

# Of a figure that counts: how long a setting copies at least in all rounds together.
LEAST_S: Final = 10.0


def label(side: str, setting: str) -> str:
    """For the reader; the setting as results have it."""
    return f"{LABELS[side]}, {words_of(setting)}"


def findings_of_copying(figures: Mapping[str, Any]) -> tuple[Table, list[Aim]]:
    """A row for each setting of each profile. The aims are ratios to the same side without exactly-once."""
    rows: list[tuple[str, ...]] = []
    aims: list[Aim] = []
    for each in figures["copying"]:
        plain = _plain(figures["copying"], each)
        rows.append(
            (
                f"{each['label']}: {label(each['side'], each['setting'])}",
                f"{each['records']:,}",
                f"{each['seconds']:.0f}",
                f"{each['records_per_second']:,.0f}{_of_plain(each, plain, 'by_round_per_second')}",
                f"{each['records_per_cpu_second']:,.0f}{_of_plain(each, plain, 'by_round')}",
                f"{each['target_broker_cpu'] / each['records'] * 1e6:.2f}",
            )
        )
        if each["side"] == OURS and plain is not None and interval_ms(each["setting"]) >= 1000:
            aims += _aims(each, plain)
    head = (
        "",
        "records",
        "s",
        "records/s (of without)",
        "records/CPU s (of without)",
        "target broker's µs CPU/record",
    )
    return Table(head, rows), aims


def _aims(each: Mapping[str, Any], plain: Mapping[str, Any]) -> Iterator[Aim]:
    for what, name in (("records per second", "by_round_per_second"), ("records per CPU second", "by_round")):
        ratio = _ratio(each, plain, name)
        fair = all(one["seconds"] >= LEAST_S and max(one[name]) <= STEADY * min(one[name]) for one in (each, plain))
        yield Aim(
            f"{each['label']}, {words_of(each['setting'])}: {what}",
            f"{ratio:.0%} of without",
            f"≥ {AIM_OF_PLAIN:.0%}",
            ratio >= AIM_OF_PLAIN if fair else None,
        )


def interval_ms(setting: str) -> int:
    """Of a setting as results have it; 0 where there is none."""
    return int(setting.partition("-")[2] or 0)


def _plain(figures: Sequence[Mapping[str, Any]], each: Mapping[str, Any]) -> Mapping[str, Any] | None:
    same = ((one["side"], one["profile"], one["setting"]) for one in figures)
    wanted = (each["side"], each["profile"], OFF)
    return next((one for one, told in zip(figures, same, strict=True) if told == wanted), None)


def _ratio(each: Mapping[str, Any], plain: Mapping[str, Any], name: str) -> float:
    """Of the rounds' medians."""
    return float(median(each[name]) / median(plain[name]))


def _of_plain(each: Mapping[str, Any], plain: Mapping[str, Any] | None, name: str) -> str:
    """The ratio to the same side without exactly-once, with the least and the most of one round."""
    if plain is None or each is plain:
        return ""
    ratios = [one / other for one, other in zip(each[name], plain[name], strict=True)]
    return f" ({_ratio(each, plain, name):.0%}: {min(ratios):.0%} to {max(ratios):.0%})"


def findings_of_latency(figures: Mapping[str, Any]) -> tuple[Table, list[Aim]]:
    """A row for each setting at each rate; there is no aim, as the boundary is the user's choice."""
    rows = []
    for each in figures["latency"]:
        over = (
            f"{each[name]:+.1f} ({min(one[name] for one in each['rounds']):+.1f}"
            f" to {max(one[name] for one in each['rounds']):+.1f})"
            for name in ("over_p50", "over_p99")
        )
        rows.append(
            (
                f"{each['rate']:,} records/s: {label(each['side'], each['setting'])}",
                each["isolation"],
                f"{each['p50']:.1f}",
                f"{each['p99']:.1f}",
                *over,
                f"{each['received']:,} of {each['sent']:,}",
                f"{each['cpu_percent']:.0f}",
            )
        )
    head = ("", "consumer", "p50", "p99", "over p50", "over p99", "records", "CPU %")
    return Table(head, rows), []
