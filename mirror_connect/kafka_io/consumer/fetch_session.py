"""The client's side of incremental fetch sessions (KIP-227): a request names only what changed since the last.

There is one session for each broker. With it, a thousand idle partitions cost a request of a few bytes. A session names
topics by id if all of them have one, or else by name, and cannot change that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode
from mirror_connect.kafka_io.protocol.fetch import FULL_FETCH, NO_SESSION, FetchPartition, ForgottenPartition

# A new session solves these; users need not know.
LOST: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
_LAST_EPOCH: Final = 2**31 - 1


class SessionRequest(NamedTuple):
    """The part of a Fetch that depends on the session. `names`: see Fetch."""

    partitions: list[FetchPartition]
    forgotten: list[ForgottenPartition]
    session_id: int
    session_epoch: int
    names: Mapping[bytes, str] | None


class FetchSession:
    """One session: `request` → send → `answered` or `failed`. Never two requests at a time."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = FULL_FETCH
        self._asked: dict[TopicPartition, FetchPartition] = {}
        self._names: dict[bytes, str] | None = None

    def request(
        self, wanted: Mapping[TopicPartition, FetchPartition], changed: Iterable[TopicPartition] | None = None
    ) -> SessionRequest:
        """All of `wanted` in the first request; afterwards the differences from the requests before.

        `changed`: the partitions that may differ since the last call; None: any of them.
        """
        if self._epoch != FULL_FETCH:
            keys = dict.fromkeys((*wanted, *self._asked)) if changed is None else changed
            differing, forgotten = self._differences(wanted, keys)
            if self._learn_names(differing):
                return SessionRequest(differing, forgotten, self._id, self._epoch, self._names)
            self._epoch = FULL_FETCH
        self._asked = dict(wanted)
        everything = list(wanted.values())
        self._names = {}
        if not self._learn_names(everything):
            self._names = None
        return SessionRequest(everything, [], self._id, FULL_FETCH, self._names)

    def _differences(
        self, wanted: Mapping[TopicPartition, FetchPartition], keys: Iterable[TopicPartition]
    ) -> tuple[list[FetchPartition], list[ForgottenPartition]]:
        changed, forgotten, asked = [], [], self._asked
        for key in keys:
            now, former = wanted.get(key), asked.get(key)
            if now == former:
                continue
            # Another id is another topic, so the broker must forget the former one.
            if former is not None and (now is None or now.topic_id != former.topic_id):
                forgotten.append(ForgottenPartition(*key, former.topic_id))
            if now is None:
                del asked[key]
            else:
                asked[key] = now
                changed.append(now)
        return changed, forgotten

    def _learn_names(self, partitions: Iterable[FetchPartition]) -> bool:
        """False if the session can't name these as it names the others."""
        names = self._names
        if names is None:
            return True
        for partition in partitions:
            if not partition.topic_id:
                return False
            names[partition.topic_id] = partition.topic
        return True

    def asked(self, key: TopicPartition) -> FetchPartition | None:
        """What the request in flight wants of this partition."""
        return self._asked.get(key)

    def answered(self, session_id: int) -> None:
        """The broker accepted the request. Session id 0: it keeps no session, because its cache is full."""
        if session_id == NO_SESSION:
            self._id, self._epoch = NO_SESSION, FULL_FETCH
        else:
            self._id = session_id
            self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1

    def failed(self, error: int = 0) -> None:
        """No answer, or the session was refused: the next request begins a new one, and names the old one to drop it."""
        self._epoch = FULL_FETCH
        if error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._id = NO_SESSION
