"""OAuth tokens by the client-credentials grant: renewal, limits, and no secret in an error."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from collections.abc import AsyncIterator
from urllib.parse import parse_qs

import httpx
import pytest

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.kafka_io.client.oauth import ClientCredentialsTokens, OAuthSettings


class Endpoint:
    """A token endpoint with given responses, in order; it repeats the last one."""

    def __init__(self, *answers: httpx.Response | httpx.HTTPError) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, httpx.HTTPError):
            raise answer
        return answer


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def token(value: str, expires_in: int = 100) -> httpx.Response:
    return httpx.Response(200, json={"access_token": value, "expires_in": expires_in})


def tokens(endpoint: Endpoint, clock: Clock | None = None, **more: object) -> ClientCredentialsTokens:
    settings = OAuthSettings("http://u:pw@idp/token", "me", "hunter22", retry_backoff=0, **more)  # type: ignore[arg-type]
    return ClientCredentialsTokens(settings, clock=clock or Clock(), transport=httpx.MockTransport(endpoint))


async def test_a_token_is_asked_for_by_client_credentials() -> None:
    endpoint = Endpoint(token("t1"))
    await tokens(endpoint, scope="kafka").token()
    request = endpoint.requests[0]
    assert parse_qs(request.content.decode()) == {"grant_type": ["client_credentials"], "scope": ["kafka"]}
    assert request.headers["authorization"] == "Basic " + base64.b64encode(b"me:hunter22").decode()


async def test_a_token_serves_until_shortly_before_its_end() -> None:
    endpoint, clock = Endpoint(token("t1"), token("t2")), Clock()
    source = tokens(endpoint, clock)
    first = await source.token()
    clock.now += 79
    again = await source.token()
    clock.now += 2
    assert (first, again, await source.token()) == ("t1", "t1", "t2")


async def test_the_end_in_the_token_itself_counts() -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": 1010}).encode()).decode().rstrip("=")
    endpoint, clock = Endpoint(token(f"h.{claims}.s", 10_000), token("t2")), Clock()
    source = tokens(endpoint, clock)
    await source.token()
    clock.now += 9
    assert await source.token() == "t2"


async def test_a_token_is_used_to_its_end_while_the_endpoint_is_away() -> None:
    endpoint, clock = Endpoint(token("t1"), httpx.ConnectError("refused")), Clock()
    source = tokens(endpoint, clock)
    await source.token()
    clock.now += 90
    assert await source.token() == "t1"


async def test_an_endpoint_that_is_away_is_named_without_its_password() -> None:
    with pytest.raises(ClusterUnreachable, match=r"^the token endpoint http://idp/token doesn't answer: refused$"):
        await tokens(Endpoint(httpx.ConnectError("refused"))).token()


async def test_a_refusal_names_endpoint_client_and_code() -> None:
    refusal = httpx.Response(401, json={"error": "invalid_client", "error_description": "hunter22 is wrong"})
    with pytest.raises(NotAuthorized) as caught:
        await tokens(Endpoint(refusal)).token()
    assert str(caught.value) == "the token endpoint http://idp/token gave client me no token: invalid_client"


@pytest.mark.parametrize("status", [408, 429, 503])
async def test_a_passing_failure_of_the_endpoint_is_tried_again(status: int) -> None:
    assert await tokens(Endpoint(httpx.Response(status), token("t1"))).token() == "t1"


def test_settings_show_no_secret() -> None:
    assert "hunter22" not in repr(OAuthSettings("http://idp/token", "me", "hunter22"))


def answer(status: int = 200, **more: object) -> httpx.Response:
    return httpx.Response(status, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        pytest.param(answer(302, headers={"Location": "http://elsewhere/secret"}), "status 302", id="redirect"),
        pytest.param(answer(content=b'{"access_token": "' + b"x" * (1 << 20) + b'"}'), "longer than 1 MiB", id="huge"),
        pytest.param(
            answer(content=gzip.compress(b'{"access_token": "t"}'), headers={"Content-Encoding": "gzip"}),
            "its response is compressed",
            id="compressed",
        ),
        pytest.param(answer(403, json={"error": "root:x:0:0:secret"}), "status 403", id="a_code_of_its_own"),
        pytest.param(answer(content=b"[" * 100_000), "status 200", id="deep"),
        pytest.param(answer(json={"access_token": "a\x01b=c"}), "status 200", id="a_token_that_ends_the_message"),
        pytest.param(answer(json=["secret"]), "status 200", id="no_object"),
        pytest.param(answer(content=b"secret"), "status 200", id="no_json"),
    ],
)
async def test_an_answer_that_is_none_is_refused_and_not_quoted(given: httpx.Response, reason: str) -> None:
    endpoint = Endpoint(given)
    with pytest.raises(NotAuthorized, match=reason) as caught:
        await tokens(endpoint).token()
    assert len(endpoint.requests) == 1
    assert "secret" not in str(caught.value)
    assert len(str(caught.value)) < 150


async def test_compressed_answers_are_not_asked_for() -> None:
    endpoint = Endpoint(token("t"))
    await tokens(endpoint).token()
    assert endpoint.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    ("claim", "serves_s"),
    [
        ("NaN", 60), ("Infinity", 86_400), ("-Infinity", 0), ("1e400", 86_400), ("1" + "0" * 400, 86_400),
        ("-5", 0), ('"1010"', 60), ("true", 60), ("[]", 60), ("1e300", 86_400),
    ],
)  # fmt: skip
@pytest.mark.parametrize("where", ["exp", "expires_in"])
async def test_an_invalid_end_is_ignored_and_a_far_one_is_a_day(where: str, claim: str, serves_s: float) -> None:
    claims = base64.urlsafe_b64encode(f'{{"exp": {claim}}}'.encode()).decode().rstrip("=")
    first = {
        "exp": f'{{"access_token": "h.{claims}.s"}}',
        "expires_in": f'{{"access_token": "t", "expires_in": {claim}}}',
    }
    endpoint, clock = Endpoint(answer(content=first[where].encode()), token("t2")), Clock()
    source = tokens(endpoint, clock)
    before = await source.token()
    clock.now += serves_s * 0.8 - 1
    if serves_s:
        assert await source.token() == before
    clock.now += 2
    assert await source.token() == "t2"


async def test_a_response_that_comes_byte_by_byte_times_out() -> None:
    async def drip() -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(0.01)

    source = tokens(Endpoint(*(answer(content=drip()) for _ in range(3))), connect_timeout=0.1, read_timeout=0.1)
    async with asyncio.timeout(60):
        with pytest.raises(ClusterUnreachable, match="doesn't answer: TimeoutError"):
            await source.token()
