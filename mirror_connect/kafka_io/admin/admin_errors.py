"""The errors of admin calls: librdkafka's in one line, with the cause that its connections reported."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError

from mirror_connect.connectors.errors import (
    ADDRESS_ADVICE,
    AddressUnknown,
    ClusterUnreachable,
    ConfigError,
    NotAuthorized,
)
from mirror_connect.connectors.rights import MissingRight, Right
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.connection import UnsupportedByBroker
from mirror_connect.kafka_io.client.librdkafka_tokens import tokens_of
from mirror_connect.kafka_io.client.wrong_protocol import NO_LOGIN, no_login

_CREDENTIALS: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
_RIGHTS: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
_SILENCE: Final = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        # An answer without brokers, as a broker gives it that has just started.
        KafkaError._PARTIAL,
        # librdkafka drops a bootstrap handle once it knows that broker. Requests that wait there are lost.
        KafkaError._DESTROY_BROKER,
    }
)
# Other reports about a connection follow from one of these, or explain nothing.
_CAUSES: Final = (*_CREDENTIALS, KafkaError._SSL, KafkaError._RESOLVE, KafkaError._TRANSPORT, KafkaError._FAIL)
# How long to wait for a restart when no broker at all can be connected to.
_ALL_DOWN_SECONDS: Final = 5.0
_OWN_CONNECTION_SECONDS: Final = 10.0
# After a refused login in an idle time: a later login may have worked since, which nothing reports.
_LOGIN_AGAIN_SECONDS: Final = 5.0
# librdkafka's word: a broker hung up in a TLS handshake.
_HUNG_UP: Final = "Disconnected"


class AdminError(Exception):
    """The cluster refused the request: the topic exists, the replication factor is too large …"""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class AdminErrors:
    """The errors of one cluster's admin client. `config`: librdkafka's, made from `properties`; `timeout` in seconds."""

    def __init__(
        self,
        properties: Mapping[str, str],
        config: Mapping[str, Any],
        what: str,
        *,
        user: str,
        timeout: float,
        client_id: str,
    ) -> None:
        self._properties = dict(properties)
        self._client_id = client_id
        self._what = what
        self._user = user
        self._timeout = timeout
        self._tokens = tokens_of(config)
        self._addresses: str = config["bootstrap.servers"]
        self._protocol: str = config["security.protocol"].upper()
        self._identity = (
            f"sasl.mechanism {config['sasl.mechanism']}" if "sasl.mechanism" in config else config["security.protocol"]
        )
        if "sasl.username" in config:
            self._identity += f", user {config['sasl.username']}"
        self._lock = threading.Lock()
        # What a connection reported last that may explain a call without an answer.
        self._cause: KafkaError | None = None
        # When, by time.monotonic().
        self._cause_at = 0.0
        # When librdkafka said last that no broker is connected. It does not say when one is again.
        self._all_down_at: float | None = None
        self._has_answered = False

    def recovered(self) -> None:
        """Forgets what the connections reported: the cluster has answered."""
        with self._lock:
            self._cause = self._all_down_at = None
            self._has_answered = True

    def answered(self) -> None:
        """Notes that a login works: the cluster has answered, also if it denied the request."""
        with self._lock:
            self._has_answered = True

    def note_error(self, error: KafkaError) -> None:
        """Notes the error of a connection; for librdkafka's error_cb."""
        with self._lock:
            if error.code() == KafkaError._ALL_BROKERS_DOWN:
                self._all_down_at = time.monotonic()
            elif error.code() in _CAUSES and (
                self._cause is None or self._refuses(error) or not self._refuses(self._cause)
            ):
                self._cause, self._cause_at = error, time.monotonic()

    def _refuses(self, error: KafkaError) -> bool:
        """Whether the cluster refused the login.

        A connection that logs in again twice within a second gets the answer of a listener without logins. A listener that
        has taken a login before does not refuse it by that.
        """
        return error.code() in _CREDENTIALS and not (self._has_answered and NO_LOGIN in error.str())

    def hopeless(self, what: str, waited: float, asked_at: float) -> Exception | None:
        """The error to raise after `waited` seconds without an answer, if waiting longer will not help.

        `asked_at`: when the request was sent, by time.monotonic().
        """
        with self._lock:
            cause, down = self._cause, self._all_down_at
            old = self._has_answered and self._cause_at < asked_at
            stale = self._is_stale(asked_at)
        if cause is not None and self._refuses(cause) and (not old or waited >= _LOGIN_AGAIN_SECONDS):
            return self.explained(what, cause)
        # Waiting does not help if a name has no address, or a certificate isn't accepted.
        final = cause is not None and cause.code() in (KafkaError._RESOLVE, KafkaError._SSL)
        patience = 1.0 if final else min(_ALL_DOWN_SECONDS, self._timeout)
        if down is not None and waited >= patience and not stale:
            return self.unreachable(what, None)
        return None

    def _is_stale(self, asked_at: float) -> bool:
        """Whether all that connections reported is from before a request. An idle cluster may have restarted since."""
        return self._has_answered and max(self._cause_at, self._all_down_at or 0.0) < asked_at

    def explained(self, what: str, error: KafkaError, right: Right | None = None, asked_at: float = 0.0) -> Exception:
        """The error to raise for librdkafka's. `what` was requested at `asked_at`, and `right` is needed for it."""
        if error.code() in _RIGHTS and right is not None:
            # If a broker forwarded the request to the controller, the text is the whole request as Java prints it.
            text = KafkaError(error.code()).str() if error.str().startswith("Request Request(") else error.str()
            return MissingRight(
                f"The {self.named()} denied it ({what}): {text.rstrip('.')} ({self._identity})", right, self._user
            )
        if self._refuses(error):
            with self._lock:
                self._cause = None  # the next call tries again
            if self._tokens is not None and self._tokens.problem is not None:
                return self.no_token(self._tokens.problem)
            if NO_LOGIN in error.str():
                return NotAuthorized(f"The {self.named()} refused the login: {no_login(self._protocol)}")
            return NotAuthorized(f"The {self.named()} refused the credentials ({self._identity}): {_reason(error)}")
        if error.code() in _SILENCE or error.code() in _CREDENTIALS:
            lost = error.code() == KafkaError._TRANSPORT
            return self.unreachable(what, _reason(error), asked_at, connection_lost=lost)
        return AdminError(f"{what}: {error.str()} ({self.named()})", error.code())

    def no_token(self, problem: NotAuthorized | ClusterUnreachable) -> Exception:
        """The error for a login without a token. A silent token endpoint has refused nothing: the caller tries again."""
        text = f"No login at the {self.named()}: {problem}"
        return NotAuthorized(text) if isinstance(problem, NotAuthorized) else ClusterUnreachable(text)

    def unreachable(
        self, what: str, silence: str | None, asked_at: float = 0.0, *, connection_lost: bool = False
    ) -> Exception:
        """The error for a request without an answer. `silence`: how it ended; None if no broker could even be asked.

        `connection_lost`: the request's own connection ended, which its report may tell only later.
        """
        with self._lock:
            stale = self._is_stale(asked_at)
            cause, down, self._all_down_at = self._cause, self._all_down_at, None
        if cause is not None and self._refuses(cause):
            return self.explained(what, cause)
        if cause is not None and cause.code() == KafkaError._RESOLVE:
            # The first half is Kafka's sentence, which people search for.
            sentence = f"No resolvable bootstrap urls given in bootstrap.servers ({_reason(cause)})"
            what = f"The {self.named()} can't be reached"
            text = f"{what}: {sentence}. {ADDRESS_ADVICE}"
            return AddressUnknown(text, what=what, cause=sentence, advice=ADDRESS_ADVICE)
        closed = (down is not None or connection_lost) and (cause is None or _HUNG_UP in cause.str())
        if closed or (cause is not None and NO_LOGIN in cause.str()):
            better = self._error_of_own_connection()
            if better is not None:
                return better
            if stale:
                cause = down = None
        if cause is not None or down is not None or silence is None:
            why = "no broker can be connected to" if cause is None else _reason(cause)
            away = f"The {self.named()} can't be reached"
            advice = "Check that its brokers run, and its bootstrap.servers and security.protocol"
            return ClusterUnreachable(f"{away}: {why}. {advice}", what=away, cause=why, advice=advice)
        away, advice = f"The {self.named()} does not answer", "Look at its brokers"
        failed = f"{what}: {silence}"
        return ClusterUnreachable(f"{away} ({failed}). {advice}", what=away, cause=failed, advice=advice)

    def _error_of_own_connection(self) -> Exception | None:
        """Connects without librdkafka; returns the error. Unlike librdkafka, it shows when the broker hung up."""

        async def connect() -> None:
            cluster = Cluster(self._properties, self._client_id, kind="admin")
            try:
                async with asyncio.timeout(_OWN_CONNECTION_SECONDS):
                    await cluster.connect()
            finally:
                await cluster.close()

        try:
            asyncio.run(connect())
        except ClusterUnreachable as error:
            why, away = error.cause or str(error), f"The {self.named()} can't be reached"
            return ClusterUnreachable(f"{away}: {why}", what=away, cause=why)
        except NotAuthorized as error:
            return NotAuthorized(f"The {self.named()} refused the login: {error}")
        except (TimeoutError, ConfigError, UnsupportedByBroker):
            return None
        return None

    def named(self) -> str:
        """The cluster and its addresses, for texts."""
        return f"{self._what.removeprefix('the ')} at {self._addresses}"


def _reason(error: KafkaError) -> str:
    """librdkafka's sentence without the connection's name before it and the counters after it."""
    text = re.sub(r"^(?:\w+://)?\S+?/\w+: ", "", error.str())
    # "(after 0ms in state CONNECT, 5 identical error(s) suppressed)", or one of the two.
    return re.sub(r" \((?:after |\d+ identical)(?:[^()]|\([^()]*\))*\)", "", text).split("\n", 1)[0].strip()
