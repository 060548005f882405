"""The worker group: which member leads, how to reach it, and how long this worker's group assignment is certain.

The broker's group coordinator chooses the leader.

The group's leader runs every connector; the other members stand by and answer reads. The protocol name is our own, so
the broker keeps Java workers and us out of one group: they could not agree on who runs what.

**Lease.** A group assignment is certain only for session.timeout.ms after the worker *sent* a heartbeat that the coordinator
accepted, minus two seconds for requests in flight. After that another worker may lead, so this worker must not write. The
clock also counts while the process is stopped or the machine sleeps.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from mirror_connect.app.herder.interfaces import OUTSIDE, GroupAssignment, GroupWork, Silence
from mirror_connect.connectors.clock import boot_clock
from mirror_connect.connectors.errors import ClusterUnreachable, GroupRefusedError, NotAuthorized
from mirror_connect.kafka_io.client.connection import UnsupportedByBroker
from mirror_connect.kafka_io.client.group_membership import (
    CoordinatorLost,
    GroupClient,
    GroupSettings,
    HeldByOthers,
    MembershipLost,
    RebalanceNeeded,
)
from mirror_connect.kafka_io.protocol.group_protocol import JoinGroupResponse

log = logging.getLogger(__name__)

PROTOCOL_TYPE: Final = "connect"
PROTOCOL: Final = "mirror-connect"
MARGIN_SECONDS: Final = 2.0

_VERSION: Final = 1
_RETRY_SECONDS: Final = 0.25
_REFUSED_RETRY_SECONDS: Final = 5.0
_LEAVE_SECONDS: Final = 3.0
# How long after the end of a dead member's session a broker may still keep others out.
_SESSION_END_SECONDS: Final = 3.0
_TOPICS_SHOWN: Final = 3


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
    the lease over (OUTSIDE) or regained. `url` is this worker's advertised REST URL.
    """

    def __init__(
        self,
        steps: GroupSteps,
        url: str,
        *,
        group_id: str,
        session_timeout_ms: int,
        heartbeat_interval_ms: int,
        on_change: Callable[[GroupAssignment], None] | None = None,
        clock: Callable[[], float] = boot_clock,
    ) -> None:
        self._steps = steps
        self._url = url
        self._group_id = group_id
        self._session = session_timeout_ms / 1000
        self._interval = heartbeat_interval_ms / 1000
        self._on_change = on_change
        self._clock = clock
        self._member_id = ""
        self._place = OUTSIDE
        self._reported = OUTSIDE
        self._lease_until = float("-inf")
        self._last_beat = float("-inf")
        # When the coordinator last answered, in seconds since 1970 and by the clock; and why it has not answered since.
        self._last_answer: tuple[float, float] | None = None
        self._problem: str | None = None
        self._lease_timer: asyncio.TimerHandle | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._refusal: GroupRefusedError | NotAuthorized | None = None
        self._work: GroupWork | None = None

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
        if self._last_answer is None or self.lease_remaining() > 0:
            return None
        since, at = self._last_answer
        overdue = "its heartbeats get no answer" if self._clock() - at > self._session else ""
        why = self._problem or str(self._refusal or overdue)
        return Silence(since, why) if why else None

    def lease_remaining(self) -> float:
        """Seconds for which the group assignment is certain, as the leader or on standby; 0 if it is not certain."""
        return max(0.0, self._lease_until - self._clock())

    def leads_for(self) -> float:
        """Seconds for which this worker surely leads, so it and its tasks may write; 0 on standby.

        The assignment alone says too little: a former leader has a certain one again before its tasks have ended.
        """
        return self.lease_remaining() if self._place.leader else 0.0

    def runs_for(self) -> float:
        """See interfaces.Membership. As the leader runs everything: the same as `leads_for`."""
        return self.leads_for()

    def share(self, work: GroupWork) -> None:
        """See interfaces.Membership."""
        self._work = work

    @property
    def steady(self) -> bool:
        """See interfaces.Membership. Nothing moves between workers yet."""
        return True

    def rejoin(self) -> None:
        """See interfaces.Membership."""

    async def join(self, timeout: float = 60.0) -> None:
        """Joins the group and stays in it. Call it before any write.

        If members of another kind are in the group, this waits as long as a dead member may stay. The broker shows neither
        whether they are alive nor their session.timeout.ms. We assume our own: a Java worker has the same properties file.

        Raises GroupRefusedError (one line with what to do), NotAuthorized, ClusterUnreachable after `timeout` seconds
        without a coordinator.
        """
        deadline = self._clock() + timeout
        begun = since = self._clock()
        patience = self._session + _SESSION_END_SECONDS
        held = False
        while True:
            try:
                await self._enter()
                break
            except CoordinatorLost as problem:
                if self._clock() + _RETRY_SECONDS > deadline:
                    raise ClusterUnreachable(str(problem)) from None
                await asyncio.sleep(_RETRY_SECONDS)
                # The next coordinator counts the session of a dead member again.
                since = self._clock()
            except MembershipLost:
                self._member_id = ""
            except RebalanceNeeded:
                pass
            except HeldByOthers as problem:
                now = self._clock()
                if not held:
                    held, begun, since = True, now, now
                    log.warning("%s. %s", problem, _waits(patience))
                elif now - since > patience:
                    raise HeldByOthers(
                        f"{problem} (this worker waited {patience:g} s: they are alive, or have a longer "
                        f"session.timeout.ms than this worker ({self._session * 1000:.0f}))"
                    ) from None
                deadline = now + timeout
                await asyncio.sleep(_RETRY_SECONDS)
        if held:
            log.info(
                "The members of another kind have left the group after %.0f s; this worker has joined it",
                self._clock() - begun,
            )
        self._keeper = asyncio.create_task(self._keep(), name="group-membership")
        await self._warn_of_consumers()

    async def leave(self) -> None:
        """Leaves the group, so that another worker takes over at once. The lease ends before the request is sent."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeper
        self._end_lease()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self._steps.leave(self._member_id)
        self._member_id = ""
        await self._steps.close()

    async def _warn_of_consumers(self) -> None:
        """Warns if group.id names a consumer group. The broker lets a worker into one that has no members now."""
        try:
            topics = await self._steps.consumed_topics()
        except (CoordinatorLost, NotAuthorized, UnsupportedByBroker) as problem:
            log.debug("Group membership: %s", problem)
            return
        if topics:
            shown = ", ".join(topics[:_TOPICS_SHOWN]) + (", …" if len(topics) > _TOPICS_SHOWN else "")
            log.warning(
                "group.id=%s is also a consumer group with committed offsets in %s. The broker refuses its consumers while "
                "a worker runs. Choose another group.id, or delete that group if it is unused",
                self._group_id,
                shown,
            )

    async def _keep(self) -> None:
        rejoin = False
        while True:
            try:
                if rejoin:
                    await self._enter()
                    rejoin = False
                else:
                    await asyncio.sleep(self._last_beat + self._interval - self._clock())
                    await self._beat()
                self._refusal = None
            except RebalanceNeeded:
                # The assignment stays while all members join again; a leader that joins again stays the leader.
                rejoin = True
            except MembershipLost:
                # The others continued without us, perhaps with another leader: the old assignment is void.
                self._member_id = ""
                self._end_lease()
                rejoin = True
            except CoordinatorLost as problem:
                log.debug("Group membership: %s", problem)
                self._problem = str(problem)
                self._last_beat = float("-inf")
                await asyncio.sleep(_RETRY_SECONDS)
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

    async def _enter(self) -> None:
        """Joins and syncs once."""
        joined = await self._steps.join(self._member_id, _metadata(self._url))
        self._member_id = joined.member_id
        leads = joined.leader == joined.member_id
        if not leads and self._place.leader:
            # Before anything else: the new leader may start at any moment.
            self._end_lease()
        sent = self._clock()
        assignment = await self._steps.sync(joined, _assignments(joined) if leads else {})
        self._place = GroupAssignment(joined.generation, leads, _leader_url(assignment))
        self._renew(sent)

    async def _beat(self) -> None:
        sent = self._clock()
        await self._steps.heartbeat(self._place.generation, self._member_id)
        self._renew(sent)

    def _renew(self, sent: float) -> None:
        self._last_beat = sent
        self._last_answer, self._problem = (time.time(), self._clock()), None
        self._lease_until = sent + self._session - MARGIN_SECONDS
        self._report()

    def _end_lease(self) -> None:
        self._lease_until = float("-inf")
        self._place = GroupAssignment(self._place.generation)
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


def _waits(seconds: float) -> str:
    until = time.strftime("%H:%M:%S UTC", time.gmtime(time.time() + seconds))
    return (
        f"A killed worker stays a member until its session.timeout.ms is over. This worker waits until {until} "
        f"({seconds:g} s), and exits if they are still members"
    )


def _metadata(url: str) -> bytes:
    return json.dumps({"version": _VERSION, "url": url}).encode()


def _assignments(joined: JoinGroupResponse) -> dict[str, bytes]:
    """The leader's id and URL, for each member. Later versions may add to it, but never remove anything."""
    url = json.loads(joined.members[joined.member_id])["url"]
    assignment = json.dumps({"version": _VERSION, "leader": joined.member_id, "leader_url": url}).encode()
    return dict.fromkeys(joined.members, assignment)


def _leader_url(assignment: bytes) -> str | None:
    try:
        url = json.loads(assignment)["leader_url"]
    except (ValueError, KeyError, TypeError):
        return None
    return url if isinstance(url, str) else None
