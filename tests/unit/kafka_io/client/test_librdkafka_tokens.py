"""Clients of librdkafka get their tokens from our token client: with limits, and no response is quoted."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.client.librdkafka_tokens import LibrdkafkaTokens
from mirror_connect.kafka_io.client.oauth import ClientCredentialsTokens, OAuthSettings
from mirror_connect.kafka_io.consumer import log_clients, topic_tail
from mirror_connect.kafka_io.consumer.log_clients import LogClients
from mirror_connect.kafka_io.consumer.topic_tail import TopicTail
from tests.waiting import wait_for_state

HUGE = 50 << 20


class Endpoint:
    """A token endpoint with the responses of a test; `sent`: how many bytes of bodies clients have read."""

    def __init__(self) -> None:
        self.status, self.body = 200, b""
        self.sent = 0
        endpoint = self

        class Answers(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(endpoint.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(endpoint.body)))
                self.end_headers()
                for at in range(0, len(endpoint.body), 1 << 16):
                    endpoint.sent += self.wfile.write(endpoint.body[at : at + (1 << 16)])

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: object, client_address: object) -> None:
                """Ignores that the client has closed the connection."""

        self._server = Server(("127.0.0.1", 0), Answers)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/token"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    made = Endpoint()
    monkeypatch.setenv("KAFKA_OPTS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={made.url}")
    yield made
    made.close()


def properties(endpoint: Endpoint) -> dict[str, str]:
    return {
        "bootstrap.servers": "127.0.0.1:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": endpoint.url,
        "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'clientId="me" clientSecret="hunter22" extension_logicalCluster="lkc-1";',
    }


def test_members_of_a_refusal_do_not_come_into_an_admin_clients_errors(endpoint: Endpoint) -> None:
    answer = {"error": "SECRET-CODE-XYZ", "error_description": "MEMBER-OF-ANSWER"}
    endpoint.status, endpoint.body = 400, json.dumps(answer).encode()
    with pytest.raises(NotAuthorized) as caught:
        ClusterAdmin(properties(endpoint), "source cluster", 20).topics()
    assert str(caught.value).endswith(f"the token endpoint {endpoint.url} gave client me no token: status 400")


def test_a_huge_answer_is_not_read_for_an_admin_client(endpoint: Endpoint) -> None:
    endpoint.body = json.dumps({"access_token": "x" * HUGE}).encode()
    with pytest.raises(NotAuthorized, match="its response is longer than 1 MiB"):
        ClusterAdmin(properties(endpoint), "source cluster", 20).topics()
    assert endpoint.sent < HUGE


def test_an_endpoint_that_is_away_is_no_refusal(endpoint: Endpoint) -> None:
    endpoint.close()
    with pytest.raises(ClusterUnreachable, match=f"the token endpoint {endpoint.url} doesn't answer"):
        ClusterAdmin(properties(endpoint), "source cluster", 20).topics()


def test_nor_do_they_when_a_later_token_is_refused(endpoint: Endpoint) -> None:
    endpoint.body = json.dumps({"access_token": "t", "expires_in": 2}).encode()
    admin = ClusterAdmin(properties(endpoint), "source cluster", 30)
    with pytest.raises(ClusterUnreachable, match="can't be reached"):
        admin.topics()
    endpoint.status, endpoint.body = 400, b'{"error": "SECRET-CODE-XYZ"}'

    def told() -> str:
        with pytest.raises((NotAuthorized, ClusterUnreachable)) as caught:
            admin.topics()
        return str(caught.value)

    wait_for_state(
        lambda: (
            told()
            == f"No login at the source cluster at 127.0.0.1:1: the token endpoint {endpoint.url} gave client me no "
            "token: status 400"
        ),
        "the refusal is told",
    )


def test_a_log_without_a_token_reports_why_and_can_be_closed(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint.status, endpoint.body = 400, b'{"error": "SECRET-CODE-XYZ"}'
    clients = LogClients(properties(endpoint), "test")
    tail = TopicTail(clients, "configs", [0], lambda _, __: None)
    try:
        wait_for_state(lambda: bool(caplog.messages), "the line is in the log")
    finally:
        tail.stop()
    line = (
        f"No login at the cluster at 127.0.0.1:1: the token endpoint {endpoint.url} gave client me no token: status 400"
    )
    assert caplog.messages == [f"Reading topic configs: {line}"]
    with pytest.raises(NotAuthorized, match=f"^{line}$"):
        clients.warm_up()


async def test_the_clients_of_a_log_ask_for_one_token(endpoint: Endpoint) -> None:
    clients = LogClients(properties(endpoint), "test")
    made = {id(clients.librdkafka(kind, "c")["oauth_cb"]) for kind in ("admin", "producer", "consumer")}
    assert len(made) == 1


async def test_clients_that_wait_for_a_token_are_made_off_the_event_loop(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    makers: dict[str, threading.Thread] = {}

    def watched(kind: str) -> None:
        module = topic_tail if kind == "Consumer" else log_clients
        real = getattr(module, kind)

        def make(*arguments: object, **more: object) -> object:
            makers[kind] = threading.current_thread()
            return real(*arguments, **more)

        monkeypatch.setattr(module, kind, make)

    endpoint.body = json.dumps({"access_token": "t", "expires_in": 60}).encode()
    for kind in ("AdminClient", "Producer", "Consumer"):
        watched(kind)
    clients = LogClients(properties(endpoint), "test")
    tail = TopicTail(clients, "configs", [0], lambda _, __: None)
    writing = asyncio.create_task(clients.write("configs", [(b"k", b"v")]))
    with pytest.raises(ClusterUnreachable):
        await clients.end_offsets("configs", [0], 1.0)
    while len(makers) < 3:
        await asyncio.sleep(0.01)
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    await asyncio.to_thread(tail.stop)
    await asyncio.to_thread(clients.close, 0.0)
    assert threading.current_thread() not in makers.values()


class Delivering:
    """A producer that writes each message at once."""

    def produce(self, _: str, *, on_delivery: Callable[[None, None], None], **__: object) -> None:
        on_delivery(None, None)


@pytest.mark.timeout(60)
async def test_a_write_does_not_wait_for_another_client_to_be_made() -> None:
    clients = LogClients({"bootstrap.servers": "127.0.0.1:1"}, "test")
    clients._producer = Delivering()
    with clients._creating:
        await clients.write("configs", [(b"k", b"v")])


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Answers:
    """The responses of an endpoint without a network; while it is `away`, requests wait."""

    def __init__(self, life_s: int) -> None:
        self.given = 0
        self.away = False
        self._life_s = life_s

    async def __call__(self, _: httpx.Request) -> httpx.Response:
        while self.away:
            await asyncio.sleep(0.01)
        self.given += 1
        return httpx.Response(200, json={"access_token": f"t{self.given}", "expires_in": self._life_s})


def callback(answers: Answers, clock: Clock) -> LibrdkafkaTokens:
    settings = OAuthSettings("http://idp/token", "me", "hunter22", extensions={"logicalCluster": "lkc-1"})
    tokens = ClientCredentialsTokens(settings, clock=clock, transport=httpx.MockTransport(answers))
    return LibrdkafkaTokens(settings, tokens=tokens, clock=clock)


def test_librdkafka_gets_the_token_with_its_end_and_the_extensions() -> None:
    assert callback(Answers(100), Clock())(None) == ("t1", 1100.0, "me", {"logicalCluster": "lkc-1"})


def test_librdkafka_gets_the_old_token_while_the_endpoint_is_away_and_then_a_new_one() -> None:
    answers, clock = Answers(100), Clock()
    asked = callback(answers, clock)
    asked(None)
    clock.now += 90
    answers.away = True
    assert asked(None)[:2] == ("t1", 1100.0)
    answers.away = False
    wait_for_state(lambda: asked(None)[0] == "t2", "the new token is there")
    assert asked(None)[:2] == ("t2", 1190.0)
    assert asked.problem is None


def test_librdkafkas_thread_is_not_kept_by_an_endpoint_that_hangs() -> None:
    answers, clock = Answers(100), Clock()
    asked = callback(answers, clock)
    answers.away = True
    began = time.monotonic()
    with pytest.raises(ClusterUnreachable, match="http://idp/token has not answered yet"):
        asked(None)
    # By itself, the endpoint would have 60 s.
    assert time.monotonic() - began < 15
    answers.away = False
    wait_for_state(lambda: answers.given == 1, "who asked is gone")


def test_a_token_that_has_ended_when_it_comes_is_reported() -> None:
    with pytest.raises(NotAuthorized, match="gave client me a token that has already ended; are the clocks right"):
        callback(Answers(0), Clock())(None)
