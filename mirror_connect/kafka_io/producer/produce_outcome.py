"""What a Produce answer means for the batch it is about, and the errors that end a producer or one of its partitions."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from mirror_connect.connectors.rights import IDEMPOTENT_WRITE, PRODUCING_USER

UNKNOWN_SERVER_ERROR: Final = -1
NO_ERROR: Final = 0
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
TOPIC_AUTHORIZATION_FAILED: Final = 29
CLUSTER_AUTHORIZATION_FAILED: Final = 31
OUT_OF_ORDER_SEQUENCE: Final = 45
DUPLICATE_SEQUENCE: Final = 46
INVALID_PRODUCER_EPOCH: Final = 47
CONCURRENT_TRANSACTIONS: Final = 51
TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Final = 53
UNKNOWN_PRODUCER_ID: Final = 59
PRODUCER_FENCED: Final = 90

# A coordinator that is loading, unavailable or elsewhere, and a transaction still being completed.
COORDINATOR_BUSY: Final = frozenset({7, 13, 14, 15, 16, CONCURRENT_TRANSACTIONS})
FENCED: Final = frozenset({INVALID_PRODUCER_EPOCH, PRODUCER_FENCED})


class Outcome(Enum):
    """The kinds of answer that lead to different deeds."""

    WRITTEN = auto()
    RETRY = auto()  # the same bytes again, in order
    RETRY_ELSEWHERE = (
        auto()
    )  # the same after new metadata: the leader may be another broker, or the topic not there yet
    SEQUENCE = auto()  # the broker's sequence is another one than ours
    FENCED = auto()  # another producer has taken our place
    TOO_LARGE = auto()  # split it
    REFUSED = auto()  # this partition can't go on


# As Java's producer has it: retried are the codes whose exception is a RetriableException there (clients 4.3.1), after new
# metadata those of InvalidMetadataException; whatever is not named here is fatal. Two rows are not Java's: it gives up a
# topic that it may not write to, where we wait for the right to be given, and its "not our leader" has no time limit here.
_OUTCOMES: Final[dict[int, Outcome]] = {
    NO_ERROR: Outcome.WRITTEN,
    DUPLICATE_SEQUENCE: Outcome.WRITTEN,
    **dict.fromkeys((2, 7, 14, 15, 16, 19, 20, CONCURRENT_TRANSACTIONS, 75, 89), Outcome.RETRY),
    **dict.fromkeys(
        (UNKNOWN_TOPIC_OR_PARTITION, 5, 6, 9, 13, TOPIC_AUTHORIZATION_FAILED, 56, 72, 74, 100, 103),
        Outcome.RETRY_ELSEWHERE,
    ),
    OUT_OF_ORDER_SEQUENCE: Outcome.SEQUENCE,
    UNKNOWN_PRODUCER_ID: Outcome.SEQUENCE,
    INVALID_PRODUCER_EPOCH: Outcome.FENCED,
    PRODUCER_FENCED: Outcome.FENCED,
    10: Outcome.TOO_LARGE,
    18: Outcome.TOO_LARGE,
}

# Kafka's names of the codes that a Produce answer may hold.
_NAMES: Final[dict[int, str]] = {
    UNKNOWN_SERVER_ERROR: "UNKNOWN_SERVER_ERROR",
    2: "CORRUPT_MESSAGE",
    3: "UNKNOWN_TOPIC_OR_PARTITION",
    5: "LEADER_NOT_AVAILABLE",
    6: "NOT_LEADER_OR_FOLLOWER",
    7: "REQUEST_TIMED_OUT",
    8: "BROKER_NOT_AVAILABLE",
    9: "REPLICA_NOT_AVAILABLE",
    13: "NETWORK_EXCEPTION",
    14: "COORDINATOR_LOAD_IN_PROGRESS",
    15: "COORDINATOR_NOT_AVAILABLE",
    16: "NOT_COORDINATOR",
    17: "INVALID_TOPIC_EXCEPTION",
    19: "NOT_ENOUGH_REPLICAS",
    20: "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    21: "INVALID_REQUIRED_ACKS",
    29: "TOPIC_AUTHORIZATION_FAILED",
    31: "CLUSTER_AUTHORIZATION_FAILED",
    32: "INVALID_TIMESTAMP",
    35: "UNSUPPORTED_VERSION",
    42: "INVALID_REQUEST",
    43: "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    44: "POLICY_VIOLATION",
    48: "INVALID_TXN_STATE",
    49: "INVALID_PRODUCER_ID_MAPPING",
    51: "CONCURRENT_TRANSACTIONS",
    53: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    56: "KAFKA_STORAGE_ERROR",
    72: "LISTENER_NOT_FOUND",
    74: "FENCED_LEADER_EPOCH",
    75: "UNKNOWN_LEADER_EPOCH",
    76: "UNSUPPORTED_COMPRESSION_TYPE",
    87: "INVALID_RECORD",
    89: "THROTTLING_QUOTA_EXCEEDED",
    100: "UNKNOWN_TOPIC_ID",
    103: "INCONSISTENT_TOPIC_ID",
    120: "TRANSACTION_ABORTABLE",
}

# What a code means for a copied batch, where its name doesn't tell.
_REASONS: Final[dict[int, str]] = {
    UNKNOWN_SERVER_ERROR: "its broker met an unexpected error (records that can't be decompressed are one)",
    2: "it found the batch corrupted on its way",
    3: "the topic or partition does not exist on the target",
    17: "the topic's name is not valid there",
    19: "fewer replicas are in sync than min.insync.replicas asks for",
    20: "fewer replicas are in sync than min.insync.replicas asks for",
    32: "its timestamps are too old or too new for the topic",
    43: "the topic's message format is too old for it",
    44: "a policy of its cluster forbids it",
    76: "it doesn't know the compression",
    87: "it does not pass the topic's checks (a compacted topic takes no records without a key)",
}

# What to do about it.
_ADVICE: Final[dict[int, str]] = {
    17: "choose another replication.policy or exclude the topic",
    31: IDEMPOTENT_WRITE.grant(PRODUCING_USER),
    32: "change message.timestamp.before.max.ms or message.timestamp.after.max.ms of the topic on the target",
    43: "raise message.format.version of the topic on the target",
    44: "look at the create and alter policies of the target",
    76: "copy to brokers that know it (zstd needs 2.1)",
    87: "change cleanup.policy of the topic on the target, or exclude the topic",
}
_LOOK: Final = "the log of the target's broker tells more"


def outcome(code: int) -> Outcome:
    """What to do after an answer with this error code; a code nobody foresaw stops its partition, never the others."""
    return _OUTCOMES.get(code, Outcome.REFUSED)


def reason(code: int, message: str) -> str:
    """The code's name and what it means, in the broker's words where it gave any."""
    text = " ".join(message.split()) or _REASONS.get(code, "")
    return f"{_NAMES.get(code, 'error code')} ({code})" + (f": {text}" if text else "")


def advice(code: int) -> str:
    """What the user can do about a refusal, in half a sentence."""
    return _ADVICE.get(code, _LOOK)


class FencedError(Exception):
    """Another producer has taken the transactional id since. This one must not write any more, and its worker decides."""

    def __init__(self, transactional_id: str) -> None:
        super().__init__(
            f"Another task took over the transactional id {transactional_id}; this one has stopped without committing. "
            "Two workers that run the same connector need different group.id values."
        )


class FenceLostError(FencedError):
    """The right to the transactional id was revoked, so that no broker would fence off what this process wrote now.

    Its worker counts on that: it was told so before the first write. So this one stops, and the next one tells it anew.
    """

    def __init__(self, transactional_id: str) -> None:
        Exception.__init__(
            self,
            f"Not authorized any more to use the transactional id {transactional_id} on the target; this process has "
            "stopped.",
        )


class PartitionRefusedError(Exception):
    """A partition of the target can't take what comes next; others go on. The text says what and what to set.

    `offset`: that of the first source record which is not on the target because of it.
    """

    def __init__(self, text: str, offset: int = -1) -> None:
        super().__init__(text)
        self.offset = offset


class OversizeRecordError(PartitionRefusedError):
    """A single record, alone in its batch, is larger than the target takes.

    `record`: its source offset; `behind`: where to read on without it; `size`: bytes of a batch that holds it alone.
    """

    def __init__(self, topic: str, partition: int, record: int, behind: int, size: int) -> None:
        super().__init__(_oversize(topic, partition, record, size, None), record)
        self.topic = topic
        self.partition = partition
        self.record = record
        self.behind = behind
        self.size = size

    def told(self, limit: int | None) -> str:
        """The text, with the present max.message.bytes of the target's topic where that is known."""
        return _oversize(self.topic, self.partition, self.record, self.size, limit)


def _oversize(topic: str, partition: int, record: int, size: int, limit: int | None) -> str:
    present = "" if limit is None else f", now {limit}"
    return (
        f"Record at offset {record} for {topic}-{partition} has {size} bytes, more than the target takes: raise "
        f"max.message.bytes of topic {topic} on the target{present} (or message.max.bytes of its brokers)"
    )
