"""Names on the target that no copy may have: topics whose records a worker or MirrorMaker believes.

Who may write a topic at the source would otherwise write connectors, positions and checkpoints at the target. MirrorMaker 2
looks at a topic's name at the source alone; what counts here is the name on the target, whatever leads to it.
"""

from __future__ import annotations

from collections.abc import Collection

from mirror_connect.connectors.replication_policy import DefaultReplicationPolicy


def is_kept(remote_topic: str, policy: DefaultReplicationPolicy, kept: Collection[str]) -> bool:
    """Whether a name on the target is the worker's (`kept`) or one of MirrorMaker's own topics."""
    return remote_topic in kept or policy.is_mm2_internal(remote_topic)
