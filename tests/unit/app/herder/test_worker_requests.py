"""The signature of a request between Connect's workers: checked in Connect's order, with its answers."""

from __future__ import annotations

import base64
import hmac

import pytest

from mirror_connect.app.errors import BadRequest, Forbidden, NoSessionKey
from mirror_connect.app.herder.worker_requests import check_signature
from mirror_connect.app.storage.config_records import SessionKey

KEY = SessionKey(b"k" * 32, "HmacSHA256", 0)
BODY = b"[{}]"


def signed(body: bytes = BODY, key: bytes = KEY.key, digest: str = "sha256") -> str:
    return base64.b64encode(hmac.digest(key, body, digest)).decode()


def check(algorithm: str | None, signature: str | None, *allowed: str, key: SessionKey | None = KEY) -> None:
    check_signature(BODY, algorithm, signature, allowed=allowed or ("HmacSHA256",), key=key)


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
