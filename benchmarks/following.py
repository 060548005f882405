"""What `verify --follow` takes of the machine behind a link at work: its CPU beside that of copying, and what it covers."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from benchmarks.accounting import ProcessTree, parse_pss
from benchmarks.console import Console
from benchmarks.feeder import SteadyFeed
from benchmarks.findings import Aim, Table
from benchmarks.payload import batches
from benchmarks.plan import PARTITIONS, PROFILES, Durations
from benchmarks.rig import Ends, Rig
from benchmarks.sides import OURS, Side, SideError, connector_config, open_side
from deploy.local.watchdog import watchdog

FOLLOWED_PROFILES: Final = ("1k",)
BYTES_PER_SECOND: Final = 50e6
AIM_SHARE: Final = 0.05
FIRST_RECORD_S: Final = 180.0
END_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Following:
    """CPU seconds of both in the same time, and of what was copied since it follows the shares of 1."""

    profile: str
    label: str
    seconds: float
    records: int
    bytes_per_second: float
    copying_cpu: float
    own_cpu: float
    start_cpu: float
    compared: float
    counted: float
    faults: int
    pss_mb: float


def measure(durations: Durations, console: Console, sides: Sequence[str] = (OURS,)) -> list[dict[str, Any]]:
    """One figure for each kind of topic. SideError when something doesn't work."""
    if OURS not in sides:
        return []
    return [asdict(_one(name, durations, console)) for name in FOLLOWED_PROFILES]


def _one(name: str, durations: Durations, console: Console) -> Following:
    profile = next(each for each in PROFILES if each.name == name)
    pool = batches(profile)
    with Rig() as rig:
        rig.create_source_topic("data", PARTITIONS)
        with open_side(OURS, rig.target) as side:
            side.put("copy", connector_config(rig.source, rig.target, OURS, "data"))
            with SteadyFeed(rig.source.bootstrap_servers, "data", PARTITIONS, pool, BYTES_PER_SECOND):
                rig.wait_for_first_record(f"{OURS}.data", PARTITIONS, FIRST_RECORD_S)
                console.say(f"{profile.label}: followed from now on")
                process = _follow(side)
                try:
                    found, seconds, records, end = _watched(rig, side, process, durations)
                finally:
                    process.kill()
                    process.wait()
                    watchdog().forget_process(process.pid)
    per_record = sum(len(batch.data) for batch in pool) / sum(batch.records for batch in pool)
    return Following(
        profile=profile.name,
        label=profile.label,
        seconds=seconds,
        records=records,
        bytes_per_second=records * per_record / seconds,
        compared=end["compared"] / end["copied"],
        counted=end["counted"] / end["copied"],
        faults=end["faults"],
        **found,
    )


def _follow(side: Side) -> subprocess.Popen[str]:
    arguments = ["verify", "copy", "--worker", side.url, "--follow", "--json", "--seed", "1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "mirror_connect.cli", *arguments], stdout=subprocess.PIPE, text=True
    )
    watchdog().guard_process(process.pid)
    return process


def _watched(
    rig: Rig, side: Side, process: subprocess.Popen[str], durations: Durations
) -> tuple[dict[str, float], float, int, dict[str, Any]]:
    """CPU and memory, seconds and records, and what it said at its end."""
    tree, own = side.tree(), psutil.Process(process.pid)
    time.sleep(durations.warm_up)
    with Ends(rig.target, f"{OURS}.data", PARTITIONS) as ends:
        before = _reading(tree, own, ends)
        time.sleep(durations.following)
        after = _reading(tree, own, ends)
    megabytes = parse_pss(Path(f"/proc/{process.pid}/smaps_rollup").read_text()) / 1e6
    process.terminate()
    told, _ = process.communicate(timeout=END_S)
    end = json.loads(told.splitlines()[-1])
    if end.get("event") != "end" or not end["copied"]:
        raise SideError(f"verify --follow ended with {process.returncode} and said {told[-300:]}")
    found = {
        "copying_cpu": after[2] - before[2],
        "own_cpu": after[3] - before[3],
        "start_cpu": before[3],
        "pss_mb": megabytes,
    }
    return found, after[0] - before[0], after[1] - before[1], end


def _reading(tree: ProcessTree, own: psutil.Process, ends: Ends) -> tuple[float, int, float, float]:
    """Time, records on the target, CPU seconds of copying and of following."""
    times = own.cpu_times()
    return time.monotonic(), ends.records(), tree.cpu_seconds(), times.user + times.system


def findings(figures: Sequence[dict[str, Any]]) -> tuple[Table, list[Aim]]:
    """A row for each kind of topic."""
    rows, aims = [], []
    for each in figures:
        share = each["own_cpu"] / each["copying_cpu"]
        rows.append(
            (
                each["label"],
                f"{each['bytes_per_second'] / 1e6:.0f}",
                f"{each['records']:,}",
                f"{each['copying_cpu']:.1f}",
                f"{each['own_cpu']:.2f}",
                f"{100 * share:.1f}",
                f"{100 * each['compared']:.1f} %",
                f"{100 * each['counted']:.1f} %",
                f"{each['start_cpu']:.1f}",
                f"{each['pss_mb']:.0f}",
            )
        )
        right = share <= AIM_SHARE and each["faults"] == 0
        what = f"{each['label']}: CPU of verify --follow beside that of copying"
        aims.append(Aim(what, f"{100 * share:.1f} %", f"≤ {100 * AIM_SHARE:.0f} %", right))
    head = (
        "",
        "MB/s",
        "records",
        "copying, CPU s",
        "following, CPU s",
        "%",
        "compared",
        "counted as well",
        "CPU s before",
        "PSS MB",
    )
    return Table(head, rows), aims
