"""What this member claims in its group, and what it has told the group of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mirror_connect.app.group.assignor import NOTHING, Share
from mirror_connect.app.herder.interfaces import GroupAssignment, GroupWork
from mirror_connect.app.supervisor.readiness import Readiness


@dataclass(frozen=True, slots=True)
class Said:
    """What a member says when it joins. `leaving`: it begins nothing more."""

    claims: Share = NOTHING
    confirmed: Mapping[str, int] = field(default_factory=dict)
    readiness: Readiness = Readiness.READY
    leaving: bool = False


class OwnClaims:
    """See the module. `work` says what runs here.

    A member claims all that it may run now, and what it runs of what it has had as this member. What it ran before the group
    lost it belongs to others by now, even if it has not ended yet.
    """

    def __init__(self, work: GroupWork) -> None:
        self._work = work
        # As far as it has not ended it.
        self._had = NOTHING
        self.told = Said()
        # From now on it begins nothing, and what it is assigned is nothing to claim.
        self.leaving = False

    @property
    def has_had_any(self) -> bool:
        """Whether it may run anything of what it was assigned."""
        return bool(self._had)

    def now(self, place: GroupAssignment) -> Said:
        """What there is to say. `place`: what is assigned to this member."""
        claims = self._work.claims()
        may_run = NOTHING if self.leaving else Share(place.connectors, place.tasks)
        self._had = self._had & Share(claims.connectors, claims.tasks) | may_run
        # Of what it holds nothing it may begin a task before the answer comes: somebody resumes or restarts it, or it is yet
        # to be taken over. By then the leader may have written another commit, and would take that for confirmed if nothing
        # was said.
        begins_by = {} if self.leaving else {**_assigned_by(place), **claims.begins_by}
        return Said(self._had, {**begins_by, **claims.confirmed}, claims.readiness, self.leaving)

    def say(self, place: GroupAssignment) -> Said:
        """The same, and it is told now."""
        self.told = self.now(place)
        return self.told

    def assigned(self, place: GroupAssignment) -> None:
        """This is assigned to this member now. The group knows that it claims it, and by what it will begin it."""
        share = Share(place.connectors, place.tasks)
        self._had |= share
        confirmed = {**_assigned_by(place), **self.told.confirmed}
        self.told = replace(self.told, claims=self.told.claims | share, confirmed=confirmed)

    def void(self) -> None:
        """The group has lost this member."""
        self._had = NOTHING

    def has_ended_some(self, place: GroupAssignment) -> bool:
        """Whether the group takes this member to have what it has no more."""
        return bool(self.told.claims - self.now(place).claims)

    def has_news(self, place: GroupAssignment) -> bool:
        """Whether the group should hear of this member again."""
        now = self.now(place)
        return bool(self.told.claims - now.claims) or replace(now, claims=NOTHING) != replace(self.told, claims=NOTHING)


def _assigned_by(place: GroupAssignment) -> dict[str, int]:
    """By connector, up to where this worker has read the config topic at least when it begins what is assigned to it."""
    return {task.connector: place.config_offset for task in place.tasks}
