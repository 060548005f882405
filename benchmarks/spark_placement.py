"""What a record costs on a Spark cluster: one executor of four slots, two of two, and local[4], in turns; 1 to 16 tasks.

Only this product is measured. Everything counts: the worker, its driver, Spark's master and workers, executors and tasks.
Starts do not count: a quota of the source's broker holds the tasks back until all of them copy.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

from benchmarks.accounting import ProcessTree, product_kind
from benchmarks.console import Console
from benchmarks.feeder import SteadyFeed, feed
from benchmarks.figures import Span, median, span
from benchmarks.findings import Aim, Table
from benchmarks.held_copies import COPIED, QUOTA_SAMPLES, HeldCopies
from benchmarks.payload import batches
from benchmarks.plan import AIM_PLACEMENT, AIM_SCALING, PROFILES, Durations
from benchmarks.rig import Rig
from benchmarks.sides import OURS, Product, connector_config, in_turns
from benchmarks.throughput import FIRST_RECORD_S, WARM_BYTES_PER_SECOND, watch
from deploy.local.spark_cluster import SparkCluster

LOCAL, ONE, TWO, WIDE = "local[4]", "one executor of 4 slots", "two executors of 2 slots", "two executors of 8 slots"
# Spark workers, and slots of each; none: a local master.
CLUSTERS: Final[Mapping[str, tuple[int, int] | None]] = {LOCAL: None, ONE: (1, 4), TWO: (2, 2), WIDE: (2, 8)}
# What is compared with local[4], and what with one task.
PLACES: Final = (LOCAL, ONE, TWO)
PLACED_TASKS: Final = 4
TASKS: Final = (1, 2, 4, 8, 16)
PARTITIONS: Final = 16
# Of another topic, which one task copies.
MANY: Final = 1_600
PROFILE: Final = PROFILES[0]
RECORDS: Final = 5_000_000
ROUNDS: Final = 4
_OF_MANY: Final = "many"
COPY_S: Final = 8.0
PSS_EVERY_S: Final = 0.3


@dataclass(frozen=True, slots=True)
class Placed:
    """One place with so many tasks and partitions. Medians of all rounds; ratios are to what it is compared with, by round.

    `bytes_per_second`: on the wire, as the source has the batches.
    """

    place: str
    tasks: int
    partitions: int
    records: int
    seconds: float
    records_per_second: float
    bytes_per_second: float
    bytes_per_cpu_second: float
    microseconds: float
    speed_ratios: list[float]
    cost_ratios: list[float]
    cpu_by_kind: dict[str, float]


class Trees:
    """Several process trees as one."""

    def __init__(self, trees: Sequence[ProcessTree]) -> None:
        self._trees = trees

    def cpu_seconds(self) -> float:
        return sum(tree.cpu_seconds() for tree in self._trees)

    def cpu_by_kind(self) -> dict[str, float]:
        found: dict[str, float] = defaultdict(float)
        for tree in self._trees:
            for kind, seconds in tree.cpu_by_kind().items():
                found[kind] += seconds
        return dict(found)

    def pss(self) -> list[tuple[str, int, float]]:
        return [each for tree in self._trees for each in tree.pss()]

    def pids(self) -> list[int]:
        return [pid for tree in self._trees for pid in tree.pids()]


class PlacedProduct(Product):
    """This product with its tasks in a place."""

    def __init__(self, place: str, rig: Rig, spark: SparkCluster | None) -> None:
        properties = {"spark.master": "local[4,4]"} if spark is None else spark.properties
        super().__init__(OURS, rig.target, f"placed-{list(CLUSTERS).index(place)}", properties)
        self._spark = spark

    def tree(self) -> Any:
        of_spark = [self._spark.master, *self._spark.workers] if self._spark is not None else []
        return Trees([ProcessTree(self._worker.pid, product_kind), *(ProcessTree(each.pid, kind) for each in of_spark)])


def kind(command: list[str], parent: list[str]) -> str:
    """What a process is that a Spark master or worker is, or has started."""
    text = " ".join(command)
    for name, main_class in (
        ("executors", "CoarseGrainedExecutorBackend"),
        ("Spark's workers", "deploy.worker.Worker"),
        ("Spark's master", "deploy.master.Master"),
    ):
        if main_class in text:
            return name
    return product_kind(command, parent)


def measure(durations: Durations, console: Console, sides: Sequence[str] = (OURS,)) -> dict[str, Any]:
    """Each place in each round, forwards and backwards; so each number of tasks. `sides` is not used: there is one."""
    del sides
    pool = batches(PROFILE)
    records = int(RECORDS * durations.data_share)
    places: dict[str, list[Span]] = {place: [] for place in PLACES}
    tasks: dict[str, list[Span]] = {**{str(count): [] for count in TASKS}, _OF_MANY: []}
    with Rig(QUOTA_SAMPLES) as rig, ExitStack() as stack:
        for partitions in (MANY, PARTITIONS):
            rig.create_source_topic(_topic(partitions), partitions)
            fed = feed(rig.source_addresses, _topic(partitions), partitions, pool, records)
            console.say(f"{partitions:,} partitions: {fed.records:,} records written")
        copiers = {place: stack.enter_context(_copier(place, rig, pool, durations, console)) for place in CLUSTERS}
        for number in range(min(durations.rounds, ROUNDS)):
            for place in in_turns(PLACES, number):
                places[place].append(copiers[place].copy(PLACED_TASKS, fed.records, console))
            for count in in_turns(list(tasks), number):
                many = count == _OF_MANY
                tasks[count].append(
                    copiers[WIDE].copy(1 if many else int(count), fed.records, console, MANY if many else PARTITIONS)
                )
        memory = copiers[TWO].peaks(PLACED_TASKS)
    wire = fed.wire_bytes / fed.records
    return {
        "wire_bytes_per_record": wire,
        "places": [asdict(_placed(each, PLACED_TASKS, spans, places[LOCAL], wire)) for each, spans in places.items()],
        "tasks": [asdict(_placed(WIDE, count, tasks[str(count)], tasks["1"], wire)) for count in TASKS],
        "many": asdict(_placed(WIDE, 1, tasks[_OF_MANY], tasks["1"], wire, partitions=MANY)),
        "peak_mb": memory,
    }


class _Copier:
    """A worker with its connector, warmed up."""

    def __init__(self, place: str, rig: Rig, side: PlacedProduct) -> None:
        self._place, self._rig, self._side = place, rig, side
        self._copies = HeldCopies(rig, side, _warm(place))

    def copy(self, tasks: int, records: int, console: Console, partitions: int = PARTITIONS) -> Span:
        """Copies the topic once, to a new remote topic that is deleted afterwards."""
        with self._copies.copying(_topic(partitions), partitions, tasks) as remote:
            enough = int(records * COPIED)
            found = span(watch(self._rig, self._side, remote, enough, COPY_S, partitions=partitions))
        console.say(
            f"{self._place}, {tasks} tasks, {partitions:,} partitions: {found.records:,} records in {found.seconds:.1f} s,"
            f" {found.microseconds_per_record:.2f} µs a record"
        )
        return found

    def peaks(self, tasks: int) -> dict[str, float]:
        """Megabytes of PSS while it copies, of each kind the largest process. Looking costs time, so nothing else counts."""
        tree = self._side.tree()
        found: dict[str, float] = {}
        with self._copies.copying(_topic(PARTITIONS), PARTITIONS, tasks):
            until = time.monotonic() + COPY_S
            while time.monotonic() < until:
                for name, _, megabytes in tree.pss():
                    found[name] = max(found.get(name, 0.0), megabytes)
                time.sleep(PSS_EVERY_S)
        return found


@contextmanager
def _copier(place: str, rig: Rig, pool: Sequence[Any], durations: Durations, console: Console) -> Iterator[_Copier]:
    with ExitStack() as stack:
        size = CLUSTERS[place]
        spark = stack.enter_context(SparkCluster(*size)) if size is not None else None
        side = PlacedProduct(place, rig, spark)
        stack.enter_context(side)
        warm = _warm(place)
        console.say(f"{place}: warming up for {durations.warm_up:g} s")
        rig.create_source_topic(warm, 1)
        side.put("copy", connector_config(rig.source, rig.target, warm, warm))
        with SteadyFeed(rig.source_addresses, warm, 1, pool, WARM_BYTES_PER_SECOND):
            rig.wait_for_first_record(f"{warm}.{warm}", 1, FIRST_RECORD_S)
            time.sleep(durations.warm_up)
        yield _Copier(place, rig, side)


def _topic(partitions: int) -> str:
    return f"data-{partitions}"


def _warm(place: str) -> str:
    """The small topic that a place copies while it has no turn; it is the alias of that copy, too."""
    return f"warm-{list(CLUSTERS).index(place)}"


def _placed(
    place: str, tasks: int, spans: Sequence[Span], plain: Sequence[Span], wire: float, *, partitions: int = PARTITIONS
) -> Placed:
    speed = median([each.records_per_second for each in spans])
    kinds: dict[str, float] = defaultdict(float)
    for each in spans:
        for name, seconds in each.cpu_by_kind.items():
            kinds[name] += seconds
    return Placed(
        place,
        tasks,
        partitions,
        sum(each.records for each in spans),
        sum(each.seconds for each in spans),
        speed,
        speed * wire,
        median([each.records_per_cpu_second for each in spans]) * wire,
        median([each.microseconds_per_record for each in spans]),
        [each.records_per_second / first.records_per_second for each, first in zip(spans, plain, strict=True)],
        [
            each.microseconds_per_record / first.microseconds_per_record
            for each, first in zip(spans, plain, strict=True)
        ],
        {name: round(seconds, 2) for name, seconds in kinds.items() if seconds >= 0.005},
    )


def findings(figures: Mapping[str, Any]) -> tuple[Table, list[Aim]]:
    """A row for each place and each number of tasks; the aims are ratios."""
    rows, aims = [], []
    for each in (*figures["places"], *figures["tasks"], figures["many"]):
        name = _named(each)
        speed, cost = median(each["speed_ratios"]), median(each["cost_ratios"])
        rows.append(
            (
                name,
                f"{each['records']:,}",
                f"{each['seconds']:.0f}",
                f"{each['bytes_per_second'] / 1e6:.0f}",
                f"{each['bytes_per_cpu_second'] / 1e6:.0f}",
                f"{each['microseconds']:.2f}",
                f"{speed:.2f}",
                f"{cost:.2f} ({_spread(each['cost_ratios'])})",
            )
        )
    for each in figures["places"][1:]:
        cost, speed = median(each["cost_ratios"]), median(each["speed_ratios"])
        what = f"{each['place']}: CPU per record against {LOCAL}"
        spread = _spread(each["cost_ratios"])
        aims.append(Aim(what, f"{cost:.2f} × ({spread})", f"≤ {AIM_PLACEMENT:g} ×", cost <= AIM_PLACEMENT))
        what = f"{each['place']}: throughput against {LOCAL}"
        spread = _spread(each["speed_ratios"])
        least = 2 - AIM_PLACEMENT
        aims.append(Aim(what, f"{speed:.2f} × ({spread})", f"≥ {least:g} ×", speed >= least))
    for each in (*figures["tasks"][1:], figures["many"]):
        cost = median(each["cost_ratios"])
        what = f"{_named(each)}: CPU per record against one task and {PARTITIONS} partitions"
        spread = _spread(each["cost_ratios"])
        aims.append(Aim(what, f"{cost:.2f} × ({spread})", f"≤ {AIM_SCALING:g} ×", cost <= AIM_SCALING))
    head = (
        "",
        "records",
        "s",
        "MB/s",
        "MB/CPU s",
        "µs CPU/record",
        "times as fast",
        "times the cost (of single rounds)",
    )
    return Table(head, rows), aims


def _named(each: Mapping[str, Any]) -> str:
    tasks = f"{each['tasks']} {'task' if each['tasks'] == 1 else 'tasks'}"
    return f"{each['place']}, {tasks}" + (
        f", {each['partitions']:,} partitions" if each["partitions"] != PARTITIONS else ""
    )


def _spread(ratios: Sequence[float]) -> str:
    return f"{min(ratios):.2f} to {max(ratios):.2f}"
