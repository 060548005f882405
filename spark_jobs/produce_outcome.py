"""What a Produce answer means for the batch it is about, and the errors that end a producer or one of its partitions."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

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


_OUTCOMES: Final[dict[int, Outcome]] = {
    NO_ERROR: Outcome.WRITTEN,
    DUPLICATE_SEQUENCE: Outcome.WRITTEN,
    **dict.fromkeys((-1, 2, 7, 8, 14, 15, 19, 20, 51, 89), Outcome.RETRY),
    **dict.fromkeys(
        (UNKNOWN_TOPIC_OR_PARTITION, 5, 6, 9, 13, TOPIC_AUTHORIZATION_FAILED, 56, 74, 75, 100), Outcome.RETRY_ELSEWHERE
    ),
    OUT_OF_ORDER_SEQUENCE: Outcome.SEQUENCE,
    UNKNOWN_PRODUCER_ID: Outcome.SEQUENCE,
    INVALID_PRODUCER_EPOCH: Outcome.FENCED,
    PRODUCER_FENCED: Outcome.FENCED,
    10: Outcome.TOO_LARGE,
    18: Outcome.TOO_LARGE,
}

# Why a broker refuses a batch for good, and what the user can do about it.
_REASONS: Final[dict[int, str]] = {
    -1: "its broker met an unexpected error, which its own log names (records that can't be decompressed are one)",
    2: "it found the batch corrupted on its way",
    17: "the topic's name is not valid on the target",
    32: "its timestamps lie outside message.timestamp.before.max.ms / message.timestamp.after.max.ms of the target topic",
    43: "the target topic's message format is too old for it",
    44: "a policy of the target cluster forbids it",
    76: "the target cluster doesn't know its compression",
    87: "it does not pass the target topic's checks (a compacted topic takes no records without a key)",
}


def outcome(code: int) -> Outcome:
    """What to do after an answer with this error code; a code nobody foresaw stops its partition, never the others."""
    return _OUTCOMES.get(code, Outcome.REFUSED)


def reason(code: int, message: str) -> str:
    """Why a batch was refused, in the broker's words where it gave any."""
    return message or _REASONS.get(code, f"the target answered with error code {code}")


class FencedError(Exception):
    """Another producer has the same transactional id: whatever runs there is in charge, this one must not write."""

    def __init__(self, transactional_id: str) -> None:
        super().__init__(
            f"Another task took over the transactional id {transactional_id}; this one has stopped without committing. "
            "Two workers that run the same connector need different group.id values."
        )


class PartitionRefusedError(Exception):
    """A partition of the target can't take what comes next; others go on. The text says what and what to set."""
