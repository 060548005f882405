"""What the fetcher knows of one partition, and what the error codes of a fetch mean for it."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from mirror_connect.kafka_io import wire_codec as codes
from mirror_connect.kafka_io.wire import FetchPartition
from mirror_connect.spark_jobs.fetched import SourcePartition

NOWHERE: Final = -1

# The leader has changed, or hasn't arrived yet, or the broker lags behind: ask for metadata and go on, say nothing.
LEADERSHIP_ERRORS: Final = frozenset(
    {
        codes.LEADER_NOT_AVAILABLE,
        codes.NOT_LEADER,
        codes.REPLICA_NOT_AVAILABLE,
        codes.FENCED_LEADER_EPOCH,
        codes.UNKNOWN_LEADER_EPOCH,
        codes.OFFSET_NOT_AVAILABLE,
        codes.KAFKA_STORAGE_ERROR,
        codes.REQUEST_TIMED_OUT,
    }
)
_SLOWEST_RETRY: Final = 5.0
_EXPLAINED: Final = {
    codes.UNKNOWN_TOPIC_OR_PARTITION: "does not exist on the source cluster; it is read as soon as it does",
    codes.TOPIC_AUTHORIZATION_FAILED: "may not be read: grant READ on the topic to the source user",
}


class PartitionState(NamedTuple):
    """Where a partition stands: next offset to fetch (None: not known yet), end and start of its log as last heard.

    `error`: one line, when the partition can't be read at present; "" otherwise. `failed`: it will not be tried again.
    """

    position: int | None
    high_watermark: int
    log_start: int
    error: str
    failed: bool

    @property
    def denied(self) -> bool:
        """Whether the right to read it is missing."""
        return _EXPLAINED[codes.TOPIC_AUTHORIZATION_FAILED] in self.error


class PartitionWork:
    """One added partition. `node`: the broker it is read from, NOWHERE while none is known.

    `lost`: the position that was out of range, while the new one is being looked up. `timestamp`: where to begin when
    `position` is None, if that isn't what auto.offset.reset says. Times are those of time.monotonic().
    """

    __slots__ = (
        "_failures",
        "_wanted",
        "error",
        "failed",
        "high_watermark",
        "key",
        "log_start",
        "lost",
        "node",
        "position",
        "preferred",
        "preferred_until",
        "retry_at",
        "timestamp",
        "topic_id",
        "unreleased",
    )

    def __init__(self, key: SourcePartition, position: int | None) -> None:
        self.key = key
        self.position = position
        self.node = NOWHERE
        self.preferred = NOWHERE
        self.preferred_until = 0.0
        self.topic_id: bytes | None = None
        self.high_watermark = -1
        self.log_start = -1
        self.error = ""
        self.failed = False
        self.retry_at = 0.0
        self.unreleased = 0
        self.lost: int | None = None
        self.timestamp: int | None = None
        self._failures = 0
        self._wanted: FetchPartition | None = None

    @property
    def view(self) -> PartitionState:
        """As others may see it."""
        return PartitionState(self.position, self.high_watermark, self.log_start, self.error, self.failed)

    @property
    def max_bytes(self) -> int:
        """What was last asked for at once; 0 before the first fetch."""
        return 0 if self._wanted is None else self._wanted.max_bytes

    def wanted(self, leader_epoch: int, max_bytes: int) -> FetchPartition:
        """The entry for the next fetch. The size stays as it is while the position does: nothing to tell the broker."""
        assert self.position is not None
        known = self._wanted
        if known is None or known.offset != self.position or known.leader_epoch != leader_epoch:
            known = FetchPartition(*self.key, self.position, max_bytes, leader_epoch)
            self._wanted = known
        return known

    def is_due(self) -> bool:
        """Whether it may be tried now."""
        return not self.failed and (self._failures == 0 or time.monotonic() >= self.retry_at)

    def back_off(self, first: float, longest: float = _SLOWEST_RETRY) -> None:
        """Try again later: `first` seconds, twice as long each time in a row."""
        pause = min(first * 2**self._failures, longest)
        self._failures = min(self._failures + 1, 16)
        self.retry_at = time.monotonic() + pause

    def explain(self, code: int) -> str | None:
        """Note an error that a user should hear of; returns the line unless it was said already."""
        what = _EXPLAINED.get(code) or f"can't be read at offset {self.position}: {codes.error_name(code)}"
        line = f"source partition {self.key} {what}"
        if self.error == line:
            return None
        self.error = line
        return line

    def succeeded(self) -> str | None:
        """It was read; returns a line to say so after an error that was said."""
        self._failures = 0
        said, self.error = self.error, ""
        return f"source partition {self.key} is read again from offset {self.position}" if said else None

    def moved(self, position: int) -> str:
        """Take the position found instead of `lost`; returns the line that names what was skipped or is repeated."""
        lost, self.lost, self.timestamp, self.position = self.lost, None, None, position
        if lost is None:
            return ""
        if position > lost:
            return (
                f"source partition {self.key}: offsets {lost} to {position - 1} are gone from the source "
                f"(retention or deleted records): {position - lost} offsets skipped, reading on at {position}"
            )
        return (
            f"source partition {self.key}: offset {lost} lies beyond the end of the source's log "
            f"(truncated or re-created): reading again from offset {position}"
        )
