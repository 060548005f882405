"""A broker of a few lines, which answers byte for byte as a test says."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from mirror_connect.kafka_io.client.connecting import Login, open_connection
from mirror_connect.kafka_io.client.connection import Connection

VERSIONS = struct.pack(">hi", 0, 4) + struct.pack(">12h", 18, 0, 0, 17, 0, 1, 36, 0, 1, 10, 0, 2)

LARGE = 64 << 20

Answer = Callable[[int, bytes], Awaitable[bytes | None]]


@asynccontextmanager
async def broker(answer: Answer, chunk: int = 1 << 30, versions: bytes = VERSIONS) -> AsyncIterator[int]:
    """`answer(api key, request body)` returns the body of the response; None closes the connection."""
    serving: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.current_task())
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(size)
                key, _, correlation, name = struct.unpack_from(">hhih", frame)
                body = versions if key == 18 else await answer(key, frame[10 + name :])
                if body is None:
                    break
                out = struct.pack(">ii", len(body) + 4, correlation) + body
                for at in range(0, len(out), chunk):
                    writer.write(out[at : at + chunk])
                    await writer.drain()
                    await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


async def opened(port: int, login: Login | None = None, timeout: float = 60.0) -> Connection:
    return await open_connection(
        "127.0.0.1", port, client_id="test", tls=None, login=login, request_timeout=timeout, setup_timeout=60.0
    )


def coordinator(node: int, message: str = "") -> bytes:
    text = message.encode()
    return struct.pack(">ihh", 0, 0, len(text)) + text + struct.pack(">ih", node, 1) + b"h" + struct.pack(">i", 9)
