"""The consumer groups of a cluster, as somebody who is in none of them sees them: which there are, and their positions.

Not by an admin client: that asks for one group at a time, and hands metadata over cut off at the first NUL.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, TypeVar

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.rights import MissingRight, Resource, Right, on_group
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.connection import ConnectionLost, UnsupportedByBroker
from mirror_connect.kafka_io.protocol import wire_codec as codes
from mirror_connect.kafka_io.protocol.wire_codec import error_name
from mirror_connect.kafka_io.protocol.wire_groups import (
    CommitAnswer,
    FetchedOffsets,
    GroupEntry,
    ListGroups,
    OffsetCommit,
    OffsetFetch,
)

T = TypeVar("T")

UNKNOWN_MEMBER_ID: Final = 25
GROUP_AUTHORIZATION_FAILED: Final = 30
GROUP_ID_NOT_FOUND: Final = 69
# A group on its way from one coordinator to another, or one that moves while it is asked about.
_ASK_AGAIN: Final = frozenset(
    {codes.COORDINATOR_LOAD_IN_PROGRESS, codes.COORDINATOR_NOT_AVAILABLE, codes.NOT_COORDINATOR, 27}
)
_TRIES: Final = 4
_PAUSE_S: Final = 0.1
# More at once would only wait in the broker's queue.
_AT_ONCE: Final = 64
_SIMPLE: Final = ("", "consumer")
_EMPTY: Final = ("empty", "dead")


class GroupKind(Enum):
    """What a group is to somebody who translates positions."""

    CONSUMER = "consumer"  # of the classic or the new protocol, or without members ever
    OTHER = "other"  # of workers, schema registries …: holds no positions of consumers
    SHARE = "share"
    STREAMS = "streams"


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group. `active`: it has members; None where the broker is too old to say. `protocol_type`: of those of OTHER."""

    kind: GroupKind
    active: bool | None
    protocol_type: str = ""


class Position(NamedTuple):
    """Where a group goes on in a partition, and what its client noted beside it."""

    offset: int
    metadata: str


Positions = Mapping[tuple[str, int], Position]


@dataclass(frozen=True, slots=True)
class Read:
    """Positions of groups, by (topic, partition); and for each group that could not be read one line that says why."""

    positions: dict[str, Positions] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)


class ConsumerGroups:
    """Asks the brokers of one cluster. What concerns one group only is a line about that group, never an error.

    `user`: who logs in, for these lines.
    """

    def __init__(self, cluster: Cluster, user: str) -> None:
        self._cluster = cluster
        self._user = user
        self._coordinators: dict[str, int] = {}
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def listed(self) -> dict[str, ListedGroup]:
        """Every group that may be seen. NotAuthorized; ClusterUnreachable while a broker is silent: its groups count."""
        await self._cluster.refresh(())
        nodes = list(self._cluster.nodes)
        found: dict[str, ListedGroup] = {}
        for node, entries in zip(nodes, await asyncio.gather(*map(self._listed_by, nodes)), strict=True):
            for entry in entries:
                kind = _kind(entry)
                protocol_type = entry.protocol_type if kind is GroupKind.OTHER else ""
                found[entry.group] = ListedGroup(kind, _active(entry), protocol_type)
                self._coordinators[entry.group] = node
        return found

    async def read(self, groups: Collection[str]) -> Read:
        """The positions of these groups. One that may not be read, or doesn't answer, keeps no other from being read."""
        read = Read()
        answers = await asyncio.gather(*(self._fetched(group) for group in groups))
        for group, answer in zip(groups, answers, strict=True):
            if isinstance(answer, str):
                read.troubles[group] = answer
            else:
                read.positions[group] = {
                    (each.topic, each.partition): Position(each.offset, each.metadata)
                    for each in answer.offsets
                    if each.error == codes.NONE and each.offset >= 0
                }
        return read

    async def write(self, group: str, positions: Positions) -> dict[tuple[str, int], int] | str:
        """Sets positions of a group without members: error codes by partition, or a line if there was no answer.

        UNKNOWN_MEMBER_ID everywhere: it has members.
        """
        offsets = {partition: (each.offset, each.metadata) for partition, each in positions.items()}
        answer = await self._asked(
            group,
            lambda node: self._cluster.send(node, OffsetCommit(group, offsets)),
            _first_error,
            MissingRight(f"not authorized to set the positions of group {group}", on_group("READ", group), self._user),
        )
        return answer if isinstance(answer, str) else answer.errors

    async def _listed_by(self, node: int) -> Iterable[GroupEntry]:
        problem = ""
        for _ in range(_TRIES):
            try:
                answer = await self._cluster.send(node, ListGroups())
            except (ConnectionLost, UnsupportedByBroker) as error:
                problem = str(error)
            else:
                if answer.error == codes.NONE:
                    return answer.groups
                problem = f"broker {node} doesn't list its groups: {error_name(answer.error)}"
                if answer.error == codes.CLUSTER_AUTHORIZATION_FAILED:
                    right = Right("DESCRIBE", Resource.CLUSTER, note="or on its groups")
                    raise MissingRight(problem, right, self._user)
            await asyncio.sleep(_PAUSE_S)
        raise ClusterUnreachable(problem)

    async def _fetched(self, group: str) -> FetchedOffsets | str:
        return await self._asked(
            group,
            lambda node: self._cluster.send(node, OffsetFetch(group)),
            lambda answer: answer.error,
            MissingRight(
                f"not authorized to see the positions of group {group}", on_group("DESCRIBE", group), self._user
            ),
        )

    async def _asked(
        self, group: str, ask: Callable[[int], Awaitable[T]], error_of: Callable[[T], int], denied: MissingRight
    ) -> T | str:
        """The answer of the group's coordinator, or a line if there is none. `denied`: what it says if that is why."""
        problem = ""
        async with self._room:
            for _ in range(_TRIES):
                try:
                    node = self._coordinators.get(group)
                    if node is None:
                        node = self._coordinators[group] = await self._cluster.coordinator("group", group, self._user)
                    answer = await ask(node)
                except (ClusterUnreachable, ConnectionLost, UnsupportedByBroker) as error:
                    problem = str(error)
                except NotAuthorized as error:
                    return str(error)
                else:
                    code = error_of(answer)
                    if code == GROUP_AUTHORIZATION_FAILED:
                        return str(denied)
                    if code not in _ASK_AGAIN:
                        return answer if code in (codes.NONE, GROUP_ID_NOT_FOUND) else error_name(code)
                    problem = error_name(code)
                self._coordinators.pop(group, None)
                await asyncio.sleep(_PAUSE_S)
        return problem


def _first_error(answer: CommitAnswer) -> int:
    """What is wrong with the group as a whole; codes of single partitions are the caller's to read."""
    of_the_group = _ASK_AGAIN | {GROUP_AUTHORIZATION_FAILED}
    return next((code for code in answer.errors.values() if code in of_the_group), codes.NONE)


def _kind(entry: GroupEntry) -> GroupKind:
    for kind in (GroupKind.SHARE, GroupKind.STREAMS):
        if kind.value in (entry.kind.lower(), entry.protocol_type.lower()):
            return kind
    return GroupKind.CONSUMER if entry.protocol_type in _SIMPLE else GroupKind.OTHER


def _active(entry: GroupEntry) -> bool | None:
    return entry.state.lower() not in _EMPTY if entry.state else None
