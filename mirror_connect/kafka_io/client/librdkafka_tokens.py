"""Tokens for librdkafka's clients, by the client that our own connections ask for them, too (oauth.py).

By itself (its `oidc` method) librdkafka reads an answer of any size and quotes it in its errors. It is given a callback
instead, which it calls in a thread that brings all its answers and that the end of a client waits for: so the endpoint,
which may take its time, is asked in a thread of our own, and the callback waits for that no longer than a second.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.kafka_io.client.oauth import ClientCredentialsTokens, OAuthSettings

_CALLBACK_S: Final = 1.0
_CALLBACK: Final = "oauth_cb"


class LibrdkafkaTokens:
    """The `oauth_cb` of clients that log in in the same way. `problem`: why the endpoint gave no token last time.

    librdkafka calls it when four fifths of a token's life are over, and ten seconds after it has failed.
    """

    def __init__(
        self,
        settings: OAuthSettings,
        *,
        tokens: ClientCredentialsTokens | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.problem: ClusterUnreachable | NotAuthorized | None = None
        self._settings = settings
        self._tokens = tokens or ClientCredentialsTokens(settings)
        self._clock = clock
        self._lock = threading.Lock()
        self._asking: Future[None] | None = None
        self._token: tuple[str, float] | None = None

    def __repr__(self) -> str:
        return f"LibrdkafkaTokens({self._settings.place}, {self._settings.client_id})"

    def __call__(self, _: str | None) -> tuple[str, float, str, dict[str, str]]:
        """Token, end (seconds since the epoch), principal, extensions. What it raises librdkafka does not show."""
        return *self.fetch(_CALLBACK_S), self._settings.client_id, dict(self._settings.extensions)

    def fetch(self, seconds: float) -> tuple[str, float]:
        """A token that is valid now, and its end; waits for the endpoint that long. NotAuthorized, ClusterUnreachable."""
        place = self._settings.place
        late = False
        try:
            self._request().result(seconds)
        except TimeoutError:
            late = True
        found = self._token
        if found is not None and self._clock() < found[1]:
            return found
        if late:
            self.problem = ClusterUnreachable(f"the token endpoint {place} has given no answer yet")
        if self.problem is None:
            self.problem = NotAuthorized(
                f"the token endpoint {place} gave client {self._settings.client_id} a token that has already ended; "
                "are the clocks right?"
            )
        # A new one each time: an error keeps the way of each that it is raised by.
        raise type(self.problem)(str(self.problem))

    def _request(self) -> Future[None]:
        """What is under way, or begins now. It asks the endpoint only if a new token is due."""
        with self._lock:
            if self._asking is None or self._asking.done():
                self._asking = Future()
                threading.Thread(target=self._ask, args=(self._asking,), name="token", daemon=True).start()
            return self._asking

    def _ask(self, asked: Future[None]) -> None:
        try:
            token = asyncio.run(self._tokens.token())
        except (NotAuthorized, ClusterUnreachable) as error:
            self.problem = error
        except Exception as error:  # noqa: BLE001 — whoever waits has to be told
            # None of its text: it may be the answer's.
            self.problem = ClusterUnreachable(
                f"the token endpoint {self._settings.place} was not asked: {type(error).__name__}, a mistake of ours"
            )
        else:
            self._token, self.problem = (token, self._tokens.expires), None
        finally:
            asked.set_result(None)


def tokens_of(config: Mapping[str, Any]) -> LibrdkafkaTokens | None:
    """What gives the clients of this configuration their tokens; None: they log in otherwise."""
    found = config.get(_CALLBACK)
    return found if isinstance(found, LibrdkafkaTokens) else None


def first_token(config: Mapping[str, Any], seconds: float) -> None:
    """To be called before a client of this configuration is made, and off the event loop. NotAuthorized, ClusterUnreachable.

    confluent-kafka (2.13 and later, which call without being polled) waits in the constructor until the callback has brought
    a token: a second at least, and ten for one that never comes, with an error that does not say why.
    """
    tokens = tokens_of(config)
    if tokens is not None:
        tokens.fetch(seconds)
