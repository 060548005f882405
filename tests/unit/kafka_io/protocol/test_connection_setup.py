"""The first requests of a connection as bytes: aiokafka's structs."""

from __future__ import annotations

import struct

from aiokafka.protocol.admin import (
    SaslAuthenticateRequest_v1,
    SaslAuthenticateResponse_v0,
    SaslAuthenticateResponse_v1,
    SaslHandShakeRequest_v1,
    SaslHandShakeResponse_v1,
)

from mirror_connect.kafka_io.protocol.connection_setup import (
    ApiVersions,
    ApiVersionsResponse,
    SaslAuthenticate,
    SaslAuthenticateResponse,
    SaslHandshake,
    SaslHandshakeResponse,
)
from tests.fakes.request_bytes import decoded, encoded


def test_versions_are_asked_for_without_a_body_and_read_by_api_key() -> None:
    body = struct.pack(">hi6h", 0, 2, 0, 3, 9, 1, 4, 13)
    assert encoded(ApiVersions(), 0) == b""
    assert decoded(ApiVersions(), 0, body) == ApiVersionsResponse(0, {0: (3, 9), 1: (4, 13)})
    assert decoded(ApiVersions(), 0, struct.pack(">hi", 35, 0)) == ApiVersionsResponse(35, {})


def test_a_handshake_is_answered_with_the_enabled_mechanisms_also_where_it_fails() -> None:
    request = SaslHandshake("PLAIN")
    assert encoded(request, 1) == SaslHandShakeRequest_v1("PLAIN").encode()
    body = SaslHandShakeResponse_v1(33, ["SCRAM-SHA-256", "OAUTHBEARER"]).encode()
    assert decoded(request, 1, body) == SaslHandshakeResponse(33, ["SCRAM-SHA-256", "OAUTHBEARER"])


def test_a_login_has_a_lifetime_since_version_one() -> None:
    request = SaslAuthenticate(b"token")
    assert encoded(request, 1) == SaslAuthenticateRequest_v1(b"token").encode()
    first = SaslAuthenticateResponse_v0(0, None, b"proof").encode()
    second = SaslAuthenticateResponse_v1(58, "wrong password", b"", 9000).encode()
    assert decoded(request, 0, first) == SaslAuthenticateResponse(0, "", b"proof", 0)
    assert decoded(request, 1, second) == SaslAuthenticateResponse(58, "wrong password", b"", 9000)


def test_a_password_is_in_no_repr() -> None:
    assert "secret" not in repr(SaslAuthenticate(b"\0user\0secret"))
