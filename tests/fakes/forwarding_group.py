"""Workers of one group over real HTTP that pass requests on to each other, and a server that answers what it is told."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from mirror_connect.app.herder.worker_client import WorkersLink
from mirror_connect.app.rest.application import Surface, create_application
from mirror_connect.app.rest.basic_auth import Authenticator
from mirror_connect.app.rest_client import RestClient
from tests.fakes.certificates import party
from tests.fakes.connect_worker import FakeMembership, FakeWorker, eventually, served, source_config

NO_TLS: Callable[[], ssl.SSLContext] = ssl.create_default_context


@dataclass
class Place:
    """A port that is open before the worker that answers there."""

    scheme: str = "http"
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.listener.getsockname()[1]}"


@dataclass
class Group:
    leader: FakeWorker
    follower: FakeWorker
    at_leader: httpx.AsyncClient
    at_follower: httpx.AsyncClient


def worker_at(place: Place, leader: FakeWorker | None, leader_url: str, client: RestClient) -> FakeWorker:
    membership = FakeMembership(is_leader=leader is None, leader_url=leader_url)
    topics = (None, None) if leader is None else (leader.config_topic, leader.status_topic)
    return FakeWorker(*topics, membership=membership, link=WorkersLink(place.url, client=client))


@contextlib.asynccontextmanager
async def group_of_two(
    *,
    users: Sequence[Authenticator] = (),
    leaders_users: Sequence[Authenticator] | None = None,
    leaders_surface: Surface | None = None,
    followers_surface: Surface | None = None,
    scheme: str = "http",
    leaders_tls: ssl.SSLContext | None = None,
    followers_tls: Callable[[], ssl.SSLContext] = NO_TLS,
    patience_s: float = 10.0,
    limit: int = 1 << 16,
) -> AsyncIterator[Group]:
    places = Place(scheme), Place()
    leader = worker_at(places[0], None, places[0].url, RestClient(NO_TLS))
    follower = worker_at(places[1], leader, places[0].url, RestClient(followers_tls, patience_s, limit))
    leading = create_application(
        leader.herder, users if leaders_users is None else leaders_users, leaders_surface or Surface()
    )
    following = create_application(follower.herder, users, followers_surface or Surface())
    async with (
        leader.running(),
        follower.running(),
        served(leading, places[0].listener, leaders_tls) as at_leader,
        served(following, places[1].listener) as at_follower,
    ):
        # Without the host and port as the client's default: Location is about them.
        await eventually(lambda: follower.configs.snapshot().session_key is not None)
        yield Group(leader, follower, at_leader, at_follower)


async def created(group: Group, name: str = "a") -> None:
    answer = await group.at_follower.post("/connectors", json={"name": name, "config": source_config()})
    assert answer.status_code == 201, answer.text
    await group.leader.state(name, "RUNNING", ["RUNNING"])
    await group.follower.state(name, "RUNNING", ["RUNNING"])


class Recorded:
    """A server that says what it is told to, and keeps what it heard."""

    def __init__(self, *said: bytes) -> None:
        self.heard: list[bytes] = []
        self.said = said
        self.closed = asyncio.Event()
        self._answering: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def at(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            await asyncio.gather(*self._answering)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
        head = await reader.readuntil(b"\r\n\r\n")
        found = re.search(rb"Content-Length: (\d+)", head)
        self.heard.append(head + await reader.readexactly(int(found[1]) if found else 0))
        with contextlib.suppress(ConnectionError):
            for piece in self.said:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.01)
            await reader.read()
        self.closed.set()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def answer_of(status: str, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


def stores(folder: Path, *, trusts: bool = True, client_auth: str = "none") -> dict[str, str]:
    root = party("root", None, ca=True)
    server = party("localhost", root, ca=False)
    (folder / "own.pem").write_text(server.key_pem() + server.pem)
    (folder / "root.pem").write_text(root.pem if trusts else party("other", None, ca=True).pem)
    return {
        "listeners.https.ssl.keystore.type": "PEM",
        "listeners.https.ssl.keystore.location": str(folder / "own.pem"),
        "listeners.https.ssl.truststore.type": "PEM",
        "listeners.https.ssl.truststore.location": str(folder / "root.pem"),
        "listeners.https.ssl.client.auth": client_auth,
        "listeners.https.ssl.endpoint.identification.algorithm": "",
    }
