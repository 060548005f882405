"""The error of an admin call: what the connections reported counts only while it can still be true."""

from __future__ import annotations

import socket
import threading
import time

import pytest
from confluent_kafka import KafkaError

from mirror_connect.connectors.errors import AddressUnknown, ClusterUnreachable, NotAuthorized
from mirror_connect.kafka_io.admin.admin_errors import AdminError, AdminErrors

PROPERTIES = {"bootstrap.servers": "a:1", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
REFUSED = KafkaError(KafkaError._AUTHENTICATION, "sasl_plaintext://a:1/bootstrap: Invalid username or password")
# librdkafka's words for ILLEGAL_SASL_STATE.
WRONG_STATE = KafkaError(KafkaError._AUTHENTICATION, "Request not valid in current SASL state")
# When a request is sent after everything that was reported, by time.monotonic().
LATER = float("inf")


@pytest.fixture
def errors() -> AdminErrors:
    return AdminErrors(PROPERTIES, PROPERTIES, "the source cluster", user="me", timeout=30, client_id="c")


def test_a_refused_login_ends_the_first_call_at_once(errors: AdminErrors) -> None:
    errors.note_error(REFUSED)
    found = errors.hopeless("asked", 0.0, LATER)
    assert isinstance(found, NotAuthorized)
    assert "Invalid username or password" in str(found)


@pytest.mark.parametrize(
    "counters",
    [
        "",
        " (after 0ms in state CONNECT)",
        " (after 0ms in state CONNECT, 5 identical error(s) suppressed)",
        " (5 identical error(s) suppressed)",
    ],
)
def test_the_sentence_of_a_closed_port_is_whole_whatever_is_counted_behind_it(
    errors: AdminErrors, counters: str
) -> None:
    sentence = "Connect to ipv4#127.0.0.1:9 failed: Connection refused"
    errors.note_error(KafkaError(KafkaError._RESOLVE, f"plaintext://127.0.0.1:9/bootstrap: {sentence}{counters}"))
    found = errors.unreachable("asked", None)
    assert isinstance(found, AddressUnknown)
    assert f"({sentence})" in str(found)


def test_a_refused_login_during_a_call_ends_it_at_once(errors: AdminErrors) -> None:
    errors.recovered()
    asked_at = time.monotonic()
    errors.note_error(REFUSED)
    assert isinstance(errors.hopeless("asked", 0.0, asked_at), NotAuthorized)


def test_a_login_that_was_refused_between_two_calls_may_have_worked_since(errors: AdminErrors) -> None:
    errors.recovered()
    errors.note_error(REFUSED)
    assert errors.hopeless("asked", 4.9, LATER) is None
    assert isinstance(errors.hopeless("asked", 5.0, LATER), NotAuthorized)


def test_a_request_of_another_thread_does_not_make_a_refusal_old(errors: AdminErrors) -> None:
    errors.recovered()
    asked_at = time.monotonic()
    errors.note_error(REFUSED)
    assert errors.hopeless("asked", 0.0, LATER) is None
    assert isinstance(errors.hopeless("asked", 0.1, asked_at), NotAuthorized)


@pytest.mark.parametrize("code", [KafkaError._TRANSPORT, KafkaError._SSL])
def test_an_old_refusal_is_not_forgotten_for_another_cause(errors: AdminErrors, code: int) -> None:
    # librdkafka reports an identical error of a broker once in 30 s: it may not come again.
    errors.recovered()
    errors.note_error(REFUSED)
    errors.note_error(KafkaError(code, "Connect to b:1 failed"))
    assert isinstance(errors.hopeless("asked", 5.0, LATER), NotAuthorized)


def test_a_denied_request_shows_that_the_login_works(errors: AdminErrors) -> None:
    errors.answered()
    errors.note_error(REFUSED)
    assert errors.hopeless("asked", 4.9, LATER) is None


def test_a_second_refusal_during_the_call_counts_at_once(errors: AdminErrors) -> None:
    errors.recovered()
    errors.note_error(REFUSED)
    asked_at = time.monotonic()
    errors.note_error(REFUSED)
    assert isinstance(errors.hopeless("asked", 0.0, asked_at), NotAuthorized)


def test_a_listener_without_logins_is_named_with_the_protocol_it_needs(errors: AdminErrors) -> None:
    errors.note_error(WRONG_STATE)
    found = errors.hopeless("asked", 0.0, LATER)
    assert isinstance(found, NotAuthorized)
    assert "security.protocol has to be PLAINTEXT, not SASL_PLAINTEXT" in str(found)


def test_a_listener_that_took_a_login_before_does_not_refuse_it_by_the_same_answer(errors: AdminErrors) -> None:
    # As a broker answers a connection that logs in again twice within a second.
    errors.recovered()
    errors.note_error(WRONG_STATE)
    assert errors.hopeless("asked", 20.0, 0.0) is None
    assert isinstance(errors.explained("asked", WRONG_STATE), ClusterUnreachable)


def test_a_refusal_takes_the_place_of_any_other_cause(errors: AdminErrors) -> None:
    errors.note_error(KafkaError(KafkaError._TRANSPORT, "Connect to a:1 failed"))
    errors.note_error(REFUSED)
    errors.note_error(KafkaError(KafkaError._TRANSPORT, "Connect to a:1 failed"))
    assert isinstance(errors.hopeless("asked", 0.0, 0.0), NotAuthorized)


def test_an_answer_ends_what_was_reported_before(errors: AdminErrors) -> None:
    errors.note_error(REFUSED)
    errors.note_error(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    errors.recovered()
    assert errors.hopeless("asked", 60.0, 0.0) is None


@pytest.mark.parametrize(
    ("cause", "seconds", "kind"),
    [
        pytest.param(KafkaError(KafkaError._RESOLVE, "Failed to resolve 'a:1'"), 1.0, AddressUnknown, id="no_address"),
        pytest.param(
            KafkaError(KafkaError._SSL, "certificate verify failed"), 1.0, ClusterUnreachable, id="certificate"
        ),
        pytest.param(KafkaError(KafkaError._TRANSPORT, "Connect failed"), 5.0, ClusterUnreachable, id="no_connection"),
    ],
)
def test_it_waits_for_a_restart_only_if_that_can_help(
    errors: AdminErrors, cause: KafkaError, seconds: float, kind: type[Exception]
) -> None:
    errors.note_error(cause)
    assert errors.hopeless("asked", 60.0, 0.0) is None
    errors.note_error(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert errors.hopeless("asked", seconds - 0.1, 0.0) is None
    assert isinstance(errors.hopeless("asked", seconds, 0.0), kind)


def test_a_report_of_an_idle_time_does_not_end_a_call_early(errors: AdminErrors) -> None:
    # The cluster restarted while nobody asked. Now it is up, and slow: librdkafka does not say that it is connected again.
    errors.recovered()
    errors.note_error(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert errors.hopeless("asked", 29.0, LATER) is None


def test_a_report_of_an_idle_time_is_no_reason_if_a_connection_is_taken_now(
    errors: AdminErrors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "_error_of_own_connection", lambda: None)
    errors.recovered()
    errors.note_error(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    found = errors.unreachable("asked", "no answer within 30 s", LATER)
    assert str(found).startswith("The source cluster at a:1 does not answer (asked: no answer within 30 s)")


def test_a_report_during_the_call_ends_it(errors: AdminErrors) -> None:
    errors.recovered()
    asked_at = time.monotonic()
    errors.note_error(KafkaError(KafkaError._TRANSPORT, "Connect to a:1 failed"))
    errors.note_error(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert isinstance(errors.hopeless("asked", 5.0, asked_at), ClusterUnreachable)


def test_a_refused_request_keeps_its_code(errors: AdminErrors) -> None:
    found = errors.explained("create topic t", KafkaError(KafkaError.INVALID_REPLICATION_FACTOR))
    assert isinstance(found, AdminError)
    assert found.code == KafkaError.INVALID_REPLICATION_FACTOR


def test_a_request_whose_connection_was_lost_is_explained_also_before_that_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        properties = {"bootstrap.servers": f"127.0.0.1:{listener.getsockname()[1]}", "security.protocol": "PLAINTEXT"}
        errors = AdminErrors(properties, properties, "the source cluster", user="me", timeout=30, client_id="c")

        def hang_up() -> None:
            connection, _ = listener.accept()
            connection.close()

        hangs_up = threading.Thread(target=hang_up)
        hangs_up.start()
        lost = KafkaError(KafkaError._TRANSPORT, "Failed to get metadata: Local: Broker transport failure")
        found = errors.explained("asked for its id", lost)
        hangs_up.join()
    assert isinstance(found, ClusterUnreachable)
    assert "security.protocol has to be SSL, not PLAINTEXT" in str(found)
