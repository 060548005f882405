"""Signatures of requests between workers: Connect's, checked in its order with its answers, and our own."""

from __future__ import annotations

import base64
import hmac

import pytest

from mirror_connect.app.errors import BadRequest, Forbidden, NoSessionKey
from mirror_connect.app.herder import request_signatures
from mirror_connect.app.herder.request_signatures import (
    CLOCKS_DIFFER_S,
    SignedRequest,
    WorkerSignatures,
    body_signature,
    check_body_signature,
    digest_of,
    worker_signature,
)
from mirror_connect.app.storage.config_records import SessionKey

KEY = SessionKey(b"k" * 32, "HmacSHA256", 0)
BODY = b"[{}]"


def signed(body: bytes = BODY, key: bytes = KEY.key, digest: str = "sha256") -> str:
    return base64.b64encode(hmac.digest(key, body, digest)).decode()


def check(algorithm: str | None, signature: str | None, *allowed: str, key: SessionKey | None = KEY) -> None:
    keys = [] if key is None else [key]
    check_body_signature(BODY, algorithm, signature, allowed=allowed or ("HmacSHA256",), keys=keys)


@pytest.mark.parametrize(
    ("algorithm", "digest"), [("HmacSHA256", "sha256"), ("HmacMD5", "md5"), ("HmacSHA512", "sha512")]
)
def test_a_good_signature_passes(algorithm: str, digest: str) -> None:
    check(algorithm, signed(digest=digest), algorithm)


@pytest.mark.parametrize(
    "signature",
    [
        pytest.param(signed(b"[{}, {}]"), id="of_another_body"),
        pytest.param(signed(key=b"x" * 32), id="by_another_key"),
        pytest.param(signed(digest="sha1"), id="by_another_algorithm"),
        pytest.param("", id="empty"),
    ],
)
def test_another_signature_is_forbidden(signature: str) -> None:
    with pytest.raises(Forbidden, match="contained invalid signature"):
        check("HmacSHA256", signature)


@pytest.mark.parametrize(
    ("algorithm", "signature", "problem"),
    [
        pytest.param(None, signed(), "missing required signature", id="no_algorithm"),
        pytest.param("HmacSHA256", None, "missing required signature", id="no_signature"),
        pytest.param("HmacWhat", "%", "Algorithm HmacWhat not available", id="an_unknown_algorithm"),
        pytest.param("HmacSHA1", "%", "not valid base64", id="no_base64"),
        pytest.param(
            "HmacSHA1", signed(), r"currently configured to use: \[HmacSHA256\]", id="one_that_is_not_allowed"
        ),
    ],
)
def test_a_signature_that_cannot_be_checked_is_a_bad_request(
    algorithm: str | None, signature: str | None, problem: str
) -> None:
    # Without a key: that is looked at last.
    with pytest.raises(BadRequest, match=problem):
        check(algorithm, signature, key=None)


def test_without_a_key_nothing_can_be_checked() -> None:
    with pytest.raises(NoSessionKey):
        check("HmacSHA256", signed(), key=None)


def test_a_key_of_a_moment_ago_still_counts() -> None:
    former = SessionKey(b"f" * 32, "HmacSHA256", 0)
    check_body_signature(
        BODY, "HmacSHA256", body_signature(BODY, former, "HmacSHA256"), allowed=["HmacSHA256"], keys=[KEY, former]
    )


# Our own.

NOW = 1_700_000_000.0
ME = "http://me:8083"
TARGET = b"/connectors/a/tasks?forward=true"


class Receiver:
    """A worker with the key, at a time that tests set. `ahead`: by how much its clock was put forward since it began."""

    def __init__(self, *allowed: str) -> None:
        self.now = NOW
        self.ahead = 0.0
        self.signatures = WorkerSignatures(
            allowed or ("HmacSHA256",), lambda: self.now + self.ahead, lambda: self.now - NOW
        )

    def check(self, header: str, method: str = "POST", target: bytes = TARGET, key: SessionKey | None = KEY) -> str:
        verified = self.signatures.check(header, method, ME, target, [] if key is None else [key])
        verified.check_body(BODY)
        return verified.sender


def header_of(
    method: str = "POST",
    receiver: str = ME,
    target: bytes = TARGET,
    body: bytes = BODY,
    *,
    sender: str = "one:8083",
    key: SessionKey = KEY,
    algorithm: str = "HmacSHA256",
    at: float = NOW + 1,
) -> str:
    return worker_signature(SignedRequest.of(method, receiver, target, body), sender, key, algorithm, at)


@pytest.mark.parametrize("sender", ["one:8083", "[::1]:8083/A->B", "a;b\nc"])
def test_our_signature_tells_the_sender(sender: str) -> None:
    assert Receiver().check(header_of(sender=sender)) == sender


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(header_of(method="PUT"), id="of_another_method"),
        pytest.param(header_of(receiver="http://other:8083"), id="for_another_worker"),
        pytest.param(header_of(target=b"/connectors/b/tasks?forward=true"), id="of_another_path"),
        pytest.param(header_of(target=b"/connectors/a/tasks?forward=false"), id="of_another_query"),
        pytest.param(header_of(body=b"[]"), id="of_another_body"),
        pytest.param(header_of(key=SessionKey(b"x" * 32, "HmacSHA256", 0)), id="by_another_key"),
        pytest.param(header_of().replace(digest_of(BODY), digest_of(b"[]")), id="with_another_digest"),
        pytest.param(header_of().replace("one", "two"), id="with_another_sender"),
        pytest.param(header_of(at=NOW + 1).replace("1700000001000", "1700000002000"), id="with_another_time"),
        pytest.param(header_of(at=NOW - CLOCKS_DIFFER_S - 1), id="of_long_ago"),
        pytest.param(header_of(at=NOW + CLOCKS_DIFFER_S + 1), id="of_the_future"),
        pytest.param(header_of(at=NOW - 60), id="of_before_this_worker_began"),
    ],
)
def test_our_signature_holds_for_one_request(header: str) -> None:
    with pytest.raises(Forbidden):
        Receiver().check(header)


@pytest.mark.parametrize("ahead", [-3600.0, 3600.0])
def test_clocks_that_are_set_anew_refuse_nothing_that_is_signed_after_that(ahead: float) -> None:
    receiver, before = Receiver(), header_of(at=NOW + 10)
    receiver.now = NOW + 10
    receiver.check(before)
    receiver.ahead = ahead
    receiver.now = NOW + 12
    receiver.check(header_of(at=NOW + 12 + ahead))
    with pytest.raises(Forbidden):  # it was signed before this worker began, whatever the clock showed then
        receiver.check(header_of(at=NOW - 10 + ahead))
    # When the clock shows the same time once more.
    receiver.now = NOW + 10 - ahead
    with pytest.raises(Forbidden):
        receiver.check(before)


def test_a_clock_that_is_set_back_never_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was signed before that is remembered until the clock shows that time again: at most so much of it."""
    monkeypatch.setattr(request_signatures, "_MOST_REMEMBERED", 3)
    receiver = Receiver()
    old = [header_of(at=NOW + number) for number in range(3)]
    for header in old:
        receiver.check(header)
    receiver.ahead = -86_400.0
    receiver.now = NOW + 2 * CLOCKS_DIFFER_S
    for _ in range(2):  # so many are never refused within the time in which they could be sent again
        with pytest.raises(Forbidden):
            receiver.check(header_of(at=receiver.now + receiver.ahead))
    receiver.now += 3
    receiver.check(header_of(at=receiver.now + receiver.ahead))


def test_a_request_counts_once() -> None:
    receiver, header = Receiver(), header_of()
    receiver.check(header)
    for later in (1, CLOCKS_DIFFER_S - 1, CLOCKS_DIFFER_S + 60, 3 * CLOCKS_DIFFER_S):
        receiver.now = NOW + later
        with pytest.raises(Forbidden):
            receiver.check(header)
    receiver.check(header_of(at=receiver.now))


def test_what_was_seen_is_not_kept_for_ever() -> None:
    receiver = Receiver()
    for number in range(100):
        receiver.now = NOW + number * CLOCKS_DIFFER_S
        receiver.check(header_of(at=receiver.now))
    assert len(receiver.signatures._seen) <= 3


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        pytest.param("v1;x", "malformed", id="malformed"),
        pytest.param(header_of() + "\n", "malformed", id="with_a_line_feed"),
        pytest.param(header_of().replace("HmacSHA256", "HmacROT13"), "does not support", id="an_unknown_algorithm"),
        pytest.param(header_of(algorithm="HmacMD5"), "does not support the 'HmacMD5'", id="one_that_is_not_allowed"),
        pytest.param(header_of().rpartition(";")[0] + ";===", "malformed", id="no_base64"),
    ],
)
def test_a_signature_of_ours_that_cannot_be_checked_is_a_bad_request(header: str, problem: str) -> None:
    with pytest.raises(BadRequest, match=problem):
        Receiver().check(header, key=None)


def test_without_a_key_our_signature_cannot_be_checked() -> None:
    with pytest.raises(NoSessionKey):
        Receiver().check(header_of(), key=None)
