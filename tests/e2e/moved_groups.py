"""Groups that a GroupLoad moves at the source: where they are on the target, and what each would skip or repeat there.

What a group skips or repeats is counted by the numbers in the records (benchmarks/group_truth.py).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from benchmarks.group_load import GroupLoad, Positions
from benchmarks.group_reading import PARTITIONS, committed, truths
from deploy.local import LocalCluster
from tests.waiting import wait_for

# Everything may have to wait for a machine that does something else.
PATIENCE_S: Final = 360.0
# Several rounds of checkpoints and groups: whoever was exact must stay so.
STAYS_S: Final = 4.0


@dataclass(frozen=True)
class MovedGroups:
    """Groups that stand still: where, where they are on the target, and what they repeat and skip by group and partition."""

    positions: Positions
    moved_to: Positions
    repeated: dict[str, int]
    skipped: dict[str, int]

    @property
    def missing(self) -> dict[str, list[int]]:
        """Partitions of groups that have no place on the target."""
        lacking = {group: sorted(set(range(PARTITIONS)) - self.moved_to[group].keys()) for group in self.positions}
        return {group: partitions for group, partitions in lacking.items() if partitions}


def checkpoint_config(copy: Mapping[str, str]) -> dict[str, str]:
    """The connector that moves the groups of a GroupLoad, every second, beside the source connector with this config."""
    return {
        **{name: value for name, value in copy.items() if not name.startswith("sync.topic")},
        "connector.class": "org.apache.kafka.connect.mirror.MirrorCheckpointConnector",
        "groups": "group-.*",
        "refresh.groups.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "checkpoints.topic.replication.factor": "1",
    }


def moved_groups(source: LocalCluster, target: LocalCluster, load: GroupLoad, topic: str) -> MovedGroups:
    """Stops the groups, not the producers, and looks where they are on the target once they had time to get there.

    The waiting decides nothing: it ends early where all is well, and the tests judge a later look, whatever it shows.
    """
    positions = load.settle()

    def arrived() -> bool:
        found = _look(source, target, topic, positions)
        return not found.missing and not found.repeated

    with suppress(AssertionError):
        wait_for(arrived, "all groups go on exactly", PATIENCE_S, 1.0)
    time.sleep(STAYS_S)
    return _look(source, target, topic, positions)


def _look(source: LocalCluster, target: LocalCluster, topic: str, positions: Positions) -> MovedGroups:
    remote = f"A.{topic}"
    moved_to = committed(target, list(positions), remote)
    found = truths(source, target, topic, remote)
    repeated, skipped = {}, {}
    for group, places in moved_to.items():
        for partition, place in places.items():
            verdict = found[partition].judge(positions[group][partition], place)
            name = f"{group} partition {partition} {positions[group][partition]}->{place}"
            if verdict.repeated:
                repeated[name] = verdict.repeated
            if verdict.skipped:
                skipped[name] = verdict.skipped
    return MovedGroups(positions, moved_to, repeated, skipped)
