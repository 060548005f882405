"""OAuth tokens for librdkafka's clients, from the same token client as our own connections (oauth.py).

librdkafka's own `oidc` method reads a response of any size and quotes it in errors, so it gets a callback instead. It calls
that in the thread that serves all its responses, and closing a client waits for this thread. The endpoint may be slow, so a
thread of our own asks it, and the callback waits at most a second for the result.
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
    """The `oauth_cb` of clients with the same login. `problem`: why the endpoint gave no token the last time.

    librdkafka calls it after four fifths of a token's lifetime, and ten seconds after a failure.
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
        """Token, end (seconds since the epoch), principal, extensions. librdkafka does not show what this raises."""
        return *self.fetch(_CALLBACK_S), self._settings.client_id, dict(self._settings.extensions)

    def fetch(self, seconds: float) -> tuple[str, float]:
        """A valid token and its end; waits for the endpoint at most so long. NotAuthorized, ClusterUnreachable."""
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
            self.problem = ClusterUnreachable(f"the token endpoint {place} has not answered yet")
        if self.problem is None:
            self.problem = NotAuthorized(
                f"the token endpoint {place} gave client {self._settings.client_id} a token that has already ended; "
                "are the clocks right?"
            )
        # A new error each time, because an error collects the traceback of each raise.
        raise type(self.problem)(str(self.problem))

    def _request(self) -> Future[None]:
        """The request in progress, or a new one. It asks the endpoint only if a new token is needed."""
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
        except Exception as error:  # noqa: BLE001 — the waiting caller needs an error
            # Without its text, which may quote the response.
            self.problem = ClusterUnreachable(
                f"the token endpoint {self._settings.place} was not asked: {type(error).__name__}, a mistake of ours"
            )
        else:
            self._token, self.problem = (token, self._tokens.expires), None
        finally:
            asked.set_result(None)


def tokens_of(config: Mapping[str, Any]) -> LibrdkafkaTokens | None:
    """The source of tokens in this configuration; None if its clients log in otherwise."""
    found = config.get(_CALLBACK)
    return found if isinstance(found, LibrdkafkaTokens) else None


def first_token(config: Mapping[str, Any], seconds: float) -> None:
    """Waits for a token. Call it before a client of this configuration is created, outside the event loop.

    Raises NotAuthorized or ClusterUnreachable. Without this, the constructor of confluent-kafka (2.13 and later) waits for
    the token: at least a second, and ten seconds if none comes, with an error that does not say why.
    """
    tokens = tokens_of(config)
    if tokens is not None:
        tokens.fetch(seconds)
