"""What an error code says about a transaction."""

from __future__ import annotations

import pytest

from mirror_connect.kafka_io.producer.in_flight_batch import InFlightBatch
from mirror_connect.kafka_io.producer.target_partition import ProducerIdAndEpoch, TargetPartition
from mirror_connect.kafka_io.producer.transaction_errors import AbortCause, aborts, concerns, error_of_batch
from tests.fakes.transactional_target import NumberFeed

TIMEOUT_MS = 60_000


def partition() -> tuple[TargetPartition, list[InFlightBatch]]:
    """One with two batches on the wire."""
    target = TargetPartition("a.orders", 0, NumberFeed(6), 5, 1 << 20)
    target.remembered_until = float("inf")
    producer = ProducerIdAndEpoch(7, 0, transactional=True)
    batches = [target.next_batch(producer, latency_bound=False) for _ in range(2)]
    return target, [each for each in batches if each is not None]


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (45, AbortCause.STATE_LOST),
        (59, AbortCause.STATE_LOST),
        (47, AbortCause.EPOCH_REFUSED),
        (90, AbortCause.EPOCH_REFUSED),
        (48, AbortCause.BY_TARGET),
        (49, AbortCause.BY_TARGET),
        (120, AbortCause.BY_TARGET),
    ],
)
def test_an_answer_for_the_head_that_ends_the_transaction(code: int, cause: AbortCause) -> None:
    target, (head, _) = partition()
    assert concerns(target, head, code)
    error = error_of_batch(target, head, code, TIMEOUT_MS)
    assert error is not None
    assert (error.cause, "\n" in str(error), "a.orders-0" in str(error)) == (cause, False, True)


@pytest.mark.parametrize("code", [51, 53])
def test_a_code_about_the_transactional_id_alone_aborts_nothing(code: int) -> None:
    target, (head, _) = partition()
    assert concerns(target, head, code)
    assert error_of_batch(target, head, code, TIMEOUT_MS) is None


@pytest.mark.parametrize("code", [45, 59])
def test_a_sequence_error_of_a_later_batch_only_says_that_the_head_is_missing(code: int) -> None:
    target, (_, later) = partition()
    assert concerns(target, later, code)
    assert error_of_batch(target, later, code, TIMEOUT_MS) is None


@pytest.mark.parametrize("code", [10, 18, 87, 32])
def test_a_refused_batch_concerns_the_transaction_only_if_it_may_be_written(code: int) -> None:
    target, (head, _) = partition()
    assert not concerns(target, head, code)
    head.repeated = True
    assert concerns(target, head, code)
    error = error_of_batch(target, head, code, TIMEOUT_MS)
    assert error is not None
    assert error.cause is AbortCause.REFUSED_AFTER_DOUBT


@pytest.mark.parametrize("code", [3, 6, 7, 19, 20, 29])
def test_what_is_tried_again_concerns_no_transaction(code: int) -> None:
    target, (head, _) = partition()
    head.repeated = True
    assert not concerns(target, head, code)
    assert aborts(code, "an answer", TIMEOUT_MS) is None


def test_an_epoch_error_names_both_reasons_and_the_timeout() -> None:
    error = aborts(47, "the target refused to commit", 12_345)
    assert str(error) == (
        "the target refused to commit with INVALID_PRODUCER_EPOCH (47): the transaction was open for longer than "
        "transaction.timeout.ms (12345), or another task has begun"
    )
