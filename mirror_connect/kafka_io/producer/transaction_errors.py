"""Why a transaction is not committed, and what Kafka's error codes say about a transaction."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from mirror_connect.kafka_io.producer.in_flight_batch import InFlightBatch
from mirror_connect.kafka_io.producer.produce_outcome import Outcome, outcome
from mirror_connect.kafka_io.producer.target_partition import TargetPartition
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode, error_name, reason


class AbortCause(Enum):
    """Why a transaction was aborted."""

    # It was open for longer than transaction.timeout.ms.
    TIMED_OUT = auto()
    # The target refused the producer's epoch. It has ended the transaction itself, or another task tried to begin.
    EPOCH_REFUSED = auto()
    # The target has no transaction like this any more, or says itself that it must be aborted.
    BY_TARGET = auto()
    # A broker lost its state of this producer, so that it no longer recognises repetitions.
    STATE_LOST = auto()
    # A batch was refused, or was too large, and an earlier try of it may have been written.
    REFUSED_AFTER_DOUBT = auto()
    # The owner gave it up.
    GIVEN_UP = auto()


class TransactionAbortedError(Exception):
    """The open transaction is aborted: consumers that read committed will see nothing of it. It must be fed again.

    The producer has logged it. It can go on with the next transaction.
    """

    def __init__(self, cause: AbortCause, text: str) -> None:
        super().__init__(text)
        self.cause = cause


# A batch with one of these answers is not in the log: brokers check for them before they write.
NOT_WRITTEN: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
# The transaction that the producer believes to be open is not, or can't be committed.
_NOT_OPEN: Final = {
    ErrorCode.INVALID_TXN_STATE: "the target has no such open transaction any more",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "the target has forgotten the producer id (transactional.id.expiration.ms)",
    ErrorCode.UNKNOWN_PRODUCER_ID: "the target has forgotten the producer id (transactional.id.expiration.ms)",
    ErrorCode.TRANSACTION_ABORTABLE: "the target asks for the abort",
}
# The coordinator still ends the last transaction; or the right to the transactional id is gone.
_ALWAYS: Final = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED})
_EPOCH: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})


def aborts(code: int, text: str, timeout_ms: int) -> TransactionAbortedError | None:
    """The error to abort with after an answer with this code; None if the code says nothing about the transaction.

    `text`: which request was answered so. 47 and 90 don't tell whether the transaction timed out or another owner came.
    """
    if code in _EPOCH:
        return TransactionAbortedError(
            AbortCause.EPOCH_REFUSED,
            f"{text} with {reason(code, '')}: the transaction was open for longer than transaction.timeout.ms "
            f"({timeout_ms}), or another task has begun",
        )
    meaning = next((meaning for each, meaning in _NOT_OPEN.items() if each == code), None)
    if meaning is None:
        return None
    return TransactionAbortedError(AbortCause.BY_TARGET, f"{text} with {reason(code, '')}: {meaning}")


def concerns(target: TargetPartition, sent: InFlightBatch, code: int) -> bool:
    """Whether an answer with this code for a batch concerns its whole transaction.

    A batch that may be written can be neither dropped nor split: a transaction is all or nothing.
    """
    found = outcome(code)
    if found in (Outcome.REFUSED, Outcome.TOO_LARGE) and code not in _NOT_OPEN and code not in _ALWAYS:
        return sent.repeated and (target.is_head(sent) or found is Outcome.TOO_LARGE)
    return found in (Outcome.REFUSED, Outcome.FENCED, Outcome.SEQUENCE) or code in _ALWAYS


def error_of_batch(
    target: TargetPartition, sent: InFlightBatch, code: int, timeout_ms: int
) -> TransactionAbortedError | None:
    """The error to abort with after such an answer; None if the transaction goes on, or the producer ends."""
    if outcome(code) is Outcome.SEQUENCE:
        # For a later batch this only says that the head is missing, and the head is sent again anyway.
        if not target.is_head(sent):
            return None
        text = f"{target}: the target no longer knows this producer's sequence ({error_name(code)})"
        return TransactionAbortedError(AbortCause.STATE_LOST, text)
    if code in _ALWAYS:
        return None
    found = aborts(code, f"{target}: the target refused a batch", timeout_ms)
    if found is not None:
        return found
    text = f"{target}: the target refused a batch ({error_name(code)}), and an earlier try may be written"
    return TransactionAbortedError(AbortCause.REFUSED_AFTER_DOUBT, text)
