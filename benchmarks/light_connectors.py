"""What a worker takes with a source, a checkpoint and a heartbeat connector that have little to do, and with ten more."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from benchmarks.console import Console
from benchmarks.feeder import feed
from benchmarks.findings import Aim, Table
from benchmarks.payload import batches
from benchmarks.plan import PROFILES, Durations
from benchmarks.rig import Rig
from benchmarks.sides import LABELS, MM2, OURS, Side, connector_config, open_side
from deploy.local import LocalCluster

MORE: Final = 10
PARTITIONS: Final = 4
RECORDS: Final = 400
GROUP: Final = "readers"
CONNECTORS: Final = "org.apache.kafka.connect.mirror.Mirror{}Connector"
AIM_THREE_MB: Final = 560.0
AIM_MORE_MB: Final = 60.0


@dataclass(frozen=True, slots=True)
class Light:
    """Megabytes (10^6 bytes) of PSS of all processes, and their CPU in percent of a core: with three connectors, and with
    `connectors` more.
    """

    side: str
    connectors: int
    three_mb: float
    three_cpu: float
    all_mb: float
    all_cpu: float


def measure(durations: Durations, console: Console, sides: Sequence[str] = (MM2, OURS)) -> list[dict[str, Any]]:
    """One side after the other, each with brokers of its own."""
    return [asdict(_measured(name, durations, console)) for name in sides]


def _measured(name: str, durations: Durations, console: Console) -> Light:
    topics = [f"light{number}" for number in range(MORE)]
    with Rig() as rig:
        pool = batches(PROFILES[0])[:8]
        for topic in ("data", *topics):
            rig.create_source_topic(topic, PARTITIONS)
            # Something small goes through each task: connections and buffers are those of one in use.
            feed(rig.source.bootstrap_servers, topic, PARTITIONS, pool, RECORDS)
        _commit(rig.source.bootstrap_servers)
        with open_side(name, rig.target) as side:
            copying = {"copy": connector_config(rig.source, rig.target, name, "data")}
            others = {kind: other_config(rig.source, rig.target, name, kind) for kind in ("Checkpoint", "Heartbeat")}
            three = _at_rest(side, {**copying, **others}, durations)
            more = {topic: connector_config(rig.source, rig.target, name, topic) for topic in topics}
            found = Light(name, MORE, *three, *_at_rest(side, more, durations))
    console.say(
        f"{LABELS[name]}: three connectors {found.three_mb:.0f} MB, {found.three_cpu:.1f} % CPU;"
        f" with {MORE} more {found.all_mb:.0f} MB, {found.all_cpu:.1f} % CPU"
    )
    return found


def other_config(source: LocalCluster, target: LocalCluster, alias: str, kind: str) -> dict[str, str]:
    """The config of a checkpoint or heartbeat connector beside the source connector."""
    config = connector_config(source, target, alias, "")
    del config["topics"]
    name = f"{kind.lower()}s"
    return {**config, "connector.class": CONNECTORS.format(kind), f"{name}.topic.replication.factor": "1"}


def _commit(bootstrap_servers: str) -> None:
    """A group, or a checkpoint connector has no task."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": GROUP, "enable.auto.commit": False})
    try:
        consumer.commit(offsets=[TopicPartition("data", 0, 1)], asynchronous=False)
    finally:
        consumer.close()


def _at_rest(side: Side, configs: Mapping[str, Mapping[str, str]], durations: Durations) -> tuple[float, float]:
    """Megabytes and CPU percent when these connectors, too, have been idle for a while."""
    for name, config in configs.items():
        side.put(name, config)
    for name in configs:
        side.wait_running(name)
    time.sleep(durations.light)
    tree = side.tree()
    before, began = tree.cpu_seconds(), time.monotonic()
    time.sleep(durations.idle)
    percent = (tree.cpu_seconds() - before) / (time.monotonic() - began) * 100
    return sum(megabytes for _, _, megabytes in tree.pss()), percent


def findings(figures: Sequence[Mapping[str, Any]]) -> tuple[Table, list[Aim]]:
    """A row for each side, and the aims of this product."""
    rows, aims = [], []
    for each in figures:
        more = each["all_mb"] - each["three_mb"]
        rows.append(
            (
                LABELS[each["side"]],
                *(f"{each[name]:.0f}" for name in ("three_mb", "all_mb")),
                f"{more:+.0f}",
                *(f"{each[name]:.1f}" for name in ("three_cpu", "all_cpu")),
            )
        )
        if each["side"] == OURS:
            three = each["three_mb"]
            said = f"{three:.0f} MB", f"≤ {AIM_THREE_MB:.0f} MB"
            aims.append(Aim("Three light connectors: PSS", *said, three <= AIM_THREE_MB))
            said = f"{more:+.0f} MB", f"≤ {AIM_MORE_MB:.0f} MB"
            aims.append(Aim(f"{each['connectors']} more light connectors: PSS", *said, more <= AIM_MORE_MB))
    head = ("", "three connectors MB", f"{MORE} more MB", "difference MB", "CPU %, three", f"CPU %, {MORE} more")
    return Table(head, rows), aims
