"""One plain connection to one broker, for requests that must cost next to nothing while something is measured."""

from __future__ import annotations

import socket
import struct
from typing import Any, Final, TypeVar

from mirror_connect.kafka_io.protocol.codec import Reader, Request, Writer

T = TypeVar("T")
_HEAD: Final = struct.Struct(">ihhih")
_SIZE_BYTES: Final = 4


class BrokerGoneError(RuntimeError):
    """The broker hung up."""


def request_frame(request: Request[Any], version: int) -> bytes:
    """A whole request; its correlation id is 0, as answers come in order."""
    writer = Writer()
    request.encode(version, writer)
    body = b"".join(bytes(piece) for piece in writer.buffers())
    return _HEAD.pack(_HEAD.size - _SIZE_BYTES + len(body), request.api_key, version, 0, -1) + body


class BrokerSocket:
    """A blocking connection to `host:port` without login or encryption."""

    def __init__(self, address: str) -> None:
        self.address = address
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._answers = self._socket.makefile("rb", buffering=1 << 16)

    def send(self, frame: bytes) -> None:
        """Writes a request and doesn't wait for the answer."""
        self._socket.sendall(frame)

    def receive(self, request: Request[T], version: int) -> T:
        """The next answer, which must be one to such a request."""
        size = int.from_bytes(self._answers.read(_SIZE_BYTES), "big")
        body = self._answers.read(size)
        if not size or len(body) < size:
            raise BrokerGoneError(f"the broker at {self.address} hung up")
        return request.decode(version, Reader(memoryview(body)[_SIZE_BYTES:]))

    def call(self, request: Request[T], version: int) -> T:
        """Both."""
        self.send(request_frame(request, version))
        return self.receive(request, version)

    def close(self) -> None:
        """Hangs up."""
        self._answers.close()
        self._socket.close()
