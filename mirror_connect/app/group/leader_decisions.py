"""What the group's leader does between JoinGroup and SyncGroup: it reads up, decides (decisions.py), answers each member."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from mirror_connect.app.group.decisions import Joined, decide, last_state
from mirror_connect.app.group.messages import NO_OFFSET, GroupState, Metadata, assignments_to_bytes, metadata_from_bytes
from mirror_connect.app.herder.interfaces import WantedWork
from mirror_connect.kafka_io.protocol.group_protocol import JoinGroupResponse

log = logging.getLogger(__name__)

# How long a leader waits for a record of the config topic that another member has read already, before it decides nothing;
# and after how long it says that it does.
CATCH_UP_SECONDS: Final = 2.0
BEHIND_SECONDS: Final = 15.0
POLL_SECONDS: Final = 0.05
RETRY_SECONDS: Final = 0.25
# Decisions on more tasks than that are made in a thread.
MANY: Final = 200
# Half of what a broker takes by default (message.max.bytes). It keeps all messages of a group's members in one record.
LARGE_BYTES: Final = 512 << 10


class LeaderDecisions:
    """See the module. `wanted`: what the config topic asks for. `join_soon` has all join again at a time of `clock`.

    `delay_s`: for how long what a lost worker ran waits for it.
    """

    def __init__(
        self,
        wanted: Callable[[], WantedWork],
        join_soon: Callable[[float], None],
        *,
        delay_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._wanted = wanted
        self._join_soon = join_soon
        self._delay_s = delay_s
        self._clock = clock
        self._behind_since: float | None = None
        self._told_addresses: set[str] = set()
        self._told_size = False
        # The newest record of the config topic that any member had read when the group last joined.
        self.newest_read = NO_OFFSET

    async def assignments(self, joined: JoinGroupResponse, known: GroupState) -> dict[str, bytes]:
        """The assignment of each member. `known`: what this worker last heard of the group."""
        now = self._clock()
        members = {name: metadata_from_bytes(value, now) for name, value in joined.members.items()}
        self._note_shared_addresses(members)
        group = Joined(joined.generation, joined.member_id, members)
        before = last_state(known, group)
        self.newest_read = max(before.offset, *(each.offset for each in members.values()))
        wanted = await self._read_up(self.newest_read)

        def answers() -> dict[str, bytes]:
            at = self._clock()
            decided = decide(
                group,
                wanted,
                before,
                now=at,
                delay_s=self._delay_s,
                has_missed=known.generation != before.generation,
            )
            return assignments_to_bytes(decided, at)

        many = sum(wanted.connectors.values() if wanted is not None else ()) > MANY
        found = await asyncio.to_thread(answers) if many else answers()
        self._note_size(sum(map(len, (*joined.members.values(), *found.values()))), len(members))
        return found

    async def _read_up(self, offset: int) -> WantedWork | None:
        """What is wanted, read at least up to `offset`, as other members have; None if that takes too long.

        None, too, if this worker has read nothing yet: it asks to join again when it has.
        """
        begun = self._clock()
        while (wanted := self._wanted()).offset < offset:
            now = self._clock()
            if now - begun > CATCH_UP_SECONDS:
                self._note_lag(now, wanted.offset, offset)
                self._join_soon(now + RETRY_SECONDS)
                return None
            await asyncio.sleep(POLL_SECONDS)
        self._behind_since = None
        return wanted if wanted.offset > NO_OFFSET else None

    def _note_shared_addresses(self, members: Mapping[str, Metadata]) -> None:
        """A worker that was killed is no member any more when the one that was started in its place has joined."""
        shared = {url for url, count in Counter(each.url for each in members.values()).items() if url and count > 1}
        for url in sorted(shared - self._told_addresses):
            log.error(
                "Several workers of the group have the address %s: requests between workers reach only one of them. Set "
                "rest.advertised.host.name and rest.advertised.port at each of them",
                url,
            )
        self._told_addresses = shared

    def _note_size(self, size: int, members: int) -> None:
        if size > LARGE_BYTES and not self._told_size:
            log.warning(
                "The brokers keep %d KiB of this group with %d workers in one record of __consumer_offsets. Beyond their "
                "message.max.bytes no worker can join any more: use fewer workers or fewer connectors, or raise it "
                "(max.message.bytes of that topic)",
                size >> 10,
                members,
            )
        self._told_size = size > LARGE_BYTES

    def _note_lag(self, now: float, own: int, offset: int) -> None:
        if self._behind_since is None:
            self._behind_since = now
        elif now - self._behind_since > BEHIND_SECONDS:
            self._behind_since = now
            log.warning(
                "Nothing new is started in the group: another member has read connect-configs to offset %d, this leader "
                "only to %d. If the topic was deleted and made again, restart all workers",
                offset,
                own,
            )
