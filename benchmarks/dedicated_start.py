"""From the start of `connect-mirror-maker.sh mm2.properties` until the first record is on the other side, and once more."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.console import Console
from benchmarks.feeder import feed
from benchmarks.figures import median
from benchmarks.findings import Aim, Table
from benchmarks.payload import batches
from benchmarks.plan import PROFILES, Durations
from benchmarks.rig import Rig
from benchmarks.sides import LABELS, MM2, OURS, in_turns
from benchmarks.startup import arrived
from deploy.demo.worker import WorkerProcess
from deploy.local.broker_config import write_properties
from deploy.local.connect import KAFKA_JVM, DedicatedMirrorMaker

# Of MirrorMaker's own time, in the same run.
AIM: Final = 1.2


@dataclass(frozen=True, slots=True)
class DedicatedStart:
    """Seconds since the start of the process, medians of all starts and the longest: until a record is copied, and until
    one that was written while nothing ran is copied after a restart.
    """

    side: str
    starts: int
    first_record: float
    first_record_worst: float
    again: float
    again_worst: float


def measure(durations: Durations, console: Console, sides: Sequence[str] = (MM2, OURS)) -> list[dict[str, Any]]:
    """The sides in turns, each start with clusters' names of its own. The first start of each does not count."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    with Rig() as rig:
        for number in range(durations.starts + 1):
            for name in in_turns(sides, number):
                times[name].append(_start(rig, name, number))
    found = []
    for name in sides:
        first, again = (list(column) for column in zip(*times[name][1:], strict=True))
        start = DedicatedStart(name, len(first), median(first), max(first), median(again), max(again))
        console.say(f"{LABELS[name]}: first record after {start.first_record:.1f} s, restarted {start.again:.1f} s")
        found.append(asdict(start))
    return found


def _start(rig: Rig, name: str, number: int) -> tuple[float, float]:
    aliases = f"{name}-{number}", f"{name}-{number}-target"
    topic = f"data-{name}-{number}"
    rig.create_source_topic(topic, 1)
    pool = batches(PROFILES[0])[:1]
    written, took = 0, []
    java = DedicatedMirrorMaker(rig.source, rig.target, {"topics": topic}, aliases=aliases, options=KAFKA_JVM)
    running = _java(java) if name == MM2 else _ours(java.properties)
    try:
        for _ in range(2):
            written = feed(rig.source.bootstrap_servers, topic, 1, pool, 1).records + written
            with running() as began:
                # All but the last batch has come before.
                took.append(arrived(rig, f"{aliases[0]}.{topic}", written) - began)
    finally:
        java.close()
    return took[0], took[1]


Running = Callable[[], AbstractContextManager[float]]


def _java(java: DedicatedMirrorMaker) -> Running:
    @contextmanager
    def running() -> Iterator[float]:
        began = time.monotonic()
        java.start()
        try:
            yield began
        finally:
            java.stop()

    return running


def _ours(properties: Mapping[str, str]) -> Running:
    @contextmanager
    def running() -> Iterator[float]:
        directory = Path(tempfile.mkdtemp(prefix="mirror-connect-benchmark-"))
        try:
            path = write_properties(directory / "mm2.properties", properties)
            began = time.monotonic()
            with WorkerProcess(path, directory / "log", {}, script="connect-mirror-maker.sh"):
                yield began
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    return running


def findings(figures: Sequence[dict[str, Any]]) -> tuple[Table, list[Aim]]:
    """A row for each side."""
    rows = [
        (
            f"{LABELS[each['side']]} ({each['starts']} starts)",
            *(f"{each[name]:.1f} ({each[f'{name}_worst']:.1f})" for name in ("first_record", "again")),
        )
        for each in figures
    ]
    by_side = {each["side"]: each for each in figures}
    aims = []
    if {MM2, OURS} <= by_side.keys():
        for name, what in (("first_record", "its first record"), ("again", "the same, restarted")):
            ratio = by_side[OURS][name] / by_side[MM2][name]
            said = f"{ratio:.2f} × MirrorMaker 2's time"
            aims.append(Aim(f"Dedicated mode, from process start to {what}", said, f"≤ {AIM:g} ×", ratio <= AIM))
    return Table(("s from process start to (worst)", "its first record", "first record, restarted"), rows), aims
