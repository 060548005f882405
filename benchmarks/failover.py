"""Groups that move to the target in the middle of everything: what they read again, and whether they skip anything.

The same run for each side, between brokers of its own: producers with and without transactions write all the while; groups
stand at random positions; the internal topics are compacted; the side and both brokers are stopped and started again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from benchmarks.compaction import CLEANER, hasten, wait_compacted
from benchmarks.console import Console
from benchmarks.figures import median
from benchmarks.group_load import GroupLoad
from benchmarks.group_reading import PARTITIONS, committed, end_offsets, truths
from benchmarks.plan import FAILOVER_RATE, FAILOVER_SEED, Durations
from benchmarks.rig import Rig
from benchmarks.sides import LABELS, MM2, OURS, Side, connector_config, open_side
from deploy.local import start_all

CHECKPOINT: Final = "org.apache.kafka.connect.mirror.MirrorCheckpointConnector"
TOPIC: Final = "orders"
BEFORE: Final = "while everything runs"
AFTER: Final = "after compaction and a restart of everything"
PATIENCE_S: Final = 120.0
# Positions that have not changed for so many rounds of a second are what a group would go on with.
STILL_S: Final = 12.0


@dataclass(frozen=True, slots=True)
class Moved:
    """What the groups' positions on the target were worth at one moment; a place is one group in one partition.

    `repeated_*`: records a place; `skipped`: of all places together; `missing`: places without a position on the target.
    """

    side: str
    moment: str
    places: int
    missing: int
    records_per_partition: int
    repeated_median: float
    repeated_worst: int
    skipped: int


def measure(durations: Durations, console: Console, sides: Sequence[str] = (MM2, OURS)) -> list[dict[str, Any]]:
    """Two moments of every side."""
    return [asdict(moved) for name in sides for moved in _side(name, durations.failover_records, console)]


def _side(name: str, records: int, console: Console) -> list[Moved]:
    """`records` of each partition: half of them before everything is restarted."""
    with Rig(CLEANER) as rig:
        rig.create_source_topic(TOPIC, PARTITIONS)
        found = []
        with GroupLoad(rig.source, TOPIC, rate=FAILOVER_RATE, seed=FAILOVER_SEED) as load:
            with open_side(name, rig.target) as side:
                # A Java connector without groups has no task, and looks again in ten minutes.
                load.settle()
                load.go_on()
                _deploy(rig, side)
                _wait_written(rig, records // 2)
                found.append(_judge(rig, load, name, BEFORE, console))
                load.go_on()
                _compact(rig, name, console)
            rig.source.stop()
            rig.target.stop()
            start_all(rig.source, rig.target)
            with open_side(name, rig.target) as side:
                for connector in ("copy", "groups"):
                    side.wait_running(connector)
                _wait_written(rig, records)
                found.append(_judge(rig, load, name, AFTER, console))
    return found


def _deploy(rig: Rig, side: Side) -> None:
    copy = connector_config(rig.source, rig.target, side.name, TOPIC)
    groups = {
        **copy,
        "connector.class": CHECKPOINT,
        "groups": "group-.*",
        "checkpoints.topic.replication.factor": "1",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
    }
    for connector, config in (("copy", copy), ("groups", groups)):
        side.put(connector, config)
        side.wait_running(connector)


def _compact(rig: Rig, name: str, console: Console) -> None:
    places = [(rig.source, "mm2-offset-syncs.target.internal"), (rig.target, f"{name}.checkpoints.internal")]
    if name == OURS:
        places.append((rig.target, f"mm2-offset-runs.{name}.internal"))
    for cluster, topic in places:
        hasten(cluster, [topic])
    for cluster, topic in places:
        left, written = wait_compacted(cluster, topic, PATIENCE_S)
        console.say(f"{topic} is compacted: {left:,} of {written:,} records are left")


def _judge(rig: Rig, load: GroupLoad, name: str, moment: str, console: Console) -> Moved:
    positions, remote = load.settle(), f"{name}.{TOPIC}"
    moved_to = _come_to_rest(rig, load.groups, remote)
    found = truths(rig.source, rig.target, TOPIC, remote)
    verdicts = [
        found[partition].judge(position, moved_to[group][partition])
        for group, places in positions.items()
        for partition, position in places.items()
        if partition in moved_to[group]
    ]
    if not verdicts:
        raise RuntimeError(f"{LABELS[name]} has moved no group")
    repeated = [each.repeated for each in verdicts]
    moved = Moved(
        name,
        moment,
        len(load.groups) * PARTITIONS,
        len(load.groups) * PARTITIONS - len(verdicts),
        sum(each.records for each in found) // PARTITIONS,
        repeated_median=median(repeated),
        repeated_worst=max(repeated),
        skipped=sum(each.skipped for each in verdicts),
    )
    console.say(
        f"{LABELS[name]} {moment}: a group reads {moved.repeated_median} records of a partition again (median; worst"
        f" {moved.repeated_worst} of {moved.records_per_partition:,}), {moved.skipped} are skipped,"
        f" {moved.missing} of {moved.places} places have no position"
    )
    return moved


def _come_to_rest(rig: Rig, groups: list[str], remote: str) -> dict[str, dict[int, int]]:
    """Positions on the target that have been the same for `STILL_S`."""
    until = time.monotonic() + PATIENCE_S
    seen, since = committed(rig.target, groups, remote), time.monotonic()
    while time.monotonic() - since < STILL_S:
        time.sleep(1.0)
        now = committed(rig.target, groups, remote)
        if now != seen:
            seen, since = now, time.monotonic()
        if time.monotonic() > until:
            raise RuntimeError(f"groups still move after {PATIENCE_S:g} s")
    return seen


def _wait_written(rig: Rig, records: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while min(end_offsets(rig.source, TOPIC).values()) < records:
        if time.monotonic() > until:
            raise RuntimeError(f"not every partition has {records} records after {PATIENCE_S:g} s")
        time.sleep(0.2)
