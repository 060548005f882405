"""The fetcher's state of one partition, and what the error codes of a fetch mean for it."""

from __future__ import annotations

import time
from enum import Enum
from typing import Final, NamedTuple

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.connectors.records.source_offsets import NO_EPOCH
from mirror_connect.connectors.rights import on_topic, user_at
from mirror_connect.kafka_io.consumer.leader_epochs import LeaderEpochs, divergence
from mirror_connect.kafka_io.consumer.log_ends import LogEnd
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode, error_name
from mirror_connect.kafka_io.protocol.fetch import NO_TOPIC_ID, FetchPartition

NOWHERE: Final = -1

# The leader has changed or is not elected yet, or the broker lags behind. New metadata helps, and users need not know.
LEADERSHIP_ERRORS: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
# Another topic may have the name now: nothing is read before the metadata shows it.
TOPIC_IN_DOUBT: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID}
)
_SLOWEST_RETRY: Final = 5.0
# Tries of a partition without a leader, some seconds in all, before it is a problem. An election is no problem.
_QUIET_TRIES: Final = 6
_EXPLAINED: Final[dict[int, tuple[str, str]]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ("does not exist on the {side} cluster", "it is read as soon as it does"),
    ErrorCode.LEADER_NOT_AVAILABLE: ("has no leader on the {side} cluster", "it is read as soon as it has one"),
}


class Lane(Enum):
    """On which of a broker's connections a partition is fetched, see fetch_queues.py."""

    BUSY = "busy"
    SECOND = "second"
    QUIET = "quiet"


class FetchStatus(NamedTuple):
    """The status of a partition: next offset to fetch (None: not known yet), and end and start of its log.

    `problem`: why the partition can't be read at present; None if it can. `failed`: it will not be tried again.
    `denied`: the right to read it is missing.
    `topic_id`: of the topic to which the partition's first position belongs, once a broker has answered for that; None
    before, without topic ids, and after another topic has taken the name.
    """

    position: int | None
    high_watermark: int
    log_start: int
    problem: Problem | None
    failed: bool
    topic_id: bytes | None
    denied: bool = False


class PartitionFetchState:
    """One added partition. `node`: the broker it is read from, NOWHERE if none is known. `side`: its cluster, for texts.

    `lost`: the position that was out of range, while the new one is looked up. `timestamp`: where to begin when `position`
    is None, if not as auto.offset.reset says. `topic_id`: of the topic to which `position` belongs.
    `unreleased`, `released`: bytes that were passed on, see completed_fetch.CompletedFetch.release.
    `lane`: in which queue of the broker it is, see fetch_queues.py; `records_at`: when it last had records.
    `log_end`: see log_ends.py.
    `made_again`: the topic is new under its name, and nothing of it has been read yet; `rewound`: the log was truncated, and
    nothing after that has been read yet. Times are those of time.monotonic().

    `epochs`: of what was read up to `position`. `checked`: the leader epoch in which the log still had what was read; None:
    not known. `suspected`: how often the topic's metadata had been read when the leader first denied that; None: it hasn't.
    `out_of_range`: it is checked only because the broker has nothing at `position`. `without_epochs`: the leader does not
    know the epochs in its own log, so they prove nothing.
    """

    __slots__ = (
        "_another",
        "_denied",
        "_failures",
        "_wanted",
        "checked",
        "epochs",
        "failed",
        "high_watermark",
        "key",
        "lane",
        "log_end",
        "log_start",
        "lost",
        "made_again",
        "node",
        "out_of_range",
        "position",
        "preferred",
        "preferred_until",
        "problem",
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
        key: TopicPartition,
        position: int | None,
        topic_id: bytes | None = None,
        epoch: int = NO_EPOCH,
        side: str = "source",
        *,
        log_end: LogEnd | None = None,
    ) -> None:
        self.key = key
        self.side = side
        self.log_end = log_end or LogEnd(key)
        self.position = position
        self.node = NOWHERE
        self.preferred = NOWHERE
        self.preferred_until = 0.0
        self.topic_id = topic_id
        self.made_again = False
        self.high_watermark = -1
        self.log_start = -1
        self.problem: Problem | None = None
        self.failed = False
        self.retry_at = 0.0
        self.unreleased = self.released = 0
        self.lane = Lane.BUSY
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
    def view(self) -> FetchStatus:
        """Its status, for other modules."""
        confirmed = None if self.high_watermark < 0 or self._another else self.topic_id
        return FetchStatus(
            self.position, self.high_watermark, self.log_start, self.problem, self.failed, confirmed, self._denied
        )

    @property
    def max_bytes(self) -> int:
        """The size limit of the last fetch; 0 before the first one."""
        return 0 if self._wanted is None else self._wanted.max_bytes

    def wanted(self, leader_epoch: int, max_bytes: int) -> FetchPartition:
        """The entry for the next fetch. While the position stays, its size doesn't grow, so the session needs no update."""
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
        """Whether it isn't known that this leader's log has what was read up to the position."""
        return self.checked != leader_epoch and self.last_epoch != NO_EPOCH

    def is_due(self) -> bool:
        """Whether it may be tried now."""
        return not self.failed and (self._failures == 0 or time.monotonic() >= self.retry_at)

    def back_off(self, first: float, longest: float = _SLOWEST_RETRY) -> None:
        """Tries again later: after `first` seconds, and twice as long each time in a row."""
        pause = min(first * 2**self._failures, longest)
        self._failures = min(self._failures + 1, 16)
        self.retry_at = time.monotonic() + pause

    @property
    def still_quiet(self) -> bool:
        """Whether it is too early to report that no leader is found."""
        return self._failures < _QUIET_TRIES

    def explain(self, code: int) -> Problem:
        """Notes an error that a user should know."""
        self._denied = code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        name, error = str(self), error_name(code)
        if self._denied:
            advice = on_topic("READ", self.key[0]).grant(user_at(self.side))
            denied = ProblemCode.PARTITION_READ_DENIED
            self.problem = Problem(name, denied, f"{self} can't be read", "not authorized", advice, error=error)
        elif code in _EXPLAINED:
            text, advice = (part.format(side=self.side) for part in _EXPLAINED[code])
            unreadable = ProblemCode.PARTITION_UNREADABLE
            self.problem = Problem(name, unreadable, f"{self} {text}", advice=advice, error=error)
        else:
            text = f"{self} can't be read at offset {self.position}"
            self.problem = Problem(name, ProblemCode.PARTITION_UNREADABLE, text, error, error=error)
        return self.problem

    def succeeded(self) -> bool:
        """Notes that it was read. True if it had a problem before."""
        self._failures = 0
        self._denied = self.made_again = self.rewound = False
        had, self.problem = self.problem is not None, None
        return had

    def begin_anew(self, topic_id: bytes) -> None:
        """Another topic has the name. It is read whole, whatever auto.offset.reset says: nobody has its records yet.

        It is read from offset 0. The beginning of the log is not looked up by name, as a broker may still answer for the
        former topic. If its first records are gone already, that is reported as a gap.
        """
        self.topic_id, self.made_again, self._another = topic_id, True, True
        self._forget_epochs()
        self.without_epochs = False
        self.position, self.lost, self.timestamp = 0, None, None
        self.high_watermark = self.log_start = -1
        self.log_end.forget()

    def _forget_epochs(self) -> None:
        self.epochs.clear()
        self.checked = self.suspected = None
        self.out_of_range = False

    def does_without_epochs(self) -> None:
        """From now on only offsets show whether the log was truncated."""
        self._forget_epochs()
        self.without_epochs = True

    def diverges_at(self, epoch: int, end: int) -> int | None:
        """See leader_epochs.divergence: for the leader's answer about `last_epoch`."""
        return None if self.position is None else divergence(self.position, self.epochs, epoch, end)

    def rewind(self, position: int, epoch: int, end: int) -> Problem:
        """The log was truncated to `position`; returns the problem. `epoch`, `end`: the leader's answer, as above."""
        before = self.position or 0
        self.epochs.cut(position)
        if self.epochs.at(position - 1) == NO_EPOCH and position == end:
            self.epochs.know(position - 1, epoch)
        self.position, self.rewound = position, True
        self.suspected, self.out_of_range = None, False
        self.high_watermark = -1
        self.log_end.forget()
        return Problem(
            str(self),
            ProblemCode.PARTITION_TRUNCATED,
            f"{self} was truncated at offset {position} (unclean leader election?): offsets {position} to {before - 1}, "
            f"which had been read, are gone from the {self.side} ({before - position} offsets); "
            f"reading continues at {position}",
        )

    def reset(self, timestamp: int | None) -> None:
        """The log has nothing at the position: the next one is looked up, by auto.offset.reset if `timestamp` is None."""
        self.lost, self.position, self.timestamp = self.position, None, timestamp
        self._forget_epochs()

    def moved(self, position: int) -> Problem | None:
        """Continues at the position found instead of `lost`; returns the problem: what is skipped or repeated."""
        lost, self.lost, self.timestamp, self.position = self.lost, None, None, position
        if lost is None:
            return None
        if position > lost:
            text = (
                f"{self}: offsets {lost} to {position - 1} are gone from the {self.side} "
                f"(retention or deleted records): {position - lost} offsets skipped, reading continues at {position}"
            )
        else:
            text = (
                f"{self}: offset {lost} lies beyond the end of the {self.side}'s log "
                f"(truncated or re-created): reading again from offset {position}"
            )
        return Problem(str(self), ProblemCode.OFFSETS_GONE, text)
