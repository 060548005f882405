"""A request as the bytes of its body, and the body of an answer as its values."""

from __future__ import annotations

from typing import TypeVar

from mirror_connect.kafka_io.protocol.codec import Reader, Request, Writer

T = TypeVar("T")


def encoded(request: Request[T], version: int) -> bytes:
    writer = Writer(flexible=version >= request.flexible_from)
    request.encode(version, writer)
    return b"".join(writer.buffers())


def decoded(request: Request[T], version: int, body: bytes) -> T:
    return request.decode(version, Reader(memoryview(body), flexible=version >= request.flexible_from))
