"""What members of a group and their leader tell each other, as JSON in JoinGroup and SyncGroup.

Version 1 has no shares: the leader runs everything. Its members read `leader` and `leader_url` of an assignment; its leader
reads `url` of a member. Later versions may add to that, but never remove anything. Unknown names are ignored.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from mirror_connect.app.group.assignor import NOTHING, Share
from mirror_connect.app.herder.interfaces import NO_GENERATION, GroupMember, LostMember
from mirror_connect.app.supervisor.readiness import Readiness
from mirror_connect.connectors.task_protocol import TaskId

VERSION: Final = 2
NO_OFFSET: Final = -1
# The broker keeps all metadata and assignments of a group in one record. Names of thousands of connectors would not fit.
_PACK_BYTES: Final = 4096
_PACKED: Final = "packed"


@dataclass(frozen=True, slots=True)
class Worker:
    """A member that runs a share. `share`: what it has been assigned, and what it has not surely ended yet.

    `exactly_once`: its `exactly.once.source.support`; empty if it did not say.
    """

    member: str
    url: str
    worker_id: str
    share: Share
    confirmed: Mapping[str, int] = field(default_factory=dict)
    exactly_once: str = ""

    def shown(self) -> GroupMember:
        """As the herder has it."""
        share = self.share
        return GroupMember(self.url, self.worker_id, share.connectors, share.tasks, self.confirmed, self.exactly_once)


@dataclass(frozen=True, slots=True)
class Lost:
    """A former member, with what it may have run. `lost_at`: not before it was lost, by this process's clock.

    `member`: its id in the group, which no other one ever has; empty if a leader of an older release has told of it.
    """

    worker_id: str
    share: Share
    confirmed: Mapping[str, int]
    lost_at: float
    member: str = ""

    def shown(self) -> LostMember:
        """As the herder has it."""
        return LostMember(self.worker_id, self.share.tasks, self.confirmed, self.lost_at, self.share.connectors)


@dataclass(frozen=True, slots=True)
class Held:
    """What a lost worker ran, and nobody gets `until` then, by this process's clock: it may come back."""

    worker_id: str
    share: Share
    until: float


@dataclass(frozen=True, slots=True)
class GroupState:
    """What the leader of a generation has decided. Every member has it, so that the next leader knows it, too.

    `offset`: of the config topic, up to which every member reads before it acts.
    """

    generation: int = NO_GENERATION
    offset: int = NO_OFFSET
    workers: tuple[Worker, ...] = ()
    lost: tuple[Lost, ...] = ()
    held: tuple[Held, ...] = ()

    def as_known_to(self, known: GroupState) -> GroupState:
        """With the times of losses of which this process has heard before. Each message makes them a little later."""
        at = {each.member: each.lost_at for each in known.lost if each.member}
        lost = tuple(replace(each, lost_at=min(each.lost_at, at.get(each.member, each.lost_at))) for each in self.lost)
        return replace(self, lost=lost)


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a member says when it joins. `seen`: the last group state that it has.

    `topics`: the config, offset and status topic; none if it did not say.
    `readiness`: whether its Spark can take tasks. `leaving`: all that it ran has ended, and it begins nothing more.
    """

    url: str
    worker_id: str = ""
    version: int = VERSION
    offset: int = NO_OFFSET
    claims: Share = NOTHING
    confirmed: Mapping[str, int] = field(default_factory=dict)
    seen: GroupState = field(default_factory=GroupState)
    exactly_once: str = ""
    topics: tuple[str, ...] = ()
    readiness: Readiness = Readiness.READY
    leaving: bool = False


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the leader gives one member. `moving`: something is about to move, so members should soon join again.

    `fence`: for the leader itself: tasks whose former processes may live, or have left a transaction, and that nobody runs.
    """

    leader: str
    leader_url: str | None
    version: int = VERSION
    share: Share = NOTHING
    state: GroupState = field(default_factory=GroupState)
    moving: bool = False
    fence: frozenset[TaskId] = frozenset()


def metadata_to_bytes(metadata: Metadata, now: float) -> bytes:
    """`now`: by the clock of the times in `metadata`."""
    return _to_bytes(
        {"version": metadata.version, "url": metadata.url},
        {
            "worker_id": metadata.worker_id,
            "offset": metadata.offset,
            **_share_to_json(metadata.claims),
            "confirmed": dict(metadata.confirmed),
            "seen": _state_to_json(metadata.seen, now),
            "topics": list(metadata.topics),
            "exactly_once": metadata.exactly_once,
            "ready": metadata.readiness is Readiness.READY,
            "failing": metadata.readiness is Readiness.FAILING,
            "leaving": metadata.leaving,
        },
    )


def metadata_from_bytes(value: bytes, now: float) -> Metadata:
    """Times are by this process's clock, which shows `now`. What can't be read is a member of version 1."""
    try:
        fields = _from_bytes(value)
        url, version = str(fields.get("url") or ""), int(fields.get("version", 1))
        if version < VERSION:
            return Metadata(url, version=version)
        return Metadata(
            url,
            str(fields["worker_id"]),
            version,
            int(fields["offset"]),
            _share_from_json(fields),
            _offsets(fields["confirmed"]),
            _state_from_json(fields["seen"], now),
            str(fields.get("exactly_once", "")),
            tuple(map(str, fields.get("topics") or ())),
            _readiness(fields),
            bool(fields.get("leaving")),
        )
    except (ValueError, KeyError, TypeError, AttributeError, zlib.error):
        return Metadata("", version=1)


def assignments_to_bytes(assignments: Mapping[str, Assignment], now: float) -> dict[str, bytes]:
    """By member id. `now`: by the clock of the times in `assignments`."""
    # It is the same for all, and most of it.
    states = {id(each.state): _state_to_json(each.state, now) for each in assignments.values()}
    return {
        member: _to_bytes(
            {"version": each.version, "leader": each.leader, "leader_url": each.leader_url},
            {
                **_share_to_json(each.share),
                **states[id(each.state)],
                "moving": each.moving,
                "fence": _numbers(each.fence),
            },
        )
        for member, each in assignments.items()
    }


def assignment_from_bytes(value: bytes, now: float) -> Assignment:
    """Times are by this process's clock, which shows `now`. What can't be read assigns nothing, of an unknown leader."""
    try:
        fields = _from_bytes(value)
        url = fields.get("leader_url")
        leader, leader_url = str(fields.get("leader", "")), url if isinstance(url, str) else None
        version = int(fields.get("version", 1))
        if version < VERSION:
            return Assignment(leader, leader_url, version)
        return Assignment(
            leader,
            leader_url,
            version,
            _share_from_json(fields),
            _state_from_json(fields, now),
            bool(fields.get("moving")),
            _tasks(fields.get("fence") or {}),
        )
    except (ValueError, KeyError, TypeError, AttributeError, zlib.error):
        return Assignment("", None, 1)


def _readiness(fields: Mapping[str, Any]) -> Readiness:
    # The first members of version 2 say nothing of it.
    if fields.get("ready", True):
        return Readiness.READY
    return Readiness.FAILING if fields.get("failing") else Readiness.STARTING


def _to_bytes(plain: Mapping[str, Any], rest: Mapping[str, Any]) -> bytes:
    """`plain` stays readable for version 1, however large the rest is."""
    text = json.dumps(rest, separators=(",", ":"))
    if len(text) > _PACK_BYTES:
        return json.dumps({**plain, _PACKED: base64.b64encode(zlib.compress(text.encode(), 6)).decode()}).encode()
    return json.dumps({**plain, **rest}, separators=(",", ":")).encode()


def _from_bytes(value: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(value)
    packed = fields.pop(_PACKED, None)
    return fields if packed is None else {**fields, **json.loads(zlib.decompress(base64.b64decode(packed)))}


def _share_to_json(share: Share) -> dict[str, Any]:
    return {"connectors": sorted(share.connectors), "tasks": _numbers(share.tasks)}


def _numbers(tasks: Iterable[TaskId]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for task in sorted(tasks):
        found.setdefault(task.connector, []).append(task.task)
    return found


def _share_from_json(fields: Mapping[str, Any]) -> Share:
    return Share(frozenset(map(str, fields["connectors"])), _tasks(fields["tasks"]))


def _tasks(fields: Mapping[str, Any]) -> frozenset[TaskId]:
    return frozenset(TaskId(str(name), int(number)) for name, numbers in fields.items() for number in numbers)


def _offsets(fields: Mapping[str, Any]) -> dict[str, int]:
    return {str(name): int(offset) for name, offset in fields.items()}


def _state_to_json(state: GroupState, now: float) -> dict[str, Any]:
    return {
        "generation": state.generation,
        "offset": state.offset,
        "workers": [
            {
                "member": each.member,
                "url": each.url,
                "worker_id": each.worker_id,
                **_share_to_json(each.share),
                "confirmed": dict(each.confirmed),
                "exactly_once": each.exactly_once,
            }
            for each in state.workers
        ],
        "lost": [
            {
                "member": each.member,
                "worker_id": each.worker_id,
                **_share_to_json(each.share),
                "confirmed": dict(each.confirmed),
                "ago_ms": _ms(now - each.lost_at),
            }
            for each in state.lost
        ],
        "held": [
            {"worker_id": each.worker_id, **_share_to_json(each.share), "left_ms": _ms(each.until - now)}
            for each in state.held
        ],
    }


def _state_from_json(fields: Mapping[str, Any], now: float) -> GroupState:
    return GroupState(
        int(fields["generation"]),
        int(fields["offset"]),
        tuple(
            Worker(
                str(each["member"]),
                str(each["url"]),
                str(each["worker_id"]),
                _share_from_json(each),
                _offsets(each["confirmed"]),
                str(each.get("exactly_once", "")),
            )
            for each in _each(fields, "workers")
        ),
        tuple(
            # The message may have been under way for a while: then it was lost earlier than this says, never later.
            Lost(
                str(each["worker_id"]),
                _share_from_json(each),
                _offsets(each["confirmed"]),
                now - each["ago_ms"] / 1000,
                str(each.get("member", "")),
            )
            for each in _each(fields, "lost")
        ),
        tuple(
            Held(str(each["worker_id"]), _share_from_json(each), now + each["left_ms"] / 1000)
            for each in _each(fields, "held")
        ),
    )


def _each(fields: Mapping[str, Any], name: str) -> Iterable[Mapping[str, Any]]:
    found: Iterable[Mapping[str, Any]] = fields[name]
    return found


def _ms(seconds: float) -> int:
    return max(0, int(seconds * 1000))
