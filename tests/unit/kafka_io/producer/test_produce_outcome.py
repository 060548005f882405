"""What a Produce answer leads to, and the errors that end a producer or a partition."""

from __future__ import annotations

import pytest

from mirror_connect.kafka_io.producer.produce_outcome import (
    FencedError,
    FenceLostError,
    Outcome,
    OversizeRecordError,
    outcome,
)
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, Outcome.WRITTEN, id="the_broker_has_it_already"),
        pytest.param(ErrorCode.TOPIC_AUTHORIZATION_FAILED, Outcome.RETRY_ELSEWHERE, id="a_right_may_come"),
        pytest.param(ErrorCode.UNKNOWN_PRODUCER_ID, Outcome.SEQUENCE, id="forgotten_producer"),
        pytest.param(ErrorCode.PRODUCER_FENCED, Outcome.FENCED, id="fenced"),
        pytest.param(ErrorCode.RECORD_LIST_TOO_LARGE, Outcome.TOO_LARGE, id="too_large"),
        pytest.param(29_999, Outcome.REFUSED, id="a_code_that_nobody_knows_stops_the_partition"),
    ],
)
def test_an_answer_leads_to_its_outcome(code: int, expected: Outcome) -> None:
    assert outcome(code) is expected


def test_a_lost_right_also_ends_as_a_fenced_producer_but_says_why() -> None:
    lost = FenceLostError("id-1")
    assert isinstance(lost, FencedError)
    assert "id-1" in str(lost)
    assert "revoked" in str(lost)
    assert "group.id" not in str(lost)


def test_an_oversize_record_names_itself_and_the_limit_if_it_is_known() -> None:
    error = OversizeRecordError("orders", 3, 17, 18, 2_000_000)
    assert error.offset == 17
    assert str(error) == (
        "Record at offset 17 for orders-3 has 2000000 bytes, more than the target takes: raise max.message.bytes of topic "
        "orders on the target (or message.max.bytes of its brokers)"
    )
    assert "on the target, now 1048588 (" in error.remedy(1_048_588)
