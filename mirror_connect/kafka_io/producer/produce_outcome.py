"""What to do after a Produce answer, and the errors that end a producer or one of its partitions."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from mirror_connect.kafka_io.protocol.error_codes import COORDINATOR_MOVED, ErrorCode, Retry, retry

# The coordinator is loading, unreachable or another broker, or the last transaction is still being completed.
COORDINATOR_BUSY: Final = COORDINATOR_MOVED | {
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})


class Outcome(Enum):
    """The kinds of answer, by what to do next."""

    WRITTEN = auto()
    RETRY = auto()  # the same bytes again, in order
    # The same after new metadata: the leader may be another broker, or the topic may not exist yet.
    RETRY_ELSEWHERE = auto()
    SEQUENCE = auto()  # the broker expects another sequence
    FENCED = auto()  # another producer has taken our place
    TOO_LARGE = auto()  # split it
    REFUSED = auto()  # this partition can't go on


# As in Java's producer: the table of error codes says which are retried, except for these codes. One row differs: Java fails
# if it may not write to a topic, and this producer waits for the right.
# Java also limits the time it waits for a leader; this producer does not.
_OUTCOMES: Final[dict[int, Outcome]] = {
    ErrorCode.NONE: Outcome.WRITTEN,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: Outcome.WRITTEN,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Outcome.RETRY_ELSEWHERE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: Outcome.SEQUENCE,
    ErrorCode.UNKNOWN_PRODUCER_ID: Outcome.SEQUENCE,
    ErrorCode.INVALID_PRODUCER_EPOCH: Outcome.FENCED,
    ErrorCode.PRODUCER_FENCED: Outcome.FENCED,
    ErrorCode.MESSAGE_TOO_LARGE: Outcome.TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE: Outcome.TOO_LARGE,
}
_RETRIES: Final = {
    Retry.AGAIN: Outcome.RETRY,
    Retry.AFTER_METADATA: Outcome.RETRY_ELSEWHERE,
    Retry.NEVER: Outcome.REFUSED,
}


def outcome(code: int) -> Outcome:
    """What to do after an answer with this error code. An unknown code stops its partition, never the others."""
    found = _OUTCOMES.get(code)
    return _RETRIES[retry(code)] if found is None else found


class FencedError(Exception):
    """Another producer has taken the transactional id. This one must not write any more; its worker decides what follows."""

    def __init__(self, transactional_id: str) -> None:
        super().__init__(
            f"Another task took over the transactional id {transactional_id}; this one has stopped without committing. "
            "Two workers that run the same connector need different group.id values."
        )


class FenceLostError(FencedError):
    """The right to the transactional id was revoked, so brokers would no longer fence this process.

    Its worker relies on the fence, as the process reported it before its first write. So this process stops. The next one
    reports that it has no fence.
    """

    def __init__(self, transactional_id: str) -> None:
        Exception.__init__(
            self,
            f"The right to use the transactional id {transactional_id} on the target was revoked; this process has "
            "stopped.",
        )


class PartitionRefusedError(Exception):
    """The target refuses the next batch of a partition; others continue. The text says what to set.

    `offset`: of the first source record that is not on the target because of that.
    """

    def __init__(self, text: str, offset: int = -1) -> None:
        super().__init__(text)
        self.offset = offset


class OversizeRecordError(PartitionRefusedError):
    """A single record, alone in its batch, is larger than the target takes.

    `record`: its source offset; `behind`: where to continue without it; `size`: bytes of a batch with this record alone.
    """

    def __init__(self, topic: str, partition: int, record: int, behind: int, size: int) -> None:
        super().__init__("", record)
        self.topic = topic
        self.partition = partition
        self.record = record
        self.behind = behind
        self.size = size

    def __str__(self) -> str:
        return f"{self.what}: {self.remedy(None)}"

    @property
    def what(self) -> str:
        """What is too large, and where."""
        record = f"Record at offset {self.record} for {self.topic}-{self.partition}"
        return f"{record} has {self.size} bytes, more than the target takes"

    def remedy(self, limit: int | None) -> str:
        """`limit`: the present max.message.bytes of the target's topic, if it is known."""
        present = "" if limit is None else f", now {limit}"
        return f"raise max.message.bytes of topic {self.topic} on the target{present} (or message.max.bytes of its brokers)"
