"""Kafka's error codes: name, whether to retry, what the code means for a batch, and what to do.

Codes, names and retries are those of org.apache.kafka.common.protocol.Errors in Kafka 4.3.1; a test compares them.
"""

from __future__ import annotations

from enum import Enum, IntEnum, auto
from typing import Final

from mirror_connect.connectors.rights import IDEMPOTENT_WRITE, PRODUCING_USER


class Retry(Enum):
    """Whether the same request may succeed later: what Java's exception for a code derives from."""

    NEVER = auto()
    AGAIN = auto()  # RetriableException
    AFTER_METADATA = auto()  # InvalidMetadataException: ask for metadata first, the leader may be another broker


NEVER: Final = Retry.NEVER
AGAIN: Final = Retry.AGAIN
AFTER_METADATA: Final = Retry.AFTER_METADATA


class ErrorCode(IntEnum):
    """An error code of the protocol. A row: code, retry, meaning, advice.

    `meaning` and `advice` are half sentences about a refused batch; "" where the name says enough.
    """

    retry: Retry
    meaning: str
    advice: str

    def __new__(cls, code: int, retry: Retry = NEVER, meaning: str = "", advice: str = "") -> ErrorCode:
        """One row of the table."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.retry = retry
        member.meaning = meaning
        member.advice = advice
        return member

    UNKNOWN_SERVER_ERROR = (
        -1,
        NEVER,
        "the broker met an unexpected error, for example records that it cannot decompress",
    )
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2, AGAIN, "the broker found the batch corrupted"
    UNKNOWN_TOPIC_OR_PARTITION = 3, AFTER_METADATA, "the topic or partition does not exist on the target"
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5, AFTER_METADATA
    NOT_LEADER_OR_FOLLOWER = 6, AFTER_METADATA
    REQUEST_TIMED_OUT = 7, AGAIN
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9, AFTER_METADATA
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13, AFTER_METADATA
    COORDINATOR_LOAD_IN_PROGRESS = 14, AGAIN
    COORDINATOR_NOT_AVAILABLE = 15, AGAIN
    NOT_COORDINATOR = 16, AGAIN
    INVALID_TOPIC_EXCEPTION = (
        17,
        NEVER,
        "the target does not accept the topic's name",
        "choose another replication.policy or exclude the topic",
    )
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19, AGAIN, "fewer replicas are in sync than min.insync.replicas requires"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, AGAIN, "fewer replicas are in sync than min.insync.replicas requires"
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31, NEVER, "", IDEMPOTENT_WRITE.grant(PRODUCING_USER)
    INVALID_TIMESTAMP = (
        32,
        NEVER,
        "its timestamps are too old or too new for the topic",
        "change message.timestamp.before.max.ms or message.timestamp.after.max.ms of the topic on the target",
    )
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41, AGAIN
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = (
        43,
        NEVER,
        "the topic's message format is too old",
        "raise message.format.version of the topic on the target",
    )
    POLICY_VIOLATION = (
        44,
        NEVER,
        "a policy of the target cluster forbids it",
        "check the create and alter policies of the target",
    )
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51, AGAIN
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56, AFTER_METADATA
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70, AGAIN
    INVALID_FETCH_SESSION_EPOCH = 71, AGAIN
    LISTENER_NOT_FOUND = 72, AFTER_METADATA
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74, AFTER_METADATA
    UNKNOWN_LEADER_EPOCH = 75, AGAIN
    UNSUPPORTED_COMPRESSION_TYPE = (
        76,
        NEVER,
        "the broker does not know the compression",
        "copy to brokers that know it (zstd needs 2.1)",
    )
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78, AGAIN
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80, AFTER_METADATA
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, AFTER_METADATA
    ELECTION_NOT_NEEDED = 84, AFTER_METADATA
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = (
        87,
        NEVER,
        "it fails the topic's checks (a compacted topic takes no records without a key)",
        "change cleanup.policy of the topic on the target, or exclude the topic",
    )
    UNSTABLE_OFFSET_COMMIT = 88, AGAIN
    THROTTLING_QUOTA_EXCEEDED = 89, AGAIN
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100, AFTER_METADATA
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103, AFTER_METADATA
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106, AGAIN
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122, AGAIN
    INVALID_SHARE_SESSION_EPOCH = 123, AGAIN
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133, AGAIN


# A group or a transactional id is moving from one coordinator to another: ask for the coordinator again.
COORDINATOR_MOVED: Final = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)
_BY_CODE: Final[dict[int, ErrorCode]] = {code.value: code for code in ErrorCode}
_NO_ADVICE: Final = "see the log of the target's broker"


def error_name(code: int) -> str:
    """Kafka's name of an error code, e.g. TOPIC_AUTHORIZATION_FAILED; "error 999" for a code that is not in the table."""
    known = _BY_CODE.get(code)
    return f"error {code}" if known is None else known.name


def retry(code: int) -> Retry:
    """Whether the same request may succeed later; NEVER for a code that is not in the table."""
    known = _BY_CODE.get(code)
    return NEVER if known is None else known.retry


def reason(code: int, message: str) -> str:
    """The code's name, its number and its meaning, for example "INVALID_TIMESTAMP (32): its timestamps …".

    `message`: the broker's text, "" if it sent none; it is used instead of the table's meaning.
    """
    known = _BY_CODE.get(code)
    text = " ".join(message.split()) or ("" if known is None else known.meaning)
    name = "error code" if known is None else known.name
    return f"{name} ({code})" + (f": {text}" if text else "")


def advice(code: int) -> str:
    """What the user can do about a refused batch, in half a sentence."""
    known = _BY_CODE.get(code)
    return (known.advice if known is not None else "") or _NO_ADVICE
