"""The table of error codes is Kafka's own, and each code that a broker may send has a name."""

from __future__ import annotations

import pytest

from mirror_connect.kafka_io.producer.produce_outcome import Outcome, outcome
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode, Retry, advice, error_name, reason
from tests.paths import FIXTURES

RECORDED = [line.split("\t") for line in (FIXTURES / "error-codes.tsv").read_text().splitlines()]
RETRIES = {"never": Retry.NEVER, "again": Retry.AGAIN, "after metadata": Retry.AFTER_METADATA}


def test_the_table_has_the_codes_names_and_retries_of_kafka() -> None:
    recorded = {int(code): (name, RETRIES[retry]) for code, name, retry in RECORDED}
    assert {code.value: (code.name, code.retry) for code in ErrorCode} == recorded


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (1, "OFFSET_OUT_OF_RANGE"),
        (6, "NOT_LEADER_OR_FOLLOWER"),
        (29, "TOPIC_AUTHORIZATION_FAILED"),
        (70, "FETCH_SESSION_ID_NOT_FOUND"),
        (999, "error 999"),
    ],
)
def test_error_codes_have_the_names_of_the_protocol_guide(code: int, name: str) -> None:
    assert error_name(code) == name


def test_the_broker_s_words_go_before_the_table_s() -> None:
    assert reason(44, "") == "POLICY_VIOLATION (44): a policy of the target cluster forbids it"
    assert reason(44, "names must begin\nwith a team") == "POLICY_VIOLATION (44): names must begin with a team"
    assert reason(999, "") == "error code (999)"


def test_every_refused_code_has_advice() -> None:
    assert "exclude the topic" in advice(17)
    assert advice(999) == advice(42) == "see the log of the target's broker"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(0, Outcome.WRITTEN, id="written"),
        pytest.param(46, Outcome.WRITTEN, id="written_before"),
        pytest.param(7, Outcome.RETRY, id="timed_out"),
        pytest.param(6, Outcome.RETRY_ELSEWHERE, id="another_leader"),
        pytest.param(29, Outcome.RETRY_ELSEWHERE, id="a_right_is_missing"),
        pytest.param(45, Outcome.SEQUENCE, id="out_of_order"),
        pytest.param(90, Outcome.FENCED, id="fenced"),
        pytest.param(10, Outcome.TOO_LARGE, id="too_large"),
        pytest.param(87, Outcome.REFUSED, id="invalid_record"),
        pytest.param(999, Outcome.REFUSED, id="unknown_code"),
    ],
)
def test_a_produce_answer_leads_to_one_outcome(code: int, expected: Outcome) -> None:
    assert outcome(code) is expected
