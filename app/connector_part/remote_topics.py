"""Remote topics: created with the source's partition count, grown when the source grows, never shrunk.

Rules of MirrorMaker 2 (docs/compatibility.md, "Topics and partitions"). A topic that can't be created is a line for the
user and the others go on; it is tried again at the next round, and its partitions wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mirror_connect.connectors.errors import NotAuthorized
from mirror_connect.kafka_io.admin import AdminError, ClusterAdmin


@dataclass(frozen=True, slots=True)
class Changes:
    """What one round did: `made`, one line each; `refused`, topic → one line; `there`, topic → partitions it has now."""

    made: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    there: dict[str, int] = field(default_factory=dict)


def bring_up_to_date(
    target: ClusterAdmin, wanted: Mapping[str, int], existing: Mapping[str, int], replication_factor: int
) -> Changes:
    """Creates and grows remote topics on `target`; blocking. `wanted`: remote topic → partitions of its source topic."""
    changes = Changes()
    for topic, partitions in sorted(wanted.items()):
        changes.there[topic] = existing.get(topic, 0)
        try:
            if topic not in existing:
                target.create_topic(topic, partitions, replication_factor)
                changes.made.append(f"created remote topic {topic} with {partitions} partitions")
            elif existing[topic] < partitions:
                target.create_partitions(topic, partitions)
                changes.made.append(f"grew remote topic {topic} from {existing[topic]} to {partitions} partitions")
            changes.there[topic] = max(partitions, existing.get(topic, 0))
        except (AdminError, NotAuthorized) as error:
            # A missing right to one topic is that topic's trouble; wrong credentials have been told before.
            changes.refused[topic] = str(error)
    return changes
