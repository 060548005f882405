"""10,000 partitions in one task: until they are copied, what they take while nothing is written, and with one leaderless.

Only this product is measured. MirrorMaker 2 asks for all remote topics in one request, and a controller refuses so many.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from confluent_kafka.admin import NewTopic

from benchmarks.console import Console
from benchmarks.feeder import feed
from benchmarks.findings import Aim, Table
from benchmarks.payload import batches
from benchmarks.plan import PROFILES, Durations
from benchmarks.rig import BROKER, Ends
from benchmarks.sides import OURS, Side, connector_config, open_side
from deploy.local import LocalCluster, start_all
from deploy.local.connect import KAFKA_JVM

TOPICS: Final = 10
EACH: Final = 1_000
RECORDS: Final = 100_000
# It lies on a broker of its own, which dies.
LONE: Final = "lone"
FIRST_RECORD_S: Final = 180.0
REFRESH_S: Final = 10
TASK: Final = "Python task"
AIM_CPU: Final = 1.3


@dataclass(frozen=True, slots=True)
class ManyPartitions:
    """Seconds from the PUT until the task runs with all partitions, and until a topic of `EACH` partitions is copied.

    Megabytes of PSS of the task and of all processes; percent of a core of all processes while nothing is written, before
    and after one partition has lost its leader.
    """

    partitions: int
    running: float
    copied: float
    task_mb: float
    total_mb: float
    cpu: float
    leaderless_cpu: float


def measure(durations: Durations, console: Console, sides: Sequence[str] = (OURS,)) -> list[dict[str, Any]]:
    """Once. `sides` is not used: there is one."""
    del sides
    topics = max(1, int(TOPICS * durations.data_share))
    source = LocalCluster("source", 2, heap="1g", jvm_options=KAFKA_JVM, properties=BROKER)
    target = LocalCluster("target", heap="1g", jvm_options=KAFKA_JVM, properties=BROKER)
    try:
        start_all(source, target)
        began = time.monotonic()
        for number in range(topics):
            _create(source, f"many{number}", EACH, node=1)
        _create(source, LONE, 1, node=2)
        for number in range(topics):
            _wait_for_leaders(source, f"many{number}")
        console.say(f"{topics * EACH + 1:,} partitions in {time.monotonic() - began:.0f} s")
        with open_side(OURS, target) as side:
            found = _measured(side, source, target, topics, durations)
    finally:
        source.close()
        target.close()
    console.say(
        f"{found.partitions:,} partitions: running after {found.running:.1f} s, task {found.task_mb:.0f} MB,"
        f" {found.cpu:.1f} % CPU, with one leaderless {found.leaderless_cpu:.1f} %"
    )
    return [asdict(found)]


def _create(cluster: LocalCluster, topic: str, partitions: int, node: int) -> None:
    made = NewTopic(topic, partitions, replica_assignment=[[node]] * partitions)
    cluster.admin().create_topics([made], request_timeout=60)[topic].result(60)


def _wait_for_leaders(cluster: LocalCluster, topic: str) -> None:
    """A broker takes no records yet when it names itself the leader."""
    until = time.monotonic() + FIRST_RECORD_S
    with Ends(cluster, topic, EACH) as ends:
        while not ends.answered():
            if time.monotonic() > until:
                raise RuntimeError(f"{topic} has no leaders after {FIRST_RECORD_S:g} s")
            time.sleep(0.1)


def _measured(
    side: Side, source: LocalCluster, target: LocalCluster, topics: int, durations: Durations
) -> ManyPartitions:
    config = connector_config(source, target, OURS, f"many.*,{LONE}")
    side.wait_answering()
    began = time.monotonic()
    side.put("copy", {**config, "refresh.topics.interval.seconds": str(REFRESH_S)})
    side.wait_running("copy")
    running = time.monotonic() - began
    began = time.monotonic()
    fed = feed(source.bootstrap_servers.partition(",")[0], "many0", EACH, batches(PROFILES[0])[:8], RECORDS)
    with Ends(target, f"{OURS}.many0", EACH) as ends:
        if ends.wait_for(fed.records, FIRST_RECORD_S) < fed.records:
            raise RuntimeError(f"many0 is not copied after {FIRST_RECORD_S:g} s")
    copied = time.monotonic() - began
    time.sleep(durations.idle)
    cpu = _cpu_percent(side, 3 * durations.idle)
    kinds: dict[str, list[float]] = defaultdict(list)
    for kind, _, megabytes in side.tree().pss():
        kinds[kind].append(megabytes)
    source.brokers[1].kill()
    time.sleep(durations.idle)
    leaderless = _cpu_percent(side, 3 * durations.idle)
    side.check_alive()
    total = sum(map(sum, kinds.values()))
    return ManyPartitions(topics * EACH + 1, running, copied, max(kinds[TASK]), total, cpu, leaderless)


def _cpu_percent(side: Side, seconds: float) -> float:
    tree = side.tree()
    before, began = tree.cpu_seconds(), time.monotonic()
    time.sleep(seconds)
    return (tree.cpu_seconds() - before) / (time.monotonic() - began) * 100


def findings(figures: Sequence[dict[str, Any]]) -> tuple[Table, list[Aim]]:
    """One row; the aim is that a leaderless partition costs the others nothing."""
    rows, aims = [], []
    for each in figures:
        rows.append(
            (
                f"{each['partitions']:,}",
                f"{each['running']:.1f}",
                f"{each['copied']:.1f}",
                f"{each['task_mb']:.0f}",
                f"{each['total_mb']:.0f}",
                f"{each['cpu']:.1f}",
                f"{each['leaderless_cpu']:.1f}",
            )
        )
        ratio = each["leaderless_cpu"] / each["cpu"]
        what = f"{each['partitions']:,} partitions, idle: CPU with one leaderless against CPU before"
        aims.append(Aim(what, f"{ratio:.2f} ×", f"≤ {AIM_CPU:g} ×", ratio <= AIM_CPU))
    head = ("partitions", "running after s", f"{EACH:,} of them copied after s", "task MB", "all MB")
    return Table((*head, "CPU %", "CPU %, one leaderless"), rows), aims
