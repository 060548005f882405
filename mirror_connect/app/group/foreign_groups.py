"""Workers of another group that use the topics of this one: everything would run twice, and each would undo the other.

The broker does not know which topics a group of workers uses, and members of Java's do not say it. But whoever runs a
connector writes its status, with its own worker_id, to the status topic. So another group uses this one's topics if a live
member of it has been assigned a connector that the status topic shows at that very worker. What a group of another name left
behind has no live members, so a group that was renamed is no false alarm. One that runs nothing yet is found when it does.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from mirror_connect.app.group.messages import VERSION, assignment_from_bytes, metadata_from_bytes
from mirror_connect.app.herder.lifecycle import State
from mirror_connect.app.storage.status import StatusStore
from mirror_connect.kafka_io.protocol.groups import DescribeGroupsResponse, MemberEntry

# The protocols of Java's workers: sessioned, compatible, eager.
_JAVAS: Final = frozenset({"sessioned", "compatible", "default"})
_STABLE: Final = "Stable"


@dataclass(frozen=True, slots=True)
class ForeignMember:
    """A worker of another group. `connectors`: those of which it runs something; None if it does not say."""

    worker_id: str
    connectors: frozenset[str] | None


def members_of(group: DescribeGroupsResponse, own_protocol: str) -> list[ForeignMember]:
    """The workers in a group that does not rebalance. Others are left out: a schema registry has that type, too."""
    read = _own_member if group.protocol == own_protocol else _java_member if group.protocol in _JAVAS else None
    if read is None or group.state != _STABLE:
        return []
    found = []
    for entry in group.members:
        try:
            found.append(read(entry))
        except (ValueError, struct.error, IndexError):
            continue
    return found


def shared_connector(
    members: Iterable[ForeignMember], statuses: StatusStore, own_worker_id: str
) -> tuple[ForeignMember, str] | None:
    """A foreign worker, and a connector of this worker's topics that it runs; None if there is none.

    A member with `own_worker_id` is this worker, before it was killed and got another group.id.
    """
    runs = dict(_running(statuses))
    for member in members:
        if member.worker_id == own_worker_id:
            continue
        for connector, workers in sorted(runs.items()):
            if member.connectors is not None and connector not in member.connectors:
                continue
            if any(each == member.worker_id or each.startswith(f"{member.worker_id}/") for each in workers):
                return member, connector
    return None


def _running(statuses: StatusStore) -> Iterator[tuple[str, frozenset[str]]]:
    """Each connector, with the workers that run it or a task of it by the newest statuses."""
    for name in statuses.connectors():
        connector = statuses.connector(name)
        every = [*([connector] if connector else []), *statuses.tasks(name).values()]
        yield name, frozenset(each.worker_id for each in every if each.state != State.UNASSIGNED)


def _own_member(entry: MemberEntry) -> ForeignMember:
    metadata = metadata_from_bytes(entry.metadata, 0.0)
    assignment = assignment_from_bytes(entry.assignment, 0.0)
    share = assignment.share
    every = share.connectors | {task.connector for task in share.tasks}
    # In version 1 the leader runs everything, and its assignment does not say what that is.
    return ForeignMember(
        metadata.worker_id or _worker_id(metadata.url), every if assignment.version >= VERSION else None
    )


def _java_member(entry: MemberEntry) -> ForeignMember:
    """By (IncrementalCooperative)ConnectProtocol: an assignment has what is new, the metadata the rest."""
    fields = _Java(entry.metadata)
    version = fields.short()
    url = fields.text()
    fields.long()
    running = _java_connectors(fields.bytes_()) if version > 0 and fields.left else frozenset()
    return ForeignMember(_worker_id(url), running | _java_connectors(entry.assignment))


def _java_connectors(assignment: bytes) -> frozenset[str]:
    if not assignment:
        return frozenset()
    fields = _Java(assignment)
    fields.short()
    fields.short()
    fields.text()
    fields.text()
    fields.long()
    found = set()
    for _ in range(max(0, fields.int_()) if fields.left else 0):
        found.add(fields.text())
        for _ in range(fields.int_()):
            fields.int_()
    return frozenset(found)


def _worker_id(url: str) -> str:
    return urlsplit(url).netloc


class _Java:
    """Reads the types of Kafka's protocol, in the versions of Connect's that never change. ValueError, struct.error."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> bool:
        return self._at < len(self._data)

    def short(self) -> int:
        return self._number(">h")

    def int_(self) -> int:
        return self._number(">i")

    def long(self) -> int:
        return self._number(">q")

    def text(self) -> str:
        return self._take(self.short()).decode()

    def bytes_(self) -> bytes:
        return self._take(max(0, self.int_()))

    def _number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return int(value)

    def _take(self, length: int) -> bytes:
        if length < 0 or self._at + length > len(self._data):
            raise ValueError(length)
        self._at += length
        return self._data[self._at - length : self._at]
