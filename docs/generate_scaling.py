"""Renews the figures in docs/scaling.md from what was measured: `python -m docs.generate_scaling`.

The part `cluster` of benchmarks/results.json is measured. What other rates need is computed from it here: an estimate.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.figures import median
from benchmarks.findings import Table
from benchmarks.spark_placement import MANY, PARTITIONS, TWO
from benchmarks.store import load

PAGE: Final = Path(__file__).with_name("scaling.md")
MB: Final = 1e6
RATES: Final = (1 * MB, 10 * MB, 100 * MB, 10_000 * MB)
SLOTS: Final = 8
# A task is planned with half of what one has copied here, and a core with two thirds: load is never even.
OF_A_TASK: Final = 0.5
OF_A_CORE: Final = 2 / 3
NOT_YET: Final = "Not measured yet: `make bench CASE=cluster`, then `make docs`."
EXECUTORS, DAEMON, TASK = "executors", "Python daemon", "Python task"


@dataclass(frozen=True, slots=True)
class Measured:
    """What the estimates stand on. Bytes are those on the wire; `tls`: times the cost without encryption."""

    task_bytes_per_second: float
    bytes_per_cpu_second: float
    tls: float
    many_partitions: float
    executor_mb: float
    slot_mb: float


@dataclass(frozen=True, slots=True)
class Needed:
    """What a rate needs."""

    bytes_per_second: float
    tasks: int
    cores: float
    cores_tls: float
    executors: int
    memory_mb: float

    @property
    def network_bits_per_second(self) -> float:
        """In and out together."""
        return self.bytes_per_second * 2 * 8


def measured(figures: Mapping[str, Any], tls: float) -> Measured:
    """The figures of the benchmark's part `cluster`."""
    two = next(each for each in figures["places"] if each["place"] == TWO)
    peaks = figures["peak_mb"]
    return Measured(
        figures["tasks"][0]["bytes_per_second"],
        two["bytes_per_cpu_second"],
        tls,
        median(figures["many"]["cost_ratios"]),
        peaks[EXECUTORS] + peaks[DAEMON],
        peaks[TASK],
    )


def needed(rate: float, known: Measured) -> Needed:
    """An estimate. One executor more than needed, so that the tasks of a lost one have slots at once."""
    tasks = math.ceil(rate / (known.task_bytes_per_second * OF_A_TASK))
    cores = rate / (known.bytes_per_cpu_second * OF_A_CORE)
    # Light tasks share one process.
    executors = math.ceil((tasks + 1) / SLOTS) + 1
    memory = executors * (known.executor_mb + SLOTS * known.slot_mb)
    return Needed(rate, tasks, cores, cores * known.tls, executors, memory)


def tls_cost(parts: Mapping[str, Any]) -> float:
    """CPU per record with TLS and SCRAM on both sides, times that without. ValueError: they are of two machines."""
    both = [parts[f"throughput {name}"] for name in ("1k", "tls")]
    if both[0].machine["Processor"] != both[1].machine["Processor"]:
        raise ValueError('1k and tls were measured on two machines: make bench CASE="1k tls"')
    plain, encrypted = (
        next(each["microseconds_per_record"] for each in part.figures if each["side"] == "ours") for part in both
    )
    return float(encrypted / plain)


def places(figures: Mapping[str, Any]) -> Table:
    """A row for each place, number of tasks and of partitions."""
    rows = [
        (
            each["place"],
            str(each["tasks"]),
            f"{each['partitions']:,}",
            f"{each['bytes_per_second'] / MB:,.0f}",
            f"{each['bytes_per_cpu_second'] / MB:,.0f}",
            f"{each['microseconds']:.2f}",
            f"{median(each['cost_ratios']):.2f}",
        )
        for each in (*figures["places"], *figures["tasks"], figures["many"])
    ]
    head = ("tasks run in", "tasks", "partitions", "MB/s", "MB per CPU second", "µs of CPU a record", "times the cost")
    return Table(head, rows)


def memory(figures: Mapping[str, Any]) -> Table:
    """A row for each kind of process: the most that one had."""
    return Table(("process", "MB"), [(kind, f"{size:,.0f}") for kind, size in sorted(figures["peak_mb"].items())])


def estimates(known: Measured) -> Table:
    """A row for each rate."""
    rows = []
    for rate in RATES:
        each = needed(rate, known)
        rows.append(
            (
                f"{rate / MB:,.0f} MB/s",
                str(each.tasks),
                f"{each.cores:.1f}",
                f"{each.cores_tls:.1f}",
                str(each.executors),
                f"{each.memory_mb / 1_000:,.1f} GB",
                f"{each.network_bits_per_second / 1e9:,.2f} Gbit/s",
            )
        )
    head = (
        "rate",
        "tasks",
        "cores",
        "cores with TLS",
        f"executors of {SLOTS} slots",
        "their memory",
        "network, in and out",
    )
    return Table(head, rows)


def renewed(page: str, parts: Mapping[str, Any]) -> str:
    """The page with tables of what is stored, if anything is. ValueError if it has no place for one."""
    for name, text in _texts(parts).items():
        place = re.compile(rf"(<!-- {name}: [^\n]*-->\n).*?(<!-- end -->)", re.DOTALL)
        made = text.replace("\\", r"\\")
        page, count = place.subn(rf"\g<1>\n{made}\n\n\g<2>", page)
        if count != 1:
            raise ValueError(f"docs/scaling.md has no place for {name}")
    return page


def _texts(parts: Mapping[str, Any]) -> dict[str, str]:
    if "cluster" not in parts:
        return dict.fromkeys(("run", "places", "memory", "estimates"), NOT_YET)
    part = parts["cluster"]
    known = measured(part.figures, tls_cost(parts))
    return {
        "run": _run(part, known),
        "places": _lines(places(part.figures)),
        "memory": _lines(memory(part.figures)),
        "estimates": _lines(estimates(known)),
    }


def _run(part: Any, known: Measured) -> str:
    machine = ", ".join(f"{name}: {value}" for name, value in part.machine.items())
    return (
        f"Measured on {part.date} UTC at commit {part.commit}. {machine}.\n\n"
        f"- One task copied {known.task_bytes_per_second / MB:,.0f} MB/s, beside the brokers on the same cores.\n"
        f"- A second of processor time copied {known.bytes_per_cpu_second / MB:,.0f} MB, of all processes together.\n"
        f"- TLS and SCRAM on both sides cost {known.tls:.1f} times as much (an earlier run, benchmarks/RESULTS.md).\n"
        f"- With {MANY:,} partitions in the place of {PARTITIONS} one task needed {known.many_partitions:.2f} times the"
        " processor time.\n"
        f"- An executor had {known.executor_mb:,.0f} MB without its tasks, a task's process {known.slot_mb:,.0f} MB at most."
    )


def _lines(table: Table) -> str:
    lines = [table.head, ["---"] * len(table.head), *table.rows]
    return "\n".join("| " + " | ".join(each) + " |" for each in lines)


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text("utf-8"), load()), "utf-8")
