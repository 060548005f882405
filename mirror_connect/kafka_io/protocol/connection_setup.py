"""The first requests of each connection: ApiVersions, SaslHandshake, SaslAuthenticate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from mirror_connect.kafka_io.protocol.codec import Reader, Request, Writer


class ApiVersionsResponse(NamedTuple):
    """`versions`: API key → (lowest, highest); empty with an error."""

    error: int
    versions: dict[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class ApiVersions(Request[ApiVersionsResponse]):
    """Requests the versions that the broker supports."""

    api_key: ClassVar[int] = 18
    versions: ClassVar[tuple[int, int]] = (0, 0)

    def encode(self, version: int, writer: Writer) -> None:
        """No body."""

    def decode(self, version: int, reader: Reader) -> ApiVersionsResponse:
        """The list follows the error."""
        error = reader.int16()
        listed = reader.array(lambda: (reader.int16(), reader.int16(), reader.int16()))
        return ApiVersionsResponse(error, {key: (lowest, highest) for key, lowest, highest in listed})


class SaslHandshakeResponse(NamedTuple):
    """The enabled mechanisms; error 33 if the requested one is not among them."""

    error: int
    enabled: list[str]


@dataclass(frozen=True, slots=True)
class SaslHandshake(Request[SaslHandshakeResponse]):
    """Chooses a SASL mechanism. From v1 on, tokens are sent by SaslAuthenticate, whose errors have texts."""

    api_key: ClassVar[int] = 17
    versions: ClassVar[tuple[int, int]] = (1, 1)

    mechanism: str

    def encode(self, version: int, writer: Writer) -> None:
        """The mechanism's name."""
        writer.string(self.mechanism)

    def decode(self, version: int, reader: Reader) -> SaslHandshakeResponse:
        """The enabled mechanisms come with the error too."""
        return SaslHandshakeResponse(reader.int16(), reader.array(reader.string))


class SaslAuthenticateResponse(NamedTuple):
    """`session_ms`: how long the login lasts (KIP-368); 0: no limit."""

    error: int
    message: str
    token: bytes
    session_ms: int


class SaslAuthenticate(Request[SaslAuthenticateResponse]):
    """One token of a SASL exchange. No dataclass: its repr would show the password."""

    api_key: ClassVar[int] = 36
    versions: ClassVar[tuple[int, int]] = (0, 1)

    def __init__(self, token: bytes) -> None:
        self._token = token

    def encode(self, version: int, writer: Writer) -> None:
        """The token."""
        writer.bytes_(self._token)

    def decode(self, version: int, reader: Reader) -> SaslAuthenticateResponse:
        """The broker's token, or why it refused."""
        error, message, token = reader.int16(), reader.string(), bytes(reader.bytes_())
        return SaslAuthenticateResponse(error, message, token, reader.int64() if version >= 1 else 0)
