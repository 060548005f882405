"""The signatures of requests between workers, made with the session key of the config topic.

Connect signs the body alone: whoever reads such a request can send it again, or below another path. So our workers sign
these, too: the method, the receiver, the path with its query, the sender, the time, a number used once, and a digest of the
body. It is one header, which is checked before the body is read.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from mirror_connect.app.config.inter_worker import DIGESTS
from mirror_connect.app.errors import BadRequest, Forbidden, NoSessionKey
from mirror_connect.app.storage.config_records import SessionKey
from mirror_connect.connectors.clock import boot_clock

# Connect's.
SIGNATURE: Final = "X-Connect-Authorization"
ALGORITHM: Final = "X-Connect-Request-Signature-Algorithm"
# Our own.
WORKER_SIGNATURE: Final = "X-Mirror-Connect-Signature"
# How far the clocks of two workers may differ. A request is remembered for as long, so that none counts twice.
CLOCKS_DIFFER_S: Final = 300.0
_MOST_REMEMBERED: Final = 1 << 18
_FORM: Final = re.compile(
    r"v1;(?P<algorithm>[\w/-]{1,40});(?P<time>\d{1,15});(?P<nonce>[0-9a-f]{32});(?P<sender>[\w.%~-]{1,512});"
    r"(?P<digest>[0-9a-f]{64});(?P<mac>[A-Za-z0-9+/=]{1,100})",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """What a signature covers. `receiver`: the advertised URL of that worker; `target`: path and query below it."""

    method: str
    receiver: str
    target: bytes
    body_digest: str

    @classmethod
    def of(cls, method: str, receiver: str, target: bytes, body: bytes) -> SignedRequest:
        """Of a whole request."""
        return cls(method, receiver, target, digest_of(body))


def digest_of(body: bytes) -> str:
    """The digest of a body in a signature of our own."""
    return hashlib.sha256(body).hexdigest()


def body_signature(body: bytes, key: SessionKey, algorithm: str) -> str:
    """Connect's signature of a request between workers, in base64."""
    return base64.b64encode(hmac.digest(key.key, body, DIGESTS[algorithm])).decode()


def worker_signature(request: SignedRequest, sender: str, key: SessionKey, algorithm: str, now: float) -> str:
    """The header of our own. `sender`: the worker_id; `now`: seconds since 1970."""
    fields = (algorithm, str(int(now * 1000)), secrets.token_hex(16), quote(sender, safe=""), request.body_digest)
    mac = hmac.digest(key.key, _signed_text(request, fields), DIGESTS[algorithm])
    return ";".join(("v1", *fields, base64.b64encode(mac).decode()))


class WorkerSignatures:
    """Checks headers of our own, each of them once. `allowed`: the algorithms that this worker accepts.

    What was signed before this process began is refused, as it does not remember what it accepted before. `boot` tells for
    how long it has run: `clock` may be set to another time meanwhile.
    """

    def __init__(
        self,
        allowed: Sequence[str],
        clock: Callable[[], float] = time.time,
        boot: Callable[[], float] = boot_clock,
    ) -> None:
        self._allowed = allowed
        self._clock = clock
        self._boot = boot
        self._begun = boot()
        self._seen: set[str] = set()
        # When each of them was signed, and when it came by `boot`.
        self._order: deque[tuple[float, float, str]] = deque()

    def check(self, header: str, method: str, receiver: str, target: bytes, keys: Sequence[SessionKey]) -> Verified:
        """The sender, and the digest that the body must have. BadRequest, Forbidden, NoSessionKey."""
        found = _FORM.fullmatch(header)
        if found is None:
            raise BadRequest(f"The header {WORKER_SIGNATURE} of the internal request is malformed")
        algorithm = _permitted(found["algorithm"], self._allowed)
        fields = (algorithm, found["time"], found["nonce"], found["sender"], found["digest"])
        text = _signed_text(SignedRequest(method, receiver, target, found["digest"]), fields)
        try:
            given = base64.b64decode(found["mac"], validate=True)
        except (binascii.Error, ValueError):
            raise BadRequest(f"The header {WORKER_SIGNATURE} of the internal request is malformed") from None
        if not keys:
            raise NoSessionKey
        if not any(hmac.compare_digest(given, hmac.digest(key.key, text, DIGESTS[algorithm])) for key in keys):
            raise Forbidden("Internal request contained invalid signature.")
        self._refuse_old(int(found["time"]) / 1000, found["nonce"])
        return Verified(unquote(found["sender"]), found["digest"])

    def _refuse_old(self, signed_at: float, nonce: str) -> None:
        now = self._clock()
        if abs(now - signed_at) > CLOCKS_DIFFER_S:
            raise Forbidden(
                f"The internal request was signed {abs(now - signed_at):.0f} s {'ago' if signed_at < now else 'ahead'}: "
                "set the clocks of both workers"
            )
        came = self._boot()
        # By when they came only if there are too many: a clock that is put back would make them valid once more. But then
        # they stay for long.
        enough = came - 2 * CLOCKS_DIFFER_S if len(self._seen) >= _MOST_REMEMBERED else float("-inf")
        while self._order and (self._order[0][0] < now - CLOCKS_DIFFER_S or self._order[0][1] < enough):
            self._seen.discard(self._order.popleft()[2])
        begun = now - (came - self._begun)
        if nonce in self._seen or signed_at < begun - 1 or len(self._seen) >= _MOST_REMEMBERED:
            raise Forbidden("Internal request was sent before; it must be signed again.")
        self._seen.add(nonce)
        self._order.append((signed_at, came, nonce))


@dataclass(frozen=True, slots=True)
class Verified:
    """What a valid signature says: who sent the request, and which body belongs to it."""

    sender: str
    body_digest: str

    def check_body(self, body: bytes) -> None:
        """Forbidden if the body is another one."""
        if not hmac.compare_digest(self.body_digest, digest_of(body)):
            raise Forbidden("Internal request contained invalid signature.")


def check_body_signature(
    body: bytes, algorithm: str | None, signature: str | None, *, allowed: Sequence[str], keys: Sequence[SessionKey]
) -> None:
    """Connect's check, with its order and texts; `signature` is base64. BadRequest, Forbidden, NoSessionKey."""
    if algorithm is None or signature is None:
        raise BadRequest("Internal request missing required signature")
    if algorithm not in DIGESTS:
        raise BadRequest(f"Algorithm {algorithm} not available")
    try:
        given = base64.b64decode(signature, validate=True)
    except (binascii.Error, ValueError):
        raise BadRequest("The signature of the internal request is not valid base64") from None
    _permitted(algorithm, allowed)
    if not keys:
        raise NoSessionKey
    if not any(hmac.compare_digest(given, hmac.digest(key.key, body, DIGESTS[algorithm])) for key in keys):
        raise Forbidden("Internal request contained invalid signature.")


def _permitted(algorithm: str, allowed: Sequence[str]) -> str:
    if algorithm not in allowed or algorithm not in DIGESTS:
        raise BadRequest(
            f"This worker does not support the '{algorithm}' key signing algorithm used by other workers. This worker is "
            f"currently configured to use: [{', '.join(allowed)}]. Check that all workers' configuration files permit the "
            "same set of signature algorithms, and correct any misconfigured worker and restart it."
        )
    return algorithm


def _signed_text(request: SignedRequest, fields: Sequence[str]) -> bytes:
    # None of these can have a line feed, so no two requests have one text.
    lines = (request.method.encode(), request.receiver.encode(), request.target, *(each.encode() for each in fields))
    return b"mirror-connect 1\n" + b"\n".join(lines)
