"""What the leader of a group decides when its members have joined: who runs what, and what waits for a lost worker.

Pure: from what the members say, what is wanted and what the leader before has decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mirror_connect.app.group.assignor import NOTHING, assign, union, work
from mirror_connect.app.group.messages import VERSION, Assignment, GroupState, Held, Lost, Metadata, Worker
from mirror_connect.app.herder.interfaces import WantedWork

# For so long a lost member is told of. What it had sent may still arrive at a broker, for 30 s after it was lost.
LOST_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Joined:
    """The members of a new generation, by member id, with what they say."""

    generation: int
    leader: str
    members: Mapping[str, Metadata]


def last_state(own: GroupState, joined: Joined) -> GroupState:
    """The newest state that any member has of a generation before this one. A leader may be new in the group itself.

    If the brokers have lost the group, its generations begin anew. Then the newest state of all is the last one.
    """
    known = [own, *(each.seen for each in joined.members.values())]
    earlier = [each for each in known if each.generation < joined.generation and each.workers]
    return max(earlier or known, key=lambda each: each.generation)


def decide(
    joined: Joined,
    wanted: WantedWork | None,
    before: GroupState,
    *,
    now: float,
    delay_s: float,
    has_missed: bool = False,
) -> dict[str, Assignment]:
    """The members' assignments, by member id. `wanted` None: it is not known well enough, so what runs stays as it is.

    `wanted` must be read as far as any member has read, and as was decided before: members rely on offsets that never go
    back.
    `delay_s`: for how long what a lost worker ran waits for it. `now`: by the clock of the times in `before`.
    `has_missed`: this leader has not heard of the decisions before, so it may have to fence what a lost worker ran.
    """
    leader, members = joined.leader, joined.members
    claims = {
        name: each.claims for name, each in members.items() if each.version >= VERSION and not _has_ended_all(each)
    }
    claimed = union(claims.values())
    lost = [each for each in before.lost if now - each.lost_at < LOST_SECONDS]
    # Who has only `confirmed` runs nothing, but something that it has sent may still be written.
    gone = [each for each in before.workers if each.member not in claims and (each.share or each.confirmed)]
    # Of one that leaves nothing can be written any more: nobody has to wait for it.
    left = {name for name, each in members.items() if _has_ended_all(each)}
    unfenced = list(lost) if has_missed else []
    newly_lost = [
        Lost(each.worker_id, each.share, each.confirmed, now, each.member) for each in gone if each.member not in left
    ]
    lost += newly_lost
    unfenced += newly_lost
    held = [each for each in before.held if each.until > now]
    if delay_s > 0:
        held += [Held(each.worker_id, each.share, now + delay_s) for each in gone]
    held = [Held(each.worker_id, each.share - claimed, each.until) for each in held]
    if wanted is None:
        shares = assign(claims, claimed, balance=False)
    else:
        asked = work(wanted.connectors)
        returned = {members[name].worker_id: name for name in claims}
        back = {returned[each.worker_id]: each.share for each in held if each.worker_id in returned}
        held = [Held(each.worker_id, each.share & asked, each.until) for each in held if each.worker_id not in returned]
        shares = assign(
            claims,
            asked,
            held=union(each.share for each in held),
            back=back,
            # Who runs a connector sends its task configs to the leader.
            for_connectors=None if members[leader].url.startswith("http") else leader,
            balance=not any(each.share for each in held),
            readiness={name: members[name].readiness for name in claims},
        )
    offset = before.offset if wanted is None else wanted.offset
    workers = tuple(
        Worker(
            name,
            members[name].url,
            members[name].worker_id,
            shares[name] | claims[name],
            # Who holds nothing of a connector until now reads to this offset before it begins anything.
            {**{task.connector: offset for task in sorted(shares[name].tasks)}, **members[name].confirmed},
            members[name].exactly_once,
        )
        for name in sorted(claims)
    )
    # Nobody has begun these yet. Where no member had them, their former processes may have been killed at any moment.
    assigned = union(shares.values()).tasks
    had = union(each.share for each in before.workers if each.member in claims).tasks
    # And what nobody has any more: it may have been killed at its end.
    gone_tasks = union(each.share for each in before.workers).tasks - assigned
    fence = (union(each.share for each in unfenced).tasks | (assigned - had) | gone_tasks) - claimed.tasks
    state = GroupState(joined.generation, offset, workers, tuple(lost), tuple(each for each in held if each.share))
    return {
        name: Assignment(
            leader,
            members[leader].url or None,
            share=shares.get(name, NOTHING),
            state=state,
            moving=any(claims[each] - shares[each] for each in claims),
            fence=fence if name == leader else frozenset(),
        )
        for name in members
    }


def _has_ended_all(member: Metadata) -> bool:
    """Whether it leaves, and nothing of it runs or may still be written."""
    return member.leaving and not member.claims and not member.confirmed
