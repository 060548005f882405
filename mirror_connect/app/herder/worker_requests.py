"""Requests that Kafka Connect's workers send each other, signed by the session key in the config topic.

Our workers send none of them and execute none. The endpoints check the signature and answer like Connect.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NoReturn

from mirror_connect.app.errors import BadRequest, Forbidden, NoSessionKey, NotInStandaloneMode, NotLeader
from mirror_connect.app.herder.interfaces import Membership
from mirror_connect.app.herder.leadership import Leadership
from mirror_connect.app.storage.config_records import SessionKey
from mirror_connect.app.storage.configs import ConfigStore

# Java's names of the algorithms that Java and Python have.
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


class Asked(StrEnum):
    """What a request asks for."""

    TASK_CONFIGS = "externally setting task configurations"
    FENCING = "exactly-once source connectors"


class StandaloneRequests:
    """In standalone mode: nobody is asked for a signature, as in Connect."""

    async def refuse(self, what: Asked, body: bytes, algorithm: str | None, signature: str | None) -> NoReturn:
        """Always raises NotInStandaloneMode."""
        del body, algorithm, signature
        raise NotInStandaloneMode(what)


class WorkerRequests:
    """See the module; `allowed`: the algorithms of signatures that this worker accepts, by Java's names."""

    def __init__(
        self, configs: ConfigStore, leadership: Leadership, membership: Membership, allowed: Sequence[str]
    ) -> None:
        self._configs = configs
        self._leadership = leadership
        self._membership = membership
        self._allowed = allowed

    async def refuse(self, what: Asked, body: bytes, algorithm: str | None, signature: str | None) -> NoReturn:
        """Always raises. Only a caller with a valid signature gets the leader's address."""
        del what
        await self._leadership.until_ready()
        key = self._configs.snapshot().session_key
        check_signature(body, algorithm, signature, allowed=self._allowed, key=key)
        raise NotLeader(None if self._membership.is_leader else self._membership.leader_url)


def check_signature(
    body: bytes, algorithm: str | None, signature: str | None, *, allowed: Sequence[str], key: SessionKey | None
) -> None:
    """Raises BadRequest, Forbidden or NoSessionKey, with Connect's order and texts; `signature` is base64."""
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
