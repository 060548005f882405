"""Explains a listener that speaks another security.protocol than its client, and names the likely one.

Kafka's brokers do not answer what they do not understand: they close the connection. The time of that shows what they
expected. It stays a guess, because a broker that shuts down does so too; therefore the lines say `as … does`.
"""

from __future__ import annotations

from typing import Final

# librdkafka's words for ILLEGAL_SASL_STATE, whose code is that of all failed logins: a listener takes no login.
NO_LOGIN: Final = "Request not valid in current SASL state"
_TLS_ALERT: Final = b"\x15\x03"


def protocol_of(*, tls: bool, login: bool) -> str:
    """The security.protocol of a connection."""
    return ("SASL_" if login else "") + ("SSL" if tls else "PLAINTEXT")


def hung_up(protocol: str, requests: int) -> str:
    """The line for a broker that closed the connection after so many requests. The first one is ApiVersions."""
    closed = "the broker closed the connection"
    if requests <= 1 and protocol.endswith("PLAINTEXT"):
        return f"{closed} at once, as a listener with TLS does: then {_has_to_be(_with_tls(protocol), protocol)}"
    if requests <= 1:
        return f"{closed} at once; are security.protocol={protocol} and, for its own certificate, ssl.keystore.* right?"
    if requests == 2 and not protocol.startswith("SASL_"):
        right = _has_to_be(f"SASL_{protocol}", protocol)
        return f"{closed} at the first request, as a listener does that wants a login: then {right}"
    return f"{closed} at once; is security.protocol={protocol} right?" if requests == 2 else closed


def not_kafka(protocol: str, head: bytes) -> str:
    """The line for a response that is not of Kafka's protocol; `head`: its first bytes."""
    if head.startswith(_TLS_ALERT):
        return f"it speaks TLS there: {_has_to_be(_with_tls(protocol), protocol)}"
    return f"it doesn't speak Kafka's protocol there; are the port and security.protocol={protocol} right?"


def no_tls(protocol: str) -> str:
    """The line for a broker that closed the connection in the TLS handshake, or whose response is not TLS."""
    right = _has_to_be(protocol.replace("SSL", "PLAINTEXT"), protocol)
    return f"the broker closed the connection in the TLS handshake, as a listener without TLS does: then {right}"


def no_login(protocol: str) -> str:
    """The line for a broker whose listener has no login."""
    return f"its listener takes no login: {_has_to_be(protocol.removeprefix('SASL_'), protocol)}"


def _with_tls(protocol: str) -> str:
    return protocol.replace("PLAINTEXT", "SSL")


def _has_to_be(right: str, protocol: str) -> str:
    return f"security.protocol has to be {right}, not {protocol}"
