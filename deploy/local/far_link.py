"""A broker far away: a forwarder on loopback that delays every byte, both ways, and counts the requests that pass.

Bandwidth stays what it is, unless the link is made thin: else only the way takes time, as on a line between continents.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any, Final, Self

from deploy.local import Listener, LocalCluster

PRODUCE: Final = 0
FETCH: Final = 1
FILLED: Final = 10_000
# What a connection takes although the link is too thin for it, as the buffers of sockets do.
SOCKET_BYTES: Final = 1 << 20
HOST: Final = "127.0.0.1"
CUT_LOOK_S: Final = 0.02
# What broker_config calls the listener that tools and brokers use; it stays near.
INTERNAL: Final = "INTERNAL"


class FarLink:
    """Forwards to `port` on loopback; each byte arrives `one_way_s` later. A context manager with a thread of its own.

    `bytes_per_second`: what the link carries each way, of all connections together; 0: whatever comes.
    `is_cut`: nothing passes, and nobody is told; what an end sends goes on when it is mended, unless that end has closed.
    `requests`: how many of each API key have passed; `filled`: of each, answers of 10 kB and more;
    `most_in_flight`: of each, unanswered at once on one connection.
    """

    def __init__(self, port: int, one_way_s: float) -> None:
        self.port = 0
        self.requests: Counter[int] = Counter()
        self.filled: Counter[int] = Counter()
        self.most_in_flight: Counter[int] = Counter()
        self._target = port
        self.one_way_s = one_way_s
        self.bytes_per_second = 0
        self.is_cut = False
        self.up, self.down = _Way(self), _Way(self)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="far-link", daemon=True)
        self._transports: set[asyncio.Transport] = set()
        self._clients: set[asyncio.Transport] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        server = self._run(self._loop.create_server(lambda: _Near(self), HOST, 0))
        self._server: asyncio.Server = server
        self.port = server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def break_connections(self) -> None:
        """Every client loses its connections. What is on its way to the broker still arrives there."""

        def abort() -> None:
            for transport in tuple(self._clients):
                transport.abort()

        self._loop.call_soon_threadsafe(abort)

    def opened(self, transport: asyncio.Transport, *, of_client: bool) -> None:
        """A connection was made, by a client or to the broker."""
        self._transports.add(transport)
        if of_client:
            self._clients.add(transport)

    def closed(self, transport: asyncio.Transport | None) -> None:
        """It is gone."""
        if transport is not None:
            self._transports.discard(transport)
            self._clients.discard(transport)

    async def connect(self, near: _Near) -> asyncio.Transport:
        """The broker's end of a connection that `near` is the client's end of."""
        transport, _ = await self._loop.create_connection(lambda: _Far(near), HOST, self._target)
        return transport

    async def _end(self) -> None:
        self._server.close()
        for transport in tuple(self._transports):
            transport.abort()
        await asyncio.sleep(0)
        await self._server.wait_closed()
        running = asyncio.all_tasks() - {asyncio.current_task()}
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)


class _Frames:
    """Cuts a stream into Kafka's frames: `on_frame` gets the first two bytes of each, and its size in bytes."""

    def __init__(self, on_frame: Callable[[int, int], None]) -> None:
        self._on_frame = on_frame
        self._head = bytearray()
        self._skip = 0

    def feed(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            if self._skip:
                step = min(self._skip, len(data) - at)
                self._skip -= step
                at += step
                continue
            step = min(6 - len(self._head), len(data) - at)
            self._head += data[at : at + step]
            at += step
            if len(self._head) == 6:
                size = int.from_bytes(self._head[:4], "big")
                self._skip = size - 2
                self._on_frame(int.from_bytes(self._head[4:], "big"), size)
                self._head.clear()


class _Way:
    """One of the link's two ways. When it is thin, bytes queue for it, in the order in which they came."""

    def __init__(self, link: FarLink) -> None:
        self._link = link
        self._free_at = 0.0

    def leaves_after(self, now: float, size: int) -> float:
        """In how many seconds the last of `size` bytes has left."""
        if not self._link.bytes_per_second:
            return 0.0
        self._free_at = max(self._free_at, now) + size / self._link.bytes_per_second
        return self._free_at - now


class _Late:
    """Hands on what it is given, in its order, after the delay. None: the end. `origin`: who gives it."""

    def __init__(self, link: FarLink, way: _Way) -> None:
        self._link = link
        self._way = way
        self._queue: deque[bytes | None] = deque()
        self._queued = 0
        self.origin: asyncio.Transport | None = None
        self.sink: asyncio.Transport | None = None

    def put(self, data: bytes | None) -> None:
        loop = asyncio.get_running_loop()
        size = len(data or b"")
        self._queue.append(data)
        self._queued += size
        if self.origin is not None and self._link.bytes_per_second and self._queued > SOCKET_BYTES:
            self.origin.pause_reading()
        loop.call_later(self._link.one_way_s + self._way.leaves_after(loop.time(), size), self._pass_on)

    def close(self) -> None:
        """The end that gives has closed. What is held back by a cut is lost then, as with TCP."""
        if self._link.is_cut:
            self._queue = deque(b"" for _ in self._queue)
        self.put(None)

    def _pass_on(self) -> None:
        if self.sink is None or self._link.is_cut:
            # The broker's end is still being connected, or nothing passes: again, without losing the turn.
            asyncio.get_running_loop().call_later(0.001 if self.sink is None else CUT_LOOK_S, self._pass_on)
            return
        data = self._queue.popleft()
        before = self._queued
        self._queued -= len(data or b"")
        if self.origin is not None and before > SOCKET_BYTES >= self._queued and not self.origin.is_closing():
            self.origin.resume_reading()
        if data is None:
            self.sink.close()
        elif not self.sink.is_closing():
            self.sink.write(data)


class _Near(asyncio.Protocol):
    """The client's end."""

    def __init__(self, link: FarLink) -> None:
        self.link = link
        self.transport: asyncio.Transport | None = None
        self.up, self.down = _Late(link, link.up), _Late(link, link.down)
        self._asked: deque[int] = deque()
        self._requests = _Frames(self._request)
        self.answers = _Frames(self._answer)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = self.down.sink = self.up.origin = transport
        self.link.opened(transport, of_client=True)
        self._connecting = asyncio.ensure_future(self._connect())

    def data_received(self, data: bytes) -> None:
        self._requests.feed(data)
        self.up.put(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.link.closed(self.transport)
        self.up.close()

    async def _connect(self) -> None:
        try:
            self.up.sink = await self.link.connect(self)
        except OSError:
            assert self.transport is not None
            self.transport.close()

    def _request(self, api_key: int, _: int) -> None:
        self._asked.append(api_key)
        self.link.requests[api_key] += 1
        self.link.most_in_flight[api_key] = max(self.link.most_in_flight[api_key], self._asked.count(api_key))

    def _answer(self, _: int, size: int) -> None:
        if self._asked:
            self.link.filled[self._asked.popleft()] += size >= FILLED


class _Far(asyncio.Protocol):
    """The broker's end."""

    def __init__(self, near: _Near) -> None:
        self._near = near
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = self._near.down.origin = transport
        self._near.link.opened(transport, of_client=False)

    def data_received(self, data: bytes) -> None:
        self._near.answers.feed(data)
        self._near.down.put(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._near.link.closed(self._transport)
        self._near.down.close()


@contextlib.contextmanager
def behind_link(cluster: LocalCluster, round_trip_s: float = 0.0) -> Iterator[FarLink]:
    """Puts the PLAINTEXT listener of the cluster's one broker, which has not been started, so far away from everyone.

    Clients come by the near port, and are led to the link by the first answer. The cluster's tools stay near.
    """
    broker = cluster.brokers[0]
    with FarLink(broker.port(Listener.PLAINTEXT), round_trip_s / 2) as link:
        broker.properties["advertised.listeners"] = (
            f"{Listener.PLAINTEXT}://{HOST}:{link.port},{INTERNAL}://{HOST}:{broker.port(INTERNAL)}"
        )
        yield link


@contextlib.contextmanager
def far_cluster(name: str, round_trip_s: float) -> Iterator[tuple[LocalCluster, FarLink]]:
    """A cluster of one broker that is so far away."""
    cluster = LocalCluster(name)
    with behind_link(cluster, round_trip_s) as link, contextlib.ExitStack() as closing:
        closing.callback(cluster.close)
        yield cluster.start(), link
