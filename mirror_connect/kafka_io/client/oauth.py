"""Gets OAuth bearer tokens by the client-credentials grant, as Kafka's own clients do (KIP-768).

`ClientCredentialsTokens` serves all connections: our own and librdkafka's (librdkafka_tokens.py).

Connector configs name the endpoint, so only URLs that the worker was started with are allowed, as in Kafka's clients. Its
response is limited in size, and no text of it is shown but the standard's error codes.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode, urlsplit

from mirror_connect.connectors.config.table import Settings
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.kafka_io.client.addresses import is_loopback
from mirror_connect.kafka_io.client.jaas import LoginModule
from mirror_connect.kafka_io.client.java_options import ALLOWED_URLS, KAFKA_OPTS, system_property
from mirror_connect.kafka_io.client.tls import TlsSettings

if TYPE_CHECKING:
    import httpx

_CREDENTIALS: Final = "sasl.oauthbearer.client.credentials."
_ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
_RETRIEVERS: Final = ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever")
# The lifetime, in seconds, of a token without a known end.
_UNKNOWN_LIFE: Final = 60.0
# Request Timeout, Too Many Requests: Java (HttpJwtRetriever) retries these, too.
_RETRIABLE: Final = frozenset({408, 429})
_ATTEMPTS: Final = 3
# No token is used for longer, whatever its end.
_LONGEST_LIFE: Final = 24 * 3600.0
_VERY_MANY: Final = 10**15
_LARGEST_ANSWER: Final = 1 << 20
# RFC 6750, 2.1, as in Java's client: another character could end the token and begin something else.
_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
# RFC 7628, 3.1, as in Java's client (OAuthBearerClientInitialResponse).
_EXTENSION: Final = "extension_"
_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7E \t\r\n]+")
# RFC 6749, 5.2: codes that may be shown. Any other text is not trusted.
_CODES: Final = frozenset(
    {
        *("invalid_request", "invalid_client", "invalid_grant", "invalid_scope"),
        *("unauthorized_client", "unsupported_grant_type"),
    }
)


@dataclass(frozen=True, slots=True)
class OAuthSettings:
    """The token endpoint and the client's credentials. Times in seconds."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)
    urlencode_header: bool = False
    connect_timeout: float = 10.0
    read_timeout: float = 10.0
    retry_backoff: float = 0.1
    retry_backoff_max: float = 10.0
    refresh_after: float = 0.8
    tls: TlsSettings | None = None

    @property
    def place(self) -> str:
        """The endpoint's URL for texts, without user, password and query."""
        return _without_userinfo(self.url)

    @classmethod
    def of(cls, settings: Settings, module: LoginModule, tls: TlsSettings | None) -> OAuthSettings:
        """From client settings, else from the login module, as in Kafka 4.1 and later. Raises ConfigError.

        `tls`: from the login module's `ssl.*` options; as in Kafka, the client's own `ssl.*` are for brokers only.
        """
        retriever = settings.text("sasl.oauthbearer.jwt.retriever.class").rsplit(".", 1)[-1]
        if retriever not in _RETRIEVERS:
            problem = f"only {' and '.join(_RETRIEVERS)} are supported (the client-credentials grant)"
            raise ConfigError("sasl.oauthbearer.jwt.retriever.class", retriever, problem)
        url = settings[_ENDPOINT]
        if not url:
            raise ConfigError(_ENDPOINT, None, "it has to be set for sasl.mechanism OAUTHBEARER")
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise ConfigError(_ENDPOINT, _without_userinfo(url), "it has to be an http or https URL")
        _check_allowed(url)
        options = module.options
        client_id = settings[_CREDENTIALS + "client.id"] or options.get("clientId")
        secret = settings.secret(_CREDENTIALS + "client.secret")
        client_secret = secret.reveal() if secret else options.get("clientSecret")
        if not client_id:
            raise ConfigError(_CREDENTIALS + "client.id", None, "neither it nor clientId in sasl.jaas.config is set")
        if client_secret is None:
            raise ConfigError(
                _CREDENTIALS + "client.secret", None, "neither it nor clientSecret in sasl.jaas.config is set"
            )
        return cls(
            url=url,
            client_id=client_id,
            client_secret=client_secret,
            scope=settings["sasl.oauthbearer.scope"] or options.get("scope"),
            extensions=_extensions(options),
            urlencode_header=settings.boolean("sasl.oauthbearer.header.urlencode"),
            connect_timeout=(settings["sasl.login.connect.timeout.ms"] or 10_000) / 1000,
            read_timeout=(settings["sasl.login.read.timeout.ms"] or 10_000) / 1000,
            retry_backoff=settings.integer("sasl.login.retry.backoff.ms") / 1000,
            retry_backoff_max=settings.integer("sasl.login.retry.backoff.max.ms") / 1000,
            refresh_after=settings.number("sasl.login.refresh.window.factor"),
            tls=tls,
        )


class ClientCredentialsTokens:
    """Provides a valid token, as aiokafka's AbstractTokenProvider does, and renews it well before its end."""

    def __init__(
        self,
        settings: OAuthSettings,
        *,
        clock: Callable[[], float] = time.time,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._transport = transport
        self._lock = asyncio.Lock()
        self._token: str | None = None
        self._renew_at = 0.0
        self._expires = 0.0

    def __repr__(self) -> str:
        return f"ClientCredentialsTokens({self._settings.place}, {self._settings.client_id})"

    @property
    def expires(self) -> float:
        """When the last token ends, by the clock."""
        return self._expires

    def extensions(self) -> dict[str, str]:
        """SASL extensions to send with the token (KIP-342)."""
        return dict(self._settings.extensions)

    async def token(self) -> str:
        """A token that is valid now. Raises NotAuthorized (refused) and ClusterUnreachable (no answer)."""
        async with self._lock:
            now = self._clock()
            if self._token is None or now >= self._renew_at:
                try:
                    await self._renew()
                except ClusterUnreachable:
                    # The old token is valid until its end; the next call tries again.
                    if self._token is None or now >= self._expires:
                        raise
            if self._token is None:
                raise ClusterUnreachable(f"the token endpoint {self._settings.place} gave no token")
            return self._token

    async def _renew(self) -> None:
        import httpx  # noqa: PLC0415 — slow to import, and needed for OAuth only

        settings = self._settings
        pause = settings.retry_backoff
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                answer = await self._ask()
            except (httpx.HTTPError, TimeoutError) as error:
                if attempt == _ATTEMPTS:
                    reason = str(error) or type(error).__name__
                    raise ClusterUnreachable(f"the token endpoint {settings.place} doesn't answer: {reason}") from None
            else:
                if answer.status < 500 and answer.status not in _RETRIABLE:
                    self._accept(answer)
                    return
                if attempt == _ATTEMPTS:
                    raise ClusterUnreachable(f"the token endpoint {settings.place} answers with status {answer.status}")
            await asyncio.sleep(pause)
            pause = min(pause * 2, settings.retry_backoff_max)

    async def _ask(self) -> _Answer:
        import httpx  # noqa: PLC0415 — see _renew

        settings = self._settings
        client_id, secret = settings.client_id, settings.client_secret
        if settings.urlencode_header:
            client_id, secret = quote(client_id, safe=""), quote(secret, safe="")
        form = {"grant_type": "client_credentials"} | ({"scope": settings.scope} if settings.scope else {})
        verify = settings.tls.context() if settings.tls is not None else True
        timeout = httpx.Timeout(settings.read_timeout, connect=settings.connect_timeout)
        # A limit for the whole exchange, too: a response may come one byte at a time.
        async with (
            asyncio.timeout(settings.connect_timeout + settings.read_timeout),
            httpx.AsyncClient(verify=verify, timeout=timeout, transport=self._transport) as client,
            client.stream(
                "POST",
                # httpx would log in with a user in the URL; Java does not.
                httpx.URL(settings.url).copy_with(userinfo=b""),
                content=urlencode(form),
                headers={
                    "Authorization": "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode(),
                    "Content-Type": "application/x-www-form-urlencoded",
                    "Accept": "application/json",
                    # A small response can decompress to any size.
                    "Accept-Encoding": "identity",
                    "Cache-Control": "no-cache",
                },
                follow_redirects=False,
            ) as response,
        ):
            if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                return _Answer(response.status_code, None, "its response is compressed, which was not requested")
            content = bytearray()
            async for piece in response.aiter_bytes():
                content += piece
                if len(content) > _LARGEST_ANSWER:
                    return _Answer(
                        response.status_code, None, f"its response is longer than {_LARGEST_ANSWER >> 20} MiB"
                    )
            return _Answer(response.status_code, bytes(content))

    def _accept(self, answer: _Answer) -> None:
        body = _members(answer.content)
        token = body.get("access_token")
        token = token.strip() if isinstance(token, str) else ""
        if answer.status != 200 or not _TOKEN.fullmatch(token):
            # At most a code of the standard: other text is not trusted, and may repeat the secret.
            code = body.get("error")
            reason = answer.problem or (code if isinstance(code, str) and code in _CODES else f"status {answer.status}")
            raise NotAuthorized(
                f"the token endpoint {self._settings.place} gave client {self._settings.client_id} no token: {reason}"
            )
        now = self._clock()
        self._token = token
        self._expires = now + _life(token, body.get("expires_in"), now)
        self._renew_at = now + (self._expires - now) * self._settings.refresh_after


@dataclass(frozen=True, slots=True)
class _Answer:
    """The endpoint's response; `problem`: why its content is not used."""

    status: int
    content: bytes | None
    problem: str | None = None


def _members(content: bytes | None) -> dict[str, Any]:
    try:
        body = json.loads(content or b"")
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def _life(token: str, expires_in: object, now: float) -> float:
    """The token's lifetime in seconds: from its `exp` claim, else the endpoint's `expires_in`; at most a day."""
    parts = token.split(".")
    if len(parts) == 3:
        try:
            claims = _members(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        except (binascii.Error, ValueError):
            claims = {}
        end = _seconds(claims.get("exp"))
        if end is not None:
            return min(max(end - now, 0.0), _LONGEST_LIFE)
    lifetime = _seconds(expires_in)
    return _UNKNOWN_LIFE if lifetime is None else min(max(lifetime, 0.0), _LONGEST_LIFE)


def _seconds(given: object) -> float | None:
    """A number from JSON; None for anything else and for NaN. Infinity, which Python accepts, becomes very many."""
    if isinstance(given, bool) or not isinstance(given, int | float) or given != given:  # noqa: PLR0124 — NaN
        return None
    return float(min(max(given, -_VERY_MANY), _VERY_MANY))


def _extensions(options: Mapping[str, str]) -> dict[str, str]:
    """SASL extensions (KIP-342), the `extension_…` options of a login module, checked as in Java. ConfigError."""
    found = {name.removeprefix(_EXTENSION): value for name, value in options.items() if name.startswith(_EXTENSION)}
    for name, value in found.items():
        if not _EXTENSION_NAME.fullmatch(name) or name == "auth":
            problem = f"{_EXTENSION}{name} names no SASL extension: a name has only letters A to Z and is not auth"
            raise ConfigError("sasl.jaas.config", None, problem)
        if not _EXTENSION_VALUE.fullmatch(value):
            problem = f"the value of {_EXTENSION}{name} is empty, or has other characters than printable ASCII"
            raise ConfigError("sasl.jaas.config", None, problem)
    return found


def _check_allowed(url: str) -> None:
    """As in Kafka's clients (ConfigurationUtils of 4.x), the URL must be equal to an allowed one. ConfigError."""
    allowed = system_property(ALLOWED_URLS) or ""
    if url not in [each.strip() for each in allowed.split(",")]:
        problem = (
            f"the worker isn't allowed to ask it; to allow it, start the worker with it in {KAFKA_OPTS}: "
            f"-D{ALLOWED_URLS}=URL,URL,…"
        )
        raise ConfigError(_ENDPOINT, _without_userinfo(url), problem)
    if urlsplit(url).scheme != "https" and not is_loopback(urlsplit(url).hostname or ""):
        problem = "it has to be an https URL, because the client's secret is sent to it; http is for this machine only"
        raise ConfigError(_ENDPOINT, _without_userinfo(url), problem)


def _without_userinfo(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return scheme + separator + host.rsplit("@", 1)[-1] + slash + path.partition("?")[0]
