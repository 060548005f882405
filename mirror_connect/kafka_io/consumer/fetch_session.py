"""Incremental fetch sessions (KIP-227), this side: what the broker knows already needn't be said again.

One for each broker. A thousand idle partitions then cost a request of a few bytes. A session names topics by id or by name,
to its end; by id as soon as all of them have one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from mirror_connect.kafka_io.protocol.wire import FULL_FETCH, NO_SESSION, FetchPartition, ForgottenPartition
from mirror_connect.kafka_io.protocol.wire_codec import (
    FETCH_SESSION_ID_NOT_FOUND,
    FETCH_SESSION_TOPIC_ID_ERROR,
    INVALID_FETCH_SESSION_EPOCH,
)

# Begun anew, there is nothing to tell.
LOST: Final = frozenset({FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR})
_LAST_EPOCH: Final = 2**31 - 1


class SessionRequest(NamedTuple):
    """The part of a Fetch that depends on the session. `names` as there."""

    partitions: list[FetchPartition]
    forgotten: list[ForgottenPartition]
    session_id: int
    session_epoch: int
    names: Mapping[bytes, str] | None


class FetchSession:
    """`request` → send → `answered` or `failed`; never two requests at a time."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = FULL_FETCH
        self._told: dict[tuple[str, int], FetchPartition] = {}
        self._names: dict[bytes, str] | None = None

    def request(
        self, wanted: Mapping[tuple[str, int], FetchPartition], news: Iterable[tuple[str, int]] | None = None
    ) -> SessionRequest:
        """All of `wanted` in a first request, afterwards the differences from what the broker was told before.

        `news`: the only keys in which there may be any since the last call; None: all.
        """
        if self._epoch != FULL_FETCH:
            keys = dict.fromkeys((*wanted, *self._told)) if news is None else news
            changed, forgotten = self._differences(wanted, keys)
            if self._learn_names(changed):
                return SessionRequest(changed, forgotten, self._id, self._epoch, self._names)
            self._epoch = FULL_FETCH
        self._told = dict(wanted)
        everything = list(wanted.values())
        self._names = {}
        if not self._learn_names(everything):
            self._names = None
        return SessionRequest(everything, [], self._id, FULL_FETCH, self._names)

    def _differences(
        self, wanted: Mapping[tuple[str, int], FetchPartition], keys: Iterable[tuple[str, int]]
    ) -> tuple[list[FetchPartition], list[ForgottenPartition]]:
        changed, forgotten, told = [], [], self._told
        for key in keys:
            now, former = wanted.get(key), told.get(key)
            if now == former:
                continue
            # Another id is another topic, so the former one is to be forgotten.
            if former is not None and (now is None or now.topic_id != former.topic_id):
                forgotten.append(ForgottenPartition(*key, former.topic_id))
            if now is None:
                del told[key]
            else:
                told[key] = now
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

    def asked(self, key: tuple[str, int]) -> FetchPartition | None:
        """What the request in flight wants of a partition."""
        return self._told.get(key)

    def answered(self, session_id: int) -> None:
        """The broker took the request; session id 0 says that it keeps no session (its cache is full)."""
        if session_id == NO_SESSION:
            self._id, self._epoch = NO_SESSION, FULL_FETCH
        else:
            self._id = session_id
            self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1

    def failed(self, error: int = 0) -> None:
        """No answer, or one that refused the session: begin a new one, naming the old one so that it is dropped."""
        self._epoch = FULL_FETCH
        if error == FETCH_SESSION_ID_NOT_FOUND:
            self._id = NO_SESSION
