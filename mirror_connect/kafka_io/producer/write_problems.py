"""What to report when the target does not take a batch: one problem or error for each cause."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.connectors.rights import PRODUCING_USER, on_topic
from mirror_connect.kafka_io.client.copier_settings import WINDOW
from mirror_connect.kafka_io.producer.in_flight_batch import InFlightBatch
from mirror_connect.kafka_io.producer.leader_state import FAR_WINDOW
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.kafka_io.producer.target_partition import TargetPartition
from mirror_connect.kafka_io.protocol.error_codes import advice, error_name, reason

# No code of Kafka's: the answer does not mention a partition that was in the request.
NOT_ANSWERED: Final = -1000


def broker_name(node_id: int) -> str:
    """The subject of a broker's problems."""
    return f"target broker {node_id}"


def broker_unreachable(node_id: int, cause: str) -> Problem:
    """The problem that a broker did not answer, several times in a row."""
    return Problem(
        broker_name(node_id),
        ProblemCode.BROKER_UNREACHABLE,
        f"The {broker_name(node_id)} can't be written to",
        cause,
        "it is tried again until it answers",
    )


def still_unreachable(node_id: int, targets: Iterable[TargetPartition]) -> bool:
    """Whether partitions still wait for this broker. It may answer on one connection, and not on another."""
    name = broker_name(node_id)
    # What was refused for good waits for nothing more, whatever it was told last.
    problems = (target.problem for target in targets if not target.closing and target.failure is None)
    return any(problem is not None and problem.subject == name for problem in problems)


def producer_state_lost(target: TargetPartition, code: int) -> Problem:
    """The problem that the broker no longer knows this producer's sequence."""
    return Problem(
        str(target),
        ProblemCode.PRODUCER_STATE_LOST,
        f"{target}: the target no longer knows this producer's sequence; the producer starts over with a new epoch",
        error=error_name(code),
    )


def write_denied(topic: str, code: int) -> Problem:
    """The problem that the right to write to the topic is missing."""
    return Problem(
        topic,
        ProblemCode.PARTITION_WRITE_DENIED,
        f"Not authorized to write to topic {topic} on the target",
        advice=f"{on_topic('WRITE', topic).grant(PRODUCING_USER)}; it is tried again",
        error=error_name(code),
    )


def unwritable(target: TargetPartition, code: int, message: str) -> Problem:
    """The problem of a partition that is tried again. `code`: Kafka's, or NOT_ANSWERED with the reason in `message`."""
    answered = code != NOT_ANSWERED
    return Problem(
        str(target),
        ProblemCode.PARTITION_UNWRITABLE,
        f"{target} can't be written to at present",
        reason(code, message) if answered else message,
        "it is tried again",
        error=error_name(code) if answered else "",
    )


def own_times(target: TargetPartition, sent: InFlightBatch) -> str:
    """The log line about a batch that was under way when LogAppendTime ended on the target."""
    return (
        f"{target}: the topic has no LogAppendTime on the target any more. Records that were under way, from source offset "
        f"{sent.batch.first_offset} on, have the times that their producers gave; all later ones have those of the source's "
        "broker"
    )


def limited_far_away(round_trip_s: float, configured: int, window: int) -> str:
    """The log line that a user's limit makes copying over a long distance slow. `window`: batches in flight with it."""
    return (
        f"The target is far away ({round_trip_s * 1000:.0f} ms). max.in.flight.requests.per.connection={configured} keeps "
        f"it to {window} {'batch' if window == 1 else 'batches'} of a partition at once; leave it out to have up to "
        f"{FAR_WINDOW}"
    )


def unread_far_away(topic: str) -> str:
    """The log line that copying over a long distance is slow because the right to read remote topics is missing."""
    return (
        f"The target is far away, and its user may not read {topic}. So a partition gets {WINDOW} batches at once, instead "
        f"of up to {FAR_WINDOW}; {on_topic('READ', topic).grant(PRODUCING_USER)}, and on the other remote topics"
    )


def batch_refused(target: TargetPartition, sent: InFlightBatch, code: int, message: str) -> PartitionRefusedError:
    """The error that the target will never accept this batch as it is."""
    return PartitionRefusedError(
        f"The target refused the batch at offset {sent.batch.first_offset} for {target} with "
        f"{reason(code, message)}; {advice(code)}"
    )
