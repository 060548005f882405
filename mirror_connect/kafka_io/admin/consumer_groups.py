"""The consumer groups of a cluster: lists them, reads and sets their committed offsets.

It does not use librdkafka's admin client: that asks for one group at a time, and cuts metadata off at the first NUL.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeVar

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.partitions import CommittedOffset, CommittedOffsets, TopicPartition
from mirror_connect.connectors.rights import MissingRight, Resource, Right, on_group
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.connection import ConnectionLost, UnsupportedByBroker
from mirror_connect.kafka_io.protocol.error_codes import COORDINATOR_MOVED, ErrorCode, error_name
from mirror_connect.kafka_io.protocol.groups import (
    DescribeGroups,
    DescribeGroupsResponse,
    GroupEntry,
    ListGroups,
    OffsetCommit,
    OffsetCommitResponse,
    OffsetFetch,
    OffsetFetchResponse,
)

T = TypeVar("T")

# The group's coordinator is moving, or the group rebalances while it is asked.
_ASK_AGAIN: Final = COORDINATOR_MOVED | {ErrorCode.REBALANCE_IN_PROGRESS}
_TRIES: Final = 4
_PAUSE_S: Final = 0.1
# More requests at once would only wait in the broker's queue.
_AT_ONCE: Final = 64
_SIMPLE: Final = ("", "consumer")
_EMPTY: Final = ("empty", "dead")


class GroupKind(Enum):
    """The kind of a group, for the translation of committed offsets."""

    CONSUMER = "consumer"  # of the classic or the new protocol, or one that never had members
    OTHER = "other"  # of workers, schema registries …: has no offsets of consumers
    SHARE = "share"
    STREAMS = "streams"


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group. `active`: it has members; None if the broker is too old to report that. `protocol_type`: for OTHER only."""

    kind: GroupKind
    active: bool | None
    protocol_type: str = ""


@dataclass(frozen=True, slots=True)
class Read:
    """The committed offsets of each group, and the reason for each group that could not be read."""

    committed: dict[str, CommittedOffsets] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)


class ConsumerGroups:
    """The consumer groups of one cluster. If one group can't be read or written, the result has a line about it, no error.

    `user`: who logs in, for these lines.
    """

    def __init__(self, cluster: Cluster, user: str) -> None:
        self._cluster = cluster
        self._user = user
        self._coordinators: dict[str, int] = {}
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def listed(self) -> dict[str, ListedGroup]:
        """Every visible group. NotAuthorized; ClusterUnreachable if any broker is silent, as its groups would be missing."""
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
        """The committed offsets of these groups. If one can't be read, the others still are."""
        read = Read()
        answers = await asyncio.gather(*(self._fetched(group) for group in groups))
        for group, answer in zip(groups, answers, strict=True):
            if isinstance(answer, str):
                read.problems[group] = answer
            else:
                read.committed[group] = {
                    TopicPartition(each.topic, each.partition): CommittedOffset(each.offset, each.metadata)
                    for each in answer.offsets
                    if each.error == ErrorCode.NONE and each.offset >= 0
                }
        return read

    async def write(self, group: str, offsets: CommittedOffsets) -> dict[TopicPartition, int] | str:
        """Commits offsets of a group without members. Returns error codes by partition, or a line if there was no answer.

        If all codes are UNKNOWN_MEMBER_ID, the group has members.
        """
        answer = await self._asked(
            group,
            lambda node: self._cluster.send(node, OffsetCommit(group, offsets)),
            _first_error,
            MissingRight(f"not authorized to commit offsets of group {group}", on_group("READ", group), self._user),
        )
        return answer if isinstance(answer, str) else answer.errors

    async def described(self, group: str) -> DescribeGroupsResponse | str:
        """The members of a group of the classic protocol, or a line if it can't be asked."""
        return await self._asked(
            group,
            lambda node: self._cluster.send(node, DescribeGroups(group)),
            lambda answer: answer.error,
            MissingRight(f"not authorized to describe group {group}", on_group("DESCRIBE", group), self._user),
        )

    async def _listed_by(self, node: int) -> Iterable[GroupEntry]:
        problem = ""
        for _ in range(_TRIES):
            try:
                answer = await self._cluster.send(node, ListGroups())
            except (ConnectionLost, UnsupportedByBroker) as error:
                problem = str(error)
            else:
                if answer.error == ErrorCode.NONE:
                    return answer.groups
                problem = f"broker {node} doesn't list its groups: {error_name(answer.error)}"
                if answer.error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                    right = Right("DESCRIBE", Resource.CLUSTER, note="or on its groups")
                    raise MissingRight(problem, right, self._user)
            await asyncio.sleep(_PAUSE_S)
        raise ClusterUnreachable(problem)

    async def _fetched(self, group: str) -> OffsetFetchResponse | str:
        return await self._asked(
            group,
            lambda node: self._cluster.send(node, OffsetFetch(group)),
            lambda answer: answer.error,
            MissingRight(
                f"not authorized to read the committed offsets of group {group}",
                on_group("DESCRIBE", group),
                self._user,
            ),
        )

    async def _asked(
        self, group: str, ask: Callable[[int], Awaitable[T]], error_of: Callable[[T], int], denied: MissingRight
    ) -> T | str:
        """The answer of the group's coordinator, or a line if there is none. `denied`: the line if a right is missing."""
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
                    if code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
                        return str(denied)
                    if code not in _ASK_AGAIN:
                        return answer if code in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND) else error_name(code)
                    problem = error_name(code)
                self._coordinators.pop(group, None)
                await asyncio.sleep(_PAUSE_S)
        return problem


def _first_error(answer: OffsetCommitResponse) -> int:
    """The error of the group as a whole. The caller reads the codes of single partitions."""
    of_the_group = _ASK_AGAIN | {ErrorCode.GROUP_AUTHORIZATION_FAILED}
    return next((code for code in answer.errors.values() if code in of_the_group), ErrorCode.NONE)


def _kind(entry: GroupEntry) -> GroupKind:
    for kind in (GroupKind.SHARE, GroupKind.STREAMS):
        if kind.value in (entry.kind.lower(), entry.protocol_type.lower()):
            return kind
    return GroupKind.CONSUMER if entry.protocol_type in _SIMPLE else GroupKind.OTHER


def _active(entry: GroupEntry) -> bool | None:
    return entry.state.lower() not in _EMPTY if entry.state else None
