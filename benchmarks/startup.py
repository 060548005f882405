"""From the start of the process until REST answers, and until the first record is on the other side.

With MIRROR_CONNECT_LOG_LEVEL=DEBUG the last start of each side is told step by step.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.console import Console
from benchmarks.feeder import feed
from benchmarks.figures import median
from benchmarks.payload import batches
from benchmarks.plan import PROFILES, Durations
from benchmarks.rig import Ends, Rig
from benchmarks.sides import LABELS, MM2, OURS, Side, connector_config, in_turns, open_side
from benchmarks.timeline import timeline

FIRST_RECORD_S: Final = 90.0
# By then a start is over, with whatever a side does in the background.
SETTLED_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds since the start of the process, the median of all starts: GET / answers, a connector is accepted, a record
    is copied. `rest_again`, `again`: GET / and the first record after a restart, when topics and connector are already
    there. `put`: seconds from a PUT to its first record, when the worker is up and has no connector yet.
    `…_worst`: the longest of all.
    """

    side: str
    starts: int
    rest: float
    accepted: float
    first_record: float
    rest_again: float
    again: float
    rest_worst: float
    rest_again_worst: float
    first_record_worst: float
    again_worst: float
    put: float
    put_worst: float


def measure(durations: Durations, console: Console, sides: Sequence[str] = (MM2, OURS)) -> list[dict[str, Any]]:
    """The sides in turns, each start with a group of its own; the brokers stay. The first start of each does not count."""
    found = []
    with Rig() as rig:
        times: dict[str, list[tuple[float, ...]]] = {name: [] for name in sides}
        for number in range(durations.starts + 1):
            for name in in_turns(sides, number):
                times[name].append(_start(rig, name, number, console if number == durations.starts else None))
        for name in sides:
            counted = times[name][1:]
            rest, accepted, first, rest_again, again, put = (list(column) for column in zip(*counted, strict=True))
            start = Start(
                name,
                len(counted),
                rest=median(rest),
                rest_worst=max(rest),
                accepted=median(accepted),
                first_record=median(first),
                rest_again=median(rest_again),
                rest_again_worst=max(rest_again),
                again=median(again),
                first_record_worst=max(first),
                again_worst=max(again),
                put=median(put),
                put_worst=max(put),
            )
            console.say(
                f"{LABELS[name]}: REST after {start.rest:.2f} s (worst {start.rest_worst:.2f}), after a restart"
                f" {start.rest_again:.2f} s (worst {start.rest_again_worst:.2f}); connector accepted after"
                f" {start.accepted:.1f} s, first record after {start.first_record:.1f} s, after a restart"
                f" {start.again:.1f} s, after a PUT {start.put:.1f} s"
            )
            found.append(start)
    return [asdict(each) for each in found]


def _start(
    rig: Rig, name: str, number: int, console: Console | None
) -> tuple[float, float, float, float, float, float]:
    """`console`: gets the timeline of the first start."""
    alias = f"{name}-{number}"
    topic = f"data-{alias}"
    rig.create_source_topic(topic, 1)
    pool = batches(PROFILES[0])[:1]
    fed = feed(rig.source.bootstrap_servers, topic, 1, pool, 1)
    with open_side(name, rig.target, f"-{number}") as side:
        rest = side.wait_answering("/")
        accepted = side.put("copy", connector_config(rig.source, rig.target, alias, topic))
        first = arrived(rig, f"{alias}.{topic}", 1) - side.began
        if console is not None and os.environ.get("MIRROR_CONNECT_LOG_LEVEL") == "DEBUG":
            _tell(side, console)
        # Positions are committed before it ends.
    feed(rig.source.bootstrap_servers, topic, 1, pool, 1)
    with open_side(name, rig.target, f"-{number}") as side:
        rest_again = side.wait_answering("/")
        again = arrived(rig, f"{alias}.{topic}", fed.records + 1) - side.began
    return rest, accepted, first, rest_again, again, _put(rig, name, number)


def _put(rig: Rig, name: str, number: int) -> float:
    with open_side(name, rig.target, f"-{number}-put") as side:
        side.wait_answering("/")
        time.sleep(SETTLED_S)
        return _first_of(rig, side, f"{name}-{number}-put")


def _first_of(rig: Rig, side: Side, alias: str) -> float:
    """Seconds from the PUT of a connector to its first record."""
    topic = f"data-{alias}"
    rig.create_source_topic(topic, 1)
    feed(rig.source.bootstrap_servers, topic, 1, batches(PROFILES[0])[:1], 1)
    began = time.monotonic()
    side.put("copy", connector_config(rig.source, rig.target, alias, topic))
    return arrived(rig, f"{alias}.{topic}", 1) - began


def puts(rounds: int, sides: Sequence[str], other: Path) -> dict[str, list[float]]:
    """The same of workers that stay up, in turns; `other` is the checkout of the side BEFORE. The first does not count."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    with Rig() as rig, ExitStack() as stack:
        workers = {name: stack.enter_context(open_side(name, rig.target, "-puts", other=other)) for name in sides}
        for worker in workers.values():
            worker.wait_answering("/")
        time.sleep(SETTLED_S)
        for number in range(rounds + 1):
            for name in in_turns(sides, number):
                found[name].append(_first_of(rig, workers[name], f"{name}-{number}"))
                workers[name].delete("copy")
    return {name: times[1:] for name, times in found.items()}


def _tell(side: Side, console: Console) -> None:
    since_1970 = time.time() - (time.monotonic() - side.began)
    of_day = time.localtime(since_1970)
    began = of_day.tm_hour * 3600 + of_day.tm_min * 60 + of_day.tm_sec + since_1970 % 1
    for seconds, what in timeline(side.log.read_text(errors="replace"), began):
        console.say(f"{LABELS[side.name]}: {seconds:5.2f} s {what}")


def arrived(rig: Rig, remote: str, records: int) -> float:
    """When so many records were in the topic with one partition, on the monotonic clock. RuntimeError if too late."""
    with Ends(rig.target, remote, 1) as ends:
        if ends.wait_for(records, FIRST_RECORD_S, every=0.05) < records:
            raise RuntimeError(f"{records} records are not in {remote} after {FIRST_RECORD_S:g} s")
    return time.monotonic()
