"""Which positions of a group on the target are moved on to its checkpoints: never backwards.

MirrorMaker writes all of them for a group that it did not find empty one interval ago, and only looks at what is there for
others, so a group that becomes idle in between may be taken back. Here the same rule holds for every group, with what the
target has a moment before the write.
"""

from __future__ import annotations

from collections.abc import Mapping

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.records.checkpoints import Checkpoint

# (topic, partition) → (offset to read next, the client's own note)
Moves = dict[tuple[str, int], tuple[int, str]]


def moves(
    checkpoints: Mapping[TopicPartition, Checkpoint], at_target: Mapping[tuple[str, int], tuple[int, str]]
) -> Moves:
    """What to commit: where the target has no position, or one before the checkpoint's. The note is carried along."""
    found: Moves = {}
    for partition, checkpoint in checkpoints.items():
        there = at_target.get(partition)
        if there is None or there[0] < checkpoint.downstream:
            found[partition] = (checkpoint.downstream, checkpoint.metadata)
    return found
