"""The signature on requests that Connect's workers send each other, by the session key in the config topic.

Our workers send none. The endpoints are there, and check, so that whoever knocks hears what Connect would say.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

from mirror_connect.app.errors import BadRequest, Forbidden, NoSessionKey
from mirror_connect.app.storage.config_records import SessionKey

# Java's names of the algorithms that both know.
_DIGESTS: Final = MappingProxyType(
    {
        "HmacMD5": "md5",
        "HmacSHA1": "sha1",
        "HmacSHA224": "sha224",
        "HmacSHA256": "sha256",
        "HmacSHA384": "sha384",
        "HmacSHA512": "sha512",
    }
)


def check_signature(
    body: bytes, algorithm: str | None, signature: str | None, *, allowed: Sequence[str], key: SessionKey | None
) -> None:
    """BadRequest, Forbidden or NoSessionKey, in Connect's order and words; `signature` is base64."""
    if algorithm is None or signature is None:
        raise BadRequest("Internal request missing required signature")
    if algorithm not in _DIGESTS:
        raise BadRequest(f"Algorithm {algorithm} not available")
    try:
        given = base64.b64decode(signature, validate=True)
    except (binascii.Error, ValueError):
        raise BadRequest("The signature of the internal request is not valid base64") from None
    if algorithm not in allowed:
        raise BadRequest(
            f"This worker does not support the '{algorithm}' key signing algorithm used by other workers. This worker is "
            f"currently configured to use: [{', '.join(allowed)}]. Check that all workers' configuration files permit the "
            "same set of signature algorithms, and correct any misconfigured worker and restart it."
        )
    if key is None:
        raise NoSessionKey
    if not hmac.compare_digest(given, hmac.digest(key.key, body, _DIGESTS[algorithm])):
        raise Forbidden("Internal request contained invalid signature.")
