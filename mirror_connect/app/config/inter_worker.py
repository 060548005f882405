"""The key that signs requests between workers: the settings `inter.worker.*`, with Java's names of algorithms."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from mirror_connect.connectors.config.table import INT, LIST, LOW, STRING, ConfigTable, Key, Quote, Settings
from mirror_connect.connectors.config.validators import one_of
from mirror_connect.connectors.errors import ConfigError

HMAC_SHA256: Final = "HmacSHA256"
# Java's names of the algorithms that Java and Python have → Python's name, and the bytes of a key that Java generates.
_ALGORITHMS: Final[Mapping[str, tuple[str, int]]] = MappingProxyType(
    {
        HMAC_SHA256: ("sha256", 32),
        "HmacSHA384": ("sha384", 48),
        "HmacSHA512": ("sha512", 64),
        "HmacSHA224": ("sha224", 28),
        "HmacSHA512/224": ("sha512_224", 28),
        "HmacSHA512/256": ("sha512_256", 32),
        "HmacSHA3-224": ("sha3_224", 28),
        "HmacSHA3-256": ("sha3_256", 32),
        "HmacSHA3-384": ("sha3_384", 48),
        "HmacSHA3-512": ("sha3_512", 64),
        "HmacSHA1": ("sha1", 64),
        "HmacMD5": ("md5", 64),
    }
)
DIGESTS: Final = MappingProxyType({name: digest for name, (digest, _) in _ALGORITHMS.items()})
_GENERATION: Final = "inter.worker.key.generation.algorithm"
_SIZE: Final = "inter.worker.key.size"
_TTL: Final = "inter.worker.key.ttl.ms"
_SIGNATURE: Final = "inter.worker.signature.algorithm"
_VERIFICATION: Final = "inter.worker.verification.algorithms"
# Of Java's generators for SHA-2 and SHA-3.
_LEAST_BITS: Final = 40
# A record of the config topic has the key.
_MOST_BITS: Final = 1 << 16


def _some_known(name: str, value: Any, quote: Quote) -> str | None:
    if not value:
        return (
            f"Invalid value {quote(value)} for configuration {name}: "
            "At least one signature verification algorithm must be provided"
        )
    unknown = next((each for each in value if each not in _ALGORITHMS), None)
    return None if unknown is None else one_of(*_ALGORITHMS)(name, unknown, quote)


INTER_WORKER_KEYS: Final = ConfigTable(
    Key(_GENERATION, STRING, HMAC_SHA256, LOW, "Kind of the key that signs requests between workers.",
        validator=one_of(*_ALGORITHMS)),
    Key(_SIZE, INT, None, LOW, "Its size in bits; not given: what Java generates for that kind."),
    Key(_TTL, INT, 3_600_000, LOW, "After how many milliseconds the leader replaces it; 0 and less: never."),
    Key(_SIGNATURE, STRING, HMAC_SHA256, LOW, "Algorithm of this worker's signatures.", validator=one_of(*_ALGORITHMS)),
    Key(_VERIFICATION, LIST, [HMAC_SHA256], LOW,
        "Algorithms of other workers' signatures that this one accepts; its own has to be among them.",
        validator=_some_known),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class InterWorker:
    """How the session key is made and used. `key_bytes`: its length; `ttl_ms`: not above 0 for no rotation."""

    generation_algorithm: str = HMAC_SHA256
    key_bytes: int = 32
    ttl_ms: int = 3_600_000
    signature_algorithm: str = HMAC_SHA256
    verification_algorithms: Sequence[str] = (HMAC_SHA256,)

    @classmethod
    def of(cls, settings: Settings) -> InterWorker:
        """From parsed settings; ConfigError as in Connect."""
        generation, signature = settings.text(_GENERATION), settings.text(_SIGNATURE)
        bits: int | None = settings[_SIZE]
        # Java's generators for MD5 and SHA-1 take any size. A key of less than 40 bits is found in no time.
        if bits is not None and not _LEAST_BITS <= bits <= _MOST_BITS:
            raise ConfigError(_SIZE, str(bits), f"a key has {_LEAST_BITS} to {_MOST_BITS} bits")
        accepted = settings.texts(_VERIFICATION)
        if signature not in accepted:
            raise ConfigError(_SIGNATURE, signature, f"Signature algorithm must be present in {_VERIFICATION} list")
        size = _ALGORITHMS[generation][1] if bits is None else (bits + 7) // 8
        return cls(generation, size, settings.integer(_TTL), signature, tuple(accepted))

    def new_key(self) -> bytes:
        """A fresh key."""
        return secrets.token_bytes(self.key_bytes)

    def replaces(self, key: bytes, algorithm: str, created_ms: int, now_ms: int) -> bool:
        """Whether the leader replaces a key, by Connect's rules: it is too old, or of another kind or size."""
        expired = 0 < self.ttl_ms <= now_ms - created_ms
        return expired or algorithm != self.generation_algorithm or len(key) != self.key_bytes
