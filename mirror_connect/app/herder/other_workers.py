"""What an assignment of the group says of the other workers, as the supervisor needs it for the hand-over of partitions."""

from __future__ import annotations

from typing import NamedTuple

from mirror_connect.app.herder.interfaces import GroupAssignment, GroupMember, LostMember
from mirror_connect.app.supervisor.other_workers import OtherWorker


class GroupNews(NamedTuple):
    """`others`: with what each of them has confirmed. `believed`: what they take for confirmed by this worker."""

    others: tuple[OtherWorker, ...]
    believed: dict[str, int]


def group_news(assignment: GroupAssignment, worker_id: str, now: float) -> GroupNews:
    """`now`: by the clock of LostMember.lost_at."""
    # Two workers may name the same address by mistake, but no task is assigned twice. If this one has none, it is the one
    # that has least.
    own = min(
        (each for each in assignment.workers if _is_own(each, assignment, worker_id)),
        key=lambda each: len(each.tasks) + len(each.connectors),
        default=None,
    )
    others = [
        OtherWorker(each.worker_id, _confirmed(each, assignment.config_offset))
        for each in assignment.workers
        if each is not own
    ]
    others += [OtherWorker(each.worker_id, _left(each), max(0.0, now - each.lost_at)) for each in assignment.lost]
    return GroupNews(tuple(others), {} if own is None else _confirmed(own, assignment.config_offset))


def _is_own(member: GroupMember, assignment: GroupAssignment, worker_id: str) -> bool:
    assigned = member.tasks >= assignment.tasks and member.connectors >= assignment.connectors
    return member.worker_id == worker_id and assigned


def _confirmed(member: GroupMember, config_offset: int) -> dict[str, int]:
    # Of what it did not hold when it joined, it begins nothing before it has read so far.
    return {**dict.fromkeys((task.connector for task in member.tasks), config_offset), **member.confirmed}


def _left(member: LostMember) -> dict[str, int]:
    # Of what it had no time to confirm nobody knows how far it had come.
    return {**dict.fromkeys((task.connector for task in member.tasks), -1), **member.confirmed}
