"""librdkafka's own lines about the worker's clients go to the log without secrets, and its errors become the worker's."""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.log_format import LineFormatter
from mirror_connect.connectors.rights import IDEMPOTENT_WRITE
from mirror_connect.connectors.secrets import HIDDEN, RedactingFilter
from mirror_connect.kafka_io.consumer.log_clients import LogClients
from tests.waiting import wait_for_state

SECRET = "hunter22-in-a-line"


@pytest.fixture
def said() -> Iterator[io.StringIO]:
    """A log as the worker's, which knows one secret."""
    net = RedactingFilter()
    net.keep([SECRET])
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.addFilter(net)
    handler.setFormatter(LineFormatter("%(levelname)s %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    yield text
    root.removeHandler(handler)


@pytest.mark.parametrize("kind", ["consumer", "producer"])
def test_librdkafkas_lines_are_the_logs_and_hold_no_secret(
    kind: str, said: io.StringIO, capfd: pytest.CaptureFixture[str]
) -> None:
    # Nobody listens there. Only the gravest lines are wanted, which need a broker; a refused connection is easier to have.
    clients = LogClients({"bootstrap.servers": "127.0.0.1:1"}, SECRET)
    louder = {"log_level": 7, "debug": "broker"}
    client = (
        Producer(clients.librdkafka("producer", "own") | louder)
        if kind == "producer"
        else Consumer(clients.librdkafka("consumer", "own") | louder | {"group.id": "g"})
    )

    def told() -> bool:
        client.poll(0.1)
        return "Connection refused" in said.getvalue()

    wait_for_state(told, "librdkafka says that nobody listens")
    if isinstance(client, Consumer):
        client.close()
    assert SECRET not in said.getvalue()
    assert f"ERROR FAIL [{HIDDEN}-own#{kind}-" in said.getvalue()
    assert capfd.readouterr().err == ""


def test_clients_may_be_closed_while_the_thread_that_polls_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = LogClients({"bootstrap.servers": "127.0.0.1:1"}, "test")
    started: list[threading.Thread] = []

    class Closing(threading.Thread):
        def start(self) -> None:
            clients.close(0.0)
            super().start()
            started.append(self)

    monkeypatch.setattr("mirror_connect.kafka_io.consumer.log_clients.threading.Thread", Closing)
    clients.warm_up()
    started[0].join(10)
    assert not started[0].is_alive()


# As librdkafka gives ILLEGAL_SASL_STATE.
WRONG_STATE = KafkaError(
    KafkaError._AUTHENTICATION,
    "a:1/1: SASL PLAIN handshake failed: Broker: Request not valid in current SASL state",
)
LOGIN = {"bootstrap.servers": "a:1", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}


def test_a_listener_without_logins_has_not_refused_the_credentials() -> None:
    clients = LogClients(LOGIN, "test")
    clients.note_error(WRONG_STATE)
    assert str(clients.refused_login()) == (
        "The cluster at a:1 refused the login: its listener takes no login: "
        "security.protocol has to be PLAINTEXT, not SASL_PLAINTEXT"
    )


def test_a_listener_that_has_taken_the_login_does_not_refuse_it_by_the_same_answer() -> None:
    clients = LogClients(LOGIN, "test")
    clients.recovered()
    clients.note_error(WRONG_STATE)
    assert clients.refused_login() is None
    assert isinstance(clients.explained("a record was not written", WRONG_STATE, IDEMPOTENT_WRITE), ClusterUnreachable)
    clients.note_error(KafkaError(KafkaError._AUTHENTICATION, "a:1/1: Authentication failed: Invalid password"))
    assert isinstance(clients.refused_login(), NotAuthorized)
