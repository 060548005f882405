"""Copying over long distances: a broker that is near, 25 ms or 100 ms of round trip away, source or target; or a thin link.

Both brokers are behind a forwarder that delays every byte (deploy/local/far_link.py). It is no part of any side, and its
CPU isn't counted. Bandwidth is what the machine's loopback has, but for the thin link.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.console import Console
from benchmarks.feeder import Fed, feed
from benchmarks.figures import span
from benchmarks.findings import Aim, Table
from benchmarks.payload import batches
from benchmarks.plan import PROFILES, Durations
from benchmarks.rig import Rig
from benchmarks.sides import LABELS, MM2_TUNED, OURS, Side, config_of, connector_config, open_side
from benchmarks.throughput import REST_S, watch
from deploy.local.far_link import FarLink, behind_link

PARTITIONS: Final = (1, 8)
ROUND_TRIPS_MS: Final = (25, 100)
NEAR: Final = "near"
SOURCE: Final = "source"
TARGET: Final = "target"
# So many that no side reaches the end within its turn.
RECORDS: Final = 10_000_000
# A topic without records: whoever has no turn copies this one.
IDLE: Final = "idle"
# What does not count of each copying: its start, and the time in which a side may find out how far away a broker is.
SETTLE_S: Final = 1.0
FAR_SETTLE_S: Final = 5.0
AIM_RATE: Final = 3.0
AIM_CPU: Final = 5.0
AIM_AS_NEAR: Final = 1.2


class Place(NamedTuple):
    """`far`: NEAR, or which cluster is that far away; `partitions`: of the topic.

    `bytes_per_second`: what its link carries; 0: what the machine does.
    """

    far: str
    round_trip_ms: int
    partitions: int
    bytes_per_second: int = 0

    def __str__(self) -> str:
        distance = NEAR if self.far == NEAR else f"{self.far} {self.round_trip_ms} ms away"
        if self.bytes_per_second:
            distance += f" behind {self.bytes_per_second / 1e6:g} MB/s"
        return f"{distance}, {self.partitions} partition{'s' if self.partitions > 1 else ''}"


THIN_BYTES_PER_SECOND: Final = 10_000_000
PLACES: Final = (
    *(
        Place(far, milliseconds, partitions)
        for partitions in PARTITIONS
        for far, milliseconds in ((NEAR, 0), *itertools.product((TARGET, SOURCE), ROUND_TRIPS_MS))
    ),
    *(Place(far, ROUND_TRIPS_MS[0], PARTITIONS[-1], THIN_BYTES_PER_SECOND) for far in (TARGET, SOURCE)),
)
WARM_UP: Final = Place(NEAR, 0, PARTITIONS[-1])


@dataclass(frozen=True, slots=True)
class Copied:
    """One side's figures at one distance."""

    side: str
    far: str
    round_trip_ms: int
    partitions: int
    link_bytes_per_second: int
    records: int
    seconds: float
    records_per_second: float
    bytes_per_second: float
    cpu_seconds: float
    microseconds_per_record: float


def measure(
    durations: Durations, console: Console, sides: Sequence[str] = (MM2_TUNED, OURS), other: Path | None = None
) -> list[dict[str, Any]]:
    """Every side at every distance, with few and with many partitions. `other`: the checkout of the side BEFORE."""
    found: list[Copied] = []
    rig = Rig()
    with ExitStack() as stack:
        links = {
            name: stack.enter_context(behind_link(cluster))
            for name, cluster in ((SOURCE, rig.source), (TARGET, rig.target))
        }
        stack.enter_context(rig)
        fed = _fill(rig, console, durations)
        opened = {name: stack.enter_context(open_side(name, rig.target, other=other)) for name in sides}
        for name, side in opened.items():
            console.say(f"{LABELS[name]}: warming up for {durations.warm_up:g} s")
            _turn(rig, side, fed[WARM_UP.partitions], WARM_UP, f"{name}-0", seconds=durations.warm_up)
        for number, place in enumerate(PLACES, 1):
            with _away(links, place):
                for name, side in opened.items():
                    alias = f"{name}-{number}"
                    found.append(_turn(rig, side, fed[place.partitions], place, alias, seconds=durations.far))
                    console.say(_line(found[-1]))
    return [asdict(each) for each in found]


def _topic(partitions: int) -> str:
    return f"far-{partitions}"


def _fill(rig: Rig, console: Console, durations: Durations) -> dict[int, Fed]:
    profile = PROFILES[0]
    pool = batches(profile)
    fed = {}
    rig.create_source_topic(IDLE, 1)
    for partitions in PARTITIONS:
        rig.create_source_topic(_topic(partitions), partitions)
        records = int(RECORDS * durations.data_share)
        fed[partitions] = feed(rig.source.bootstrap_servers, _topic(partitions), partitions, pool, records)
    console.say(f"{fed[PARTITIONS[0]].records:,} records in each topic")
    return fed


@contextmanager
def _away(links: Mapping[str, FarLink], place: Place) -> Iterator[None]:
    """One of the clusters is that far away meanwhile."""
    if place.far == NEAR:
        yield
        return
    link = links[place.far]
    link.one_way_s, link.bytes_per_second = place.round_trip_ms / 2000, place.bytes_per_second
    try:
        yield
    finally:
        link.one_way_s, link.bytes_per_second = 0.0, 0


def _turn(rig: Rig, side: Side, fed: Fed, place: Place, alias: str, *, seconds: float) -> Copied:
    """The same connector in the same processes; another alias is another remote topic and no position yet."""
    topic = _topic(place.partitions)
    remote = f"{alias}.{topic}"
    config = config_of(side.name, connector_config(rig.source, rig.target, alias, topic))
    side.put("copy", config)
    samples = watch(rig, side, remote, fed.records, seconds, partitions=place.partitions)
    moving = [sample.at for sample in samples if sample.records]
    settle = FAR_SETTLE_S if place.round_trip_ms else SETTLE_S
    whole = span(samples, min(settle, (moving[-1] - moving[0]) / 2))
    side.put("copy", config | {"topics": IDLE})
    # What it may still have on its way.
    time.sleep(REST_S)
    rig.target.delete_topic(remote)
    return Copied(
        side=side.name,
        far=place.far,
        round_trip_ms=place.round_trip_ms,
        partitions=place.partitions,
        link_bytes_per_second=place.bytes_per_second,
        records=whole.records,
        seconds=whole.seconds,
        records_per_second=whole.records_per_second,
        bytes_per_second=whole.records_per_second * fed.wire_bytes / fed.records,
        cpu_seconds=whole.cpu,
        microseconds_per_record=whole.microseconds_per_record,
    )


def _line(copied: Copied) -> str:
    return (
        f"{_place(asdict(copied))}: {LABELS[copied.side]}: {copied.records_per_second:,.0f}/s,"
        f" {copied.bytes_per_second / 1e6:.1f} MB/s, {copied.microseconds_per_record:.2f} µs a record"
        f" ({copied.seconds:.1f} s)"
    )


def findings(figures: Sequence[Mapping[str, Any]]) -> tuple[Table, list[Aim]]:
    """A row for each side at each distance; the aims compare the sides at 100 ms, and the far target with the near one."""
    rows, aims = [], []
    ours = {_place(each): each for each in figures if each["side"] == OURS}
    other = {_place(each): each for each in figures if each["side"] == MM2_TUNED}
    for each in figures:
        rows.append(
            (
                f"{_place(each)}: {LABELS[each['side']]}",
                f"{each['records_per_second']:,.0f}",
                f"{each['bytes_per_second'] / 1e6:.1f}",
                f"{each['seconds']:.0f}",
                f"{each['cpu_seconds']:.1f}",
                f"{each['microseconds_per_record']:.2f}",
            )
        )
    for place, each in ours.items():
        if place in other and place.round_trip_ms == ROUND_TRIPS_MS[-1]:
            rate = each["records_per_second"] / other[place]["records_per_second"]
            cpu = other[place]["microseconds_per_record"] / each["microseconds_per_record"]
            what = str(place)
            aims.append(Aim(f"{what}: records per second against MirrorMaker 2, tuned", *_times(rate, AIM_RATE)))
            aims.append(Aim(f"{what}: records per CPU second against MirrorMaker 2, tuned", *_times(cpu, AIM_CPU)))
    near = WARM_UP
    for milliseconds in ROUND_TRIPS_MS:
        place = Place(TARGET, milliseconds, PARTITIONS[-1])
        if near in ours and place in ours:
            more = ours[place]["microseconds_per_record"] / ours[near]["microseconds_per_record"]
            what = f"{place}: CPU of a record beside that with a near target"
            aims.append(Aim(what, f"{more:.2f} ×", f"≤ {AIM_AS_NEAR:g} ×", more <= AIM_AS_NEAR))
    return Table(("", "records/s", "MB/s", "s", "CPU s", "µs CPU/record"), rows), aims


def _place(each: Mapping[str, Any]) -> Place:
    return Place(each["far"], each["round_trip_ms"], each["partitions"], each["link_bytes_per_second"])


def _times(ratio: float, wanted: float) -> tuple[str, str, bool]:
    return f"{ratio:.1f} ×", f"≥ {wanted:g} ×", ratio >= wanted
