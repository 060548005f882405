"""Incremental fetch sessions (KIP-227), this side: what the broker knows already needn't be said again.

One for each broker. A thousand idle partitions then cost a request of a few bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from mirror_connect.kafka_io.wire import FULL_FETCH, NO_SESSION, FetchPartition
from mirror_connect.kafka_io.wire_codec import FETCH_SESSION_ID_NOT_FOUND

_LAST_EPOCH: Final = 2**31 - 1


class SessionRequest(NamedTuple):
    """The part of a Fetch that depends on the session."""

    partitions: list[FetchPartition]
    forgotten: list[tuple[str, int]]
    session_id: int
    session_epoch: int


class FetchSession:
    """`request` → send → `answered` or `failed`; never two requests at a time."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = FULL_FETCH
        self._told: dict[tuple[str, int], FetchPartition] = {}

    def request(self, wanted: Mapping[tuple[str, int], FetchPartition]) -> SessionRequest:
        """All of `wanted` in a first request, afterwards the differences from what the broker was told before."""
        if self._epoch == FULL_FETCH:
            self._told = dict(wanted)
            return SessionRequest(list(wanted.values()), [], self._id, FULL_FETCH)
        changed = [partition for key, partition in wanted.items() if self._told.get(key) != partition]
        forgotten = [key for key in self._told if key not in wanted]
        self._told = dict(wanted)
        return SessionRequest(changed, forgotten, self._id, self._epoch)

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
