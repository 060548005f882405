"""This worker's membership in its group: who leads, what each member runs, and for how long that is certain.

The broker's group coordinator chooses the leader; the leader decides who runs what (decisions.py). The protocol name is our
own, so the broker keeps Java workers and us out of one group: they could not agree on who runs what.

Nothing stops while members join again. What this worker claims stays its own until the leader leaves it out of an
assignment, and even then nobody gets it before this worker joins without it. So a worker goes on with what it has, and
renews its lease meanwhile by heartbeats: a member that is stopped keeps the group joining until its session is over, and
costs nobody else anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, Protocol

from mirror_connect.app.group.first_join import RETRY_SECONDS, join_first, warn_of_consumers
from mirror_connect.app.group.heartbeats import Heartbeats
from mirror_connect.app.group.leader_decisions import LeaderDecisions
from mirror_connect.app.group.lease import GroupLease
from mirror_connect.app.group.messages import (
    NO_OFFSET,
    VERSION,
    Assignment,
    GroupState,
    Metadata,
    assignment_from_bytes,
    assignments_to_bytes,
    metadata_to_bytes,
)
from mirror_connect.app.group.own_claims import OwnClaims
from mirror_connect.app.herder.interfaces import OUTSIDE, GroupAssignment, GroupWork, Silence, SteppedOut
from mirror_connect.app.metrics.rebalances import RebalanceFigures, Rebalances
from mirror_connect.connectors.clock import boot_clock
from mirror_connect.connectors.errors import GroupRefusedError, NotAuthorized
from mirror_connect.kafka_io.client.group_membership import (
    CoordinatorLost,
    GenerationOver,
    GroupClient,
    GroupSettings,
    MembershipLost,
    RebalanceNeeded,
)
from mirror_connect.kafka_io.protocol.group_protocol import JoinGroupResponse

log = logging.getLogger(__name__)

PROTOCOL_TYPE: Final = "connect"
PROTOCOL: Final = "mirror-connect"
# Changes that come close together are one.
_COALESCE_SECONDS: Final = 0.05
_REFUSED_RETRY_SECONDS: Final = 5.0
_LEAVE_SECONDS: Final = 3.0
# The others hear of it with their next heartbeat, and then all join.
_FAREWELL_SECONDS: Final = 1.0
# By then all members have asked for what a leader has assigned.
_SYNCED_SECONDS: Final = 0.5


class GroupSteps(Protocol):
    """The steps of the group protocol, see GroupClient."""

    async def join(self, member_id: str, metadata: bytes) -> JoinGroupResponse:
        """See GroupClient."""

    async def sync(self, joined: JoinGroupResponse, assignments: Mapping[str, bytes]) -> bytes:
        """See GroupClient."""

    async def heartbeat(self, generation: int, member_id: str) -> None:
        """See GroupClient."""

    async def leave(self, member_id: str) -> None:
        """See GroupClient."""

    async def consumed_topics(self) -> list[str]:
        """See GroupClient."""

    async def close(self) -> None:
        """See GroupClient."""


class Membership:
    """This worker's membership. From `join` to `leave` it keeps itself up, whatever happens to brokers.

    `on_change` is called on the loop with each new assignment: leadership gained or lost, another leader, a new generation,
    the lease over (OUTSIDE) or regained. `url` is this worker's advertised REST URL, empty if it has none.
    `rebalance_delay_ms`: as the leader, for how long what a lost worker ran waits for it. `exactly_once`: what this worker
    does about exactly-once copying, `topics`: its config, offset and status topic, for the others.
    """

    def __init__(
        self,
        steps: GroupSteps,
        url: str,
        *,
        group_id: str,
        session_timeout_ms: int,
        heartbeat_interval_ms: int,
        rebalance_timeout_ms: int = 60_000,
        rebalance_delay_ms: int = 0,
        worker_id: str = "",
        exactly_once: str = "",
        topics: tuple[str, ...] = (),
        on_change: Callable[[GroupAssignment], None] | None = None,
        clock: Callable[[], float] = boot_clock,
    ) -> None:
        self._steps = steps
        self._url = url
        self._worker_id = worker_id or url
        self._exactly_once = exactly_once
        self._topics = topics
        self._group_id = group_id
        self._session = session_timeout_ms / 1000
        self._delay = rebalance_delay_ms / 1000
        self._on_change = on_change
        self._clock = clock
        self._rebalances = Rebalances(clock)
        self._lease = GroupLease(self._session, rebalance_timeout_ms / 1000, clock)
        self._heartbeats = Heartbeats(steps, self._lease, heartbeat_interval_ms / 1000, self._report, clock)
        self._lease_timer: asyncio.TimerHandle | None = None
        self._member_id = ""
        self._place = OUTSIDE
        self._reported = OUTSIDE
        self._work: GroupWork | None = None
        self._decisions: LeaderDecisions | None = None
        self._own: OwnClaims | None = None
        self._said_farewell = asyncio.Event()
        self._state = GroupState()
        self._steady = False
        self._join_at = float("inf")
        self._woken = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._refusal: GroupRefusedError | NotAuthorized | None = None
        self._asks = False
        self._out: SteppedOut | None = None

    @classmethod
    def of(
        cls,
        client: Mapping[str, str],
        group_id: str,
        url: str,
        *,
        client_id: str = "mirror-connect",
        session_timeout_ms: int,
        heartbeat_interval_ms: int,
        rebalance_timeout_ms: int,
        rebalance_delay_ms: int = 0,
        worker_id: str = "",
        exactly_once: str = "",
        topics: tuple[str, ...] = (),
        on_change: Callable[[GroupAssignment], None] | None = None,
    ) -> Membership:
        """A membership over real connections; `client` are Java client properties."""
        group = GroupSettings(group_id, PROTOCOL_TYPE, PROTOCOL, session_timeout_ms, rebalance_timeout_ms)
        return cls(
            GroupClient(client, client_id, group),
            url,
            group_id=group_id,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            rebalance_delay_ms=rebalance_delay_ms,
            worker_id=worker_id,
            exactly_once=exactly_once,
            topics=topics,
            on_change=on_change,
        )

    @property
    def assignment(self) -> GroupAssignment:
        """The group assignment, OUTSIDE once the lease is over."""
        return self._place if self.lease_remaining() > 0 else OUTSIDE

    @property
    def generation(self) -> int:
        """The generation last joined, also while the lease is over; -1 before the first."""
        return self._place.generation

    @property
    def member_id(self) -> str:
        """This member's id, "" before the first join."""
        return self._member_id

    @property
    def is_leader(self) -> bool:
        """Whether this worker leads, for certain, now."""
        return self.assignment.leader

    @property
    def leader_url(self) -> str | None:
        """The REST URL of the leader, None while it is unknown."""
        return self.assignment.leader_url

    @property
    def refusal(self) -> GroupRefusedError | NotAuthorized | None:
        """Why the broker does not let this worker back into the group; None if it is not refused."""
        return self._refusal

    @property
    def silence(self) -> Silence | None:
        """Since when and why the coordinator does not answer; None while the group assignment is certain, and before it."""
        return self._out or self._lease.silence(str(self._refusal or ""))

    def lease_remaining(self) -> float:
        """Seconds for which the group assignment is certain, whatever it is; 0 if it is not certain."""
        return self._lease.remaining()

    def leads_for(self) -> float:
        """Seconds for which this worker surely leads, so that it may write; 0 if it does not.

        The assignment alone says too little: a former leader has a certain one again before its tasks have ended.
        """
        return self.lease_remaining() if self._place.leader else 0.0

    def runs_for(self) -> float:
        """See interfaces.Membership. 0 beside a leader of version 1, which runs everything itself."""
        return self.lease_remaining() if self._place.leader or self._place.workers else 0.0

    def share(self, work: GroupWork) -> None:
        """See interfaces.Membership. Call it before `join`."""
        self._work, self._own = work, OwnClaims(work)
        self._decisions = LeaderDecisions(work.wanted, self._join_soon, delay_s=self._delay, clock=self._clock)

    @property
    def steady(self) -> bool:
        """See interfaces.Membership. Without work to share nothing moves between workers."""
        return self._steady or self._work is None

    def rebalances(self) -> RebalanceFigures | None:
        """See interfaces.Membership."""
        return self._rebalances.figures()

    @property
    def read_elsewhere(self) -> int:
        """The newest record of the config topic that any member has read, as far as this one has heard."""
        told = self._decisions.newest_read if self._decisions is not None and self._place.leader else NO_OFFSET
        return max(self._place.config_offset, told)

    def ask(self) -> None:
        """Joins again without any news, to hear how far the others have read the config topic."""
        if len(self._place.workers) > 1:
            self._asks = True
            self.rejoin()

    def rejoin(self) -> None:
        """See interfaces.Membership."""
        # A member that is alone has its answer in milliseconds, and a new connector waits for it.
        alone = len(self._place.workers) == 1
        self._join_soon(self._clock() + (0.0 if alone else _COALESCE_SECONDS))

    async def join(self, timeout: float = 60.0) -> None:
        """Joins the group and stays in it; see join_first. Call it before any write."""
        await join_first(self._enter, self._forget_member, session_s=self._session, timeout=timeout, clock=self._clock)
        self._keeper = asyncio.create_task(self._keep(), name="group-membership")
        await warn_of_consumers(self._steps, self._group_id)

    def _forget_member(self) -> None:
        self._member_id = ""

    async def leave(self, farewell_s: float = _FAREWELL_SECONDS, *, silently: bool = False) -> None:
        """Leaves the group, so that another worker takes over at once. The lease ends before the request is sent.

        If all that ran here has ended, the others are told so before, for `farewell_s` at most. Who is merely gone may have
        left requests behind, for which they would have to wait. `silently`: without a word. Others take over when this
        member's session is over, and with it each lease of its tasks.
        """
        await self._depart(farewell_s, silently=silently)
        await self._steps.close()

    async def step_out(self, why: str, *, silently: bool) -> None:
        """Leaves the group until `come_back`, in the same way. `why`: for people, behind "since when"."""
        self._out = SteppedOut(time.time(), why)
        await self._depart(_FAREWELL_SECONDS, silently=silently)

    def come_back(self) -> None:
        """Joins the group again, in the background."""
        self._out = None
        self._said_farewell.clear()
        if self._own is not None:
            self._own.leaving = False
        self._keeper = asyncio.create_task(self._keep(rejoin=True), name="group-membership")

    async def _depart(self, farewell_s: float, *, silently: bool) -> None:
        if farewell_s > 0 and not silently:
            await self._say_farewell(farewell_s)
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeper
        self._end_lease()
        if not silently:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LEAVE_SECONDS):
                    await self._steps.leave(self._member_id)
        self._member_id = ""

    async def _say_farewell(self, seconds: float) -> None:
        """Joins once more, without any claim: LeaveGroup alone says nothing of what has ended."""
        own = self._own
        if own is None or self._keeper is None or self.runs_for() <= 0 or len(self._place.workers) <= 1:
            return
        own.leaving = True
        now = own.now(self._place)
        if now.claims or now.confirmed:
            return
        self._join_soon(self._clock())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._said_farewell.wait()
                if self._place.leader:
                    # LeaveGroup ends the generation. Whoever has not asked for its assignment by then does not hear of it.
                    await asyncio.sleep(_SYNCED_SECONDS)

    async def _keep(self, *, rejoin: bool = False) -> None:
        while True:
            try:
                if rejoin:
                    await self._enter()
                    rejoin = False
                else:
                    if await self._pause():
                        await self._heartbeats.send(self._place.generation, self._member_id)
                    rejoin = self._has_news()
                self._refusal = None
            except (RebalanceNeeded, GenerationOver):
                # The assignment stays while all members join again; a leader that joins again stays the leader. Where the
                # group has gone on, it has done so with this member, whose answer was lost.
                rejoin = True
            except MembershipLost:
                # The others continued without us, perhaps with another leader: the old assignment is void.
                self._member_id = ""
                self._end_lease()
                rejoin = True
            except CoordinatorLost as problem:
                log.debug("Group membership: %s", problem)
                self._lease.no_answer(str(problem))
                await asyncio.sleep(RETRY_SECONDS)
            except (GroupRefusedError, NotAuthorized) as problem:
                if str(problem) != str(self._refusal):
                    log.error("Group membership: %s", problem)
                self._refusal, self._member_id, rejoin = problem, "", True
                self._end_lease()
                await asyncio.sleep(_REFUSED_RETRY_SECONDS)
            except Exception:
                # A bug, or an unforeseen answer. It is worse to stay out of the group for ever.
                log.exception("Group membership: unexpected error; joining the group again")
                self._member_id, rejoin = "", True
                self._end_lease()
                await asyncio.sleep(_REFUSED_RETRY_SECONDS)

    # Joining.

    async def _enter(self) -> None:
        """Joins and syncs once."""
        self._steady = False
        self._rebalances.begin()
        self._join_at = float("inf")
        joined = await self._heartbeats.during(
            self._steps.join(self._member_id, self._metadata()), self._place.generation, self._member_id
        )
        self._member_id = joined.member_id
        leads = joined.leader == joined.member_id
        if not leads and self._place.leader:
            # Before anything else: the new leader may start at any moment.
            self._lead_no_more()
        sent = self._clock()
        value = await self._heartbeats.during(self._synced(joined), joined.generation, self._member_id)
        assignment = assignment_from_bytes(value, self._clock())
        shared = assignment.version >= VERSION
        if not shared and not leads and self._own is not None and self._own.has_had_any:
            # A leader of version 1 starts everything at once, whoever claims it.
            self._end_lease()
        self._take(assignment, joined.generation, leads=leads)
        self._rebalances.end()
        # Whoever is told of the assignment may go by it at once.
        self._steady = True
        self._heartbeats.renew(sent, settled=True)
        if self._own is None:
            return
        if self._own.told.leaving:
            self._said_farewell.set()
        elif self._own.has_ended_some(self._place):
            # What it claimed when it joined has ended since then. Nothing else would tell the group.
            self.rejoin()

    def _metadata(self) -> bytes:
        now = self._clock()
        if self._work is None or self._own is None:
            return metadata_to_bytes(Metadata(self._url, version=1), now)
        said = self._own.say(self._place)
        metadata = Metadata(
            self._url,
            self._worker_id,
            offset=self._work.wanted().offset,
            claims=said.claims,
            confirmed=said.confirmed,
            seen=self._state,
            exactly_once=self._exactly_once,
            topics=self._topics,
            readiness=said.readiness,
            leaving=said.leaving,
        )
        return metadata_to_bytes(metadata, now)

    def _take(self, assignment: Assignment, generation: int, *, leads: bool) -> None:
        if assignment.version < VERSION:
            self._place = GroupAssignment(generation, leads, assignment.leader_url)
            return
        state, share = assignment.state.as_known_to(self._state), assignment.share
        self._place = GroupAssignment(
            generation,
            leads,
            assignment.leader_url,
            share.connectors,
            share.tasks,
            tuple(each.shown() for each in state.workers),
            tuple(each.shown() for each in state.lost),
            state.offset,
            min((each.until for each in state.held), default=None),
            assignment.fence if leads else frozenset(),
        )
        self._state, self._heartbeats.moving = state, assignment.moving
        if self._own is not None:
            self._own.assigned(self._place)
        if leads and self._place.delayed_until is not None:
            self._join_soon(self._place.delayed_until)

    async def _synced(self, joined: JoinGroupResponse) -> bytes:
        assignments = await self._assignments(joined) if joined.leader == joined.member_id else {}
        return await self._steps.sync(joined, assignments)

    async def _assignments(self, joined: JoinGroupResponse) -> dict[str, bytes]:
        if self._decisions is None or self._own is None:
            plain = Assignment(joined.member_id, self._url or None, version=1)
            return assignments_to_bytes(dict.fromkeys(joined.members, plain), self._clock())
        if self._own.now(self._place) == self._own.told:
            # What is asked for until now is what is decided on now.
            self._join_at = float("inf")
        return await self._decisions.assignments(joined, self._state)

    # Heartbeats and the lease.

    async def _pause(self) -> bool:
        """Until the next heartbeat, or until it is time to join again; whether it is the heartbeat's."""
        while (left := min(self._heartbeats.next, self._join_at) - self._clock()) > 0:
            due = self._heartbeats.next <= self._join_at
            self._woken.clear()
            try:
                async with asyncio.timeout(left):
                    await self._woken.wait()
            except TimeoutError:
                return due
        return self._heartbeats.next <= self._join_at

    def _join_soon(self, at: float) -> None:
        self._join_at = min(self._join_at, at)
        self._woken.set()

    def _has_news(self) -> bool:
        """Whether it is time to join again, and there is a reason: a leader's wish, or what a member has to say."""
        if self._clock() < self._join_at:
            return False
        self._join_at = float("inf")
        asks, self._asks = self._asks, False
        return self._own is not None and (asks or self._place.leader or self._own.has_news(self._place))

    def _lead_no_more(self) -> None:
        if self._work is None:
            self._end_lease()
        else:
            self._place = replace(self._place, leader=False, leader_url=None)
            self._report()

    def _end_lease(self) -> None:
        self._lease.end()
        self._steady = False
        self._place = GroupAssignment(self._place.generation)
        self._heartbeats.moving = False
        if self._own is not None:
            self._own.void()
        self._report()

    def _report(self) -> None:
        if self._lease_timer is not None:
            self._lease_timer.cancel()
            self._lease_timer = None
        assignment = self.assignment
        if assignment is not OUTSIDE:
            self._lease_timer = asyncio.get_running_loop().call_later(self.lease_remaining() + 0.01, self._report)
        if assignment != self._reported:
            self._reported = assignment
            if self._on_change is not None:
                try:
                    self._on_change(assignment)
                except Exception:
                    # Heartbeats must continue, or a bug in the herder would cost the group its leader.
                    log.exception("A bug while handling a change of group membership: %s", assignment)
