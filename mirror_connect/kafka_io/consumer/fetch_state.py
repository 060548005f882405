"""What the fetcher knows of one partition, and what the error codes of a fetch mean for it."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from mirror_connect.connectors.records.positions import NO_EPOCH
from mirror_connect.connectors.rights import MissingRight, on_topic, user_at
from mirror_connect.kafka_io.consumer.fetched import SourcePartition
from mirror_connect.kafka_io.consumer.leader_epochs import LeaderEpochs, divergence
from mirror_connect.kafka_io.protocol import wire_codec as codes
from mirror_connect.kafka_io.protocol.wire import NO_TOPIC_ID, FetchPartition

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
        codes.UNKNOWN_TOPIC_ID,
        codes.INCONSISTENT_TOPIC_ID,
    }
)
# Perhaps another topic has the name now: nothing is read before the metadata has told.
TOPIC_IN_DOUBT: Final = frozenset(
    {codes.UNKNOWN_TOPIC_OR_PARTITION, codes.UNKNOWN_TOPIC_ID, codes.INCONSISTENT_TOPIC_ID}
)
_SLOWEST_RETRY: Final = 5.0
# Tries of a partition without a leader, some seconds in all, before anyone is told: elections are nothing to tell.
_QUIET_TRIES: Final = 6
_EXPLAINED: Final = {
    codes.UNKNOWN_TOPIC_OR_PARTITION: "does not exist on the {side} cluster; it is read as soon as it does",
    codes.LEADER_NOT_AVAILABLE: "has no leader on the {side} cluster; it is read as soon as it has one",
}


class PartitionState(NamedTuple):
    """Where a partition stands: next offset to fetch (None: not known yet), end and start of its log as last heard.

    `error`: one line, when the partition can't be read at present; "" otherwise. `failed`: it will not be tried again.
    `denied`: the right to read it is missing.
    `topic_id`: of the topic that the position which it was added with is of, once a broker has answered for that; None
    before, where there are no ids, and after another topic has taken the name.
    """

    position: int | None
    high_watermark: int
    log_start: int
    error: str
    failed: bool
    topic_id: bytes | None
    denied: bool = False


class PartitionWork:
    """One added partition. `node`: the broker it is read from, NOWHERE while none is known. `side`: whose it is, in lines.

    `lost`: the position that was out of range, while the new one is being looked up. `timestamp`: where to begin when
    `position` is None, if that isn't what auto.offset.reset says. `topic_id`: of the topic that `position` is of.
    `unreleased`, `released`: bytes that were handed over, see fetched.Fetched.release.
    `quiet`: it is asked for beside the busy ones, see fetch_lanes.py; `records_at`: when it last had records.
    `made_again`: nothing of that topic has been read yet, because its name was another one's; `rewound`: nothing of what
    follows a truncation has. Times are those of time.monotonic().

    `epochs`: what was read up to `position`. `checked`: under this leader's epoch the log was still the one that was read;
    None: not known. `suspected`: the leader has said once that it isn't, when so many metadata had been read.
    `out_of_range`: it is only checked because the broker has nothing at `position`. `without_epochs`: the log's leader knows
    nothing of the epochs that are in it, so they tell nothing.
    """

    __slots__ = (
        "_another",
        "_denied",
        "_failures",
        "_wanted",
        "checked",
        "epochs",
        "error",
        "failed",
        "high_watermark",
        "key",
        "log_start",
        "lost",
        "made_again",
        "node",
        "out_of_range",
        "position",
        "preferred",
        "preferred_until",
        "quiet",
        "records_at",
        "released",
        "retry_at",
        "rewound",
        "side",
        "suspected",
        "timestamp",
        "topic_id",
        "unreleased",
        "without_epochs",
    )

    def __init__(
        self,
        key: SourcePartition,
        position: int | None,
        topic_id: bytes | None = None,
        epoch: int = NO_EPOCH,
        side: str = "source",
    ) -> None:
        self.key = key
        self.side = side
        self.position = position
        self.node = NOWHERE
        self.preferred = NOWHERE
        self.preferred_until = 0.0
        self.topic_id = topic_id
        self.made_again = False
        self.high_watermark = -1
        self.log_start = -1
        self.error = ""
        self.failed = False
        self.retry_at = 0.0
        self.unreleased = self.released = 0
        self.quiet = False
        self.records_at = time.monotonic()
        self.lost: int | None = None
        self.timestamp: int | None = None
        self.epochs = LeaderEpochs()
        if position is not None:
            self.epochs.know(position - 1, epoch)
        self.checked: int | None = None
        self.suspected: int | None = None
        self.out_of_range = False
        self.without_epochs = False
        self.rewound = False
        self._another = False
        self._denied = False
        self._failures = 0
        self._wanted: FetchPartition | None = None

    def __str__(self) -> str:
        return f"{self.side} partition {self.key}"

    @property
    def view(self) -> PartitionState:
        """As others may see it."""
        confirmed = None if self.high_watermark < 0 or self._another else self.topic_id
        return PartitionState(
            self.position, self.high_watermark, self.log_start, self.error, self.failed, confirmed, self._denied
        )

    @property
    def max_bytes(self) -> int:
        """What was last asked for at once; 0 before the first fetch."""
        return 0 if self._wanted is None else self._wanted.max_bytes

    def wanted(self, leader_epoch: int, max_bytes: int) -> FetchPartition:
        """The entry for the next fetch. The size doesn't grow while the position stays: nothing to tell the broker."""
        assert self.position is not None
        known, topic_id, last_epoch = self._wanted, self.topic_id or NO_TOPIC_ID, self.last_epoch
        if (
            known is None
            or known.offset != self.position
            or known.max_bytes > max_bytes
            or known.leader_epoch != leader_epoch
            or known.topic_id != topic_id
            or known.last_epoch != last_epoch
        ):
            known = FetchPartition(*self.key, self.position, max_bytes, leader_epoch, topic_id, last_epoch)
            self._wanted = known
        return known

    @property
    def last_epoch(self) -> int:
        """The leader epoch of the last record that was read; NO_EPOCH where it isn't known."""
        return NO_EPOCH if self.position is None else self.epochs.at(self.position - 1)

    def is_unchecked(self, leader_epoch: int) -> bool:
        """Whether it isn't known that this leader's log is the one that was read up to the position."""
        return self.checked != leader_epoch and self.last_epoch != NO_EPOCH

    def is_due(self) -> bool:
        """Whether it may be tried now."""
        return not self.failed and (self._failures == 0 or time.monotonic() >= self.retry_at)

    def back_off(self, first: float, longest: float = _SLOWEST_RETRY) -> None:
        """Try again later: `first` seconds, twice as long each time in a row."""
        pause = min(first * 2**self._failures, longest)
        self._failures = min(self._failures + 1, 16)
        self.retry_at = time.monotonic() + pause

    @property
    def still_quiet(self) -> bool:
        """Whether it is too early to speak of a leader that isn't found."""
        return self._failures < _QUIET_TRIES

    def explain(self, code: int) -> str | None:
        """Note an error that a user should hear of; returns the line unless it was said already."""
        self._denied = code == codes.TOPIC_AUTHORIZATION_FAILED
        explained = _EXPLAINED.get(code, "").format(side=self.side)
        if self._denied:
            explained = str(MissingRight("may not be read", on_topic("READ", self.key[0]), user_at(self.side)))
        line = f"{self} " + (explained or f"can't be read at offset {self.position}: {codes.error_name(code)}")
        if self.error == line:
            return None
        self.error = line
        return line

    def succeeded(self) -> str | None:
        """It was read; returns a line to say so after an error that was said."""
        self._failures = 0
        self._denied = self.made_again = self.rewound = False
        said, self.error = self.error, ""
        return f"{self} is read again from offset {self.position}" if said else None

    def begin_anew(self, topic_id: bytes) -> None:
        """Another topic has the name: it is read whole, whatever auto.offset.reset says, as nobody has its records yet.

        From offset 0, as a broker that is asked by name where the log begins may still tell of the former topic. Should its
        first records be gone already, that is told as a gap.
        """
        self.topic_id, self.made_again, self._another = topic_id, True, True
        self._forget_epochs()
        self.without_epochs = False
        self.position, self.lost, self.timestamp = 0, None, None
        self.high_watermark = self.log_start = -1

    def _forget_epochs(self) -> None:
        self.epochs.clear()
        self.checked = self.suspected = None
        self.out_of_range = False

    def does_without_epochs(self) -> None:
        """From now on positions are judged by offsets alone."""
        self._forget_epochs()
        self.without_epochs = True

    def diverges_at(self, epoch: int, end: int) -> int | None:
        """See leader_epochs.divergence: of the leader's answer for `last_epoch`."""
        return None if self.position is None else divergence(self.position, self.epochs, epoch, end)

    def rewind(self, position: int, epoch: int, end: int) -> str:
        """The log was truncated to `position`; returns the line that names what is gone. `epoch`, `end`: as above."""
        before = self.position or 0
        self.epochs.cut(position)
        if self.epochs.at(position - 1) == NO_EPOCH and position == end:
            self.epochs.know(position - 1, epoch)
        self.position, self.rewound = position, True
        self.suspected, self.out_of_range = None, False
        self.high_watermark = -1
        return (
            f"{self}: its log was truncated at offset {position}, as by an unclean leader election: offsets {position} to "
            f"{before - 1}, which had been read, are gone from the {self.side} ({before - position} offsets); "
            f"reading on at {position}"
        )

    def reset(self, timestamp: int | None) -> None:
        """The log has nothing at the position: where to go on is looked up, by auto.offset.reset if `timestamp` is None."""
        self.lost, self.position, self.timestamp = self.position, None, timestamp
        self._forget_epochs()

    def moved(self, position: int) -> str:
        """Take the position found instead of `lost`; returns the line that names what was skipped or is repeated."""
        lost, self.lost, self.timestamp, self.position = self.lost, None, None, position
        if lost is None:
            return ""
        if position > lost:
            return (
                f"{self}: offsets {lost} to {position - 1} are gone from the {self.side} "
                f"(retention or deleted records): {position - lost} offsets skipped, reading on at {position}"
            )
        return (
            f"{self}: offset {lost} lies beyond the end of the {self.side}'s log "
            f"(truncated or re-created): reading again from offset {position}"
        )
