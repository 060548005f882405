from __future__ import annotations

import base64
import json
from urllib.parse import parse_qs

import httpx
import pytest

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.kafka_io.oauth import ClientCredentialsTokens, OAuthSettings


class Endpoint:
    """A token endpoint: answers in turn, the last one again and again."""

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
