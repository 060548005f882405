"""Which groups of the target can be moved, and what keeps others from it."""

from __future__ import annotations

from typing import Final, NamedTuple

from mirror_connect.connectors.problems import ProblemCode
from mirror_connect.kafka_io.admin.consumer_groups import GroupKind, ListedGroup


class Obstacle(NamedTuple):
    """The reason why a group can't be moved. In lines, `text` follows the group's name and a colon."""

    code: ProblemCode
    text: str


ACTIVE: Final = Obstacle(ProblemCode.GROUP_ACTIVE, "active on the target, left alone until idle")


def obstacle_of(listed: ListedGroup | None) -> Obstacle | None:
    """What keeps a group from being moved, by its entry in the target's list; None for a group that isn't there."""
    if listed is None:
        return None
    if listed.kind is not GroupKind.CONSUMER:
        what = f"{listed.kind.value} group"
        if listed.kind is GroupKind.OTHER:
            what = f"protocol type {listed.protocol_type}"
        text = f"not a consumer group on the target ({what}): left alone"
        return Obstacle(ProblemCode.GROUP_NO_CONSUMER_GROUP, text)
    return ACTIVE if listed.active else None
