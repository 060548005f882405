"""What hostile clients send, and how it is sent: bytes as they are, many requests at once."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import httpx

from deploy.local import LocalCluster
from tests.brokers import messages
from tests.e2e.product import Product

GROUP: Final = "hostile"
PASSWORD: Final = "users-pony-adapter"
EXTENSION: Final = "org.apache.kafka.connect.rest.basic.auth.extension"
LONG_NAME: Final = "n" * 10_000
# What is accepted, as Connect accepts it.
STRANGE_NAMES: Final = (
    "a/b",
    "..",
    "a b;c,d?e#f%41",
    "<b>&\"'",
    "\u2028\u202e",
    "\U0001f40e\u00fc\u2603",
    "commit-x",
    "x-0",
)
STRANGE_CONFIG: Final = {
    "nul": "a\0b",
    "controls": "".join(map(chr, range(1, 0x20))) + "\x7f\x85",
    "no-characters": "\ufffe\uffff\ufdd0",
    "beyond": "\U0001f40e\U0010ffff\u2028",
    "quotes": '"\\"\\\\u0041',
    "a key, 50 %\n\0": "",
    "much": "x" * 500_000,
}
TIMES: Final = 50
CROWD: Final = [f"crowd-{number}" for number in range(200)]
SLOW: Final = 100
HALVES: Final = (
    b"",
    b"G",
    b"GET /connectors HTTP/1.1\r\nHost: a\r\nX: ",
    b"PUT /connectors/slow/config HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
    b"PUT /connectors/slow/config HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n{",
)


def heartbeat(**more: str) -> dict[str, str]:
    return {
        "connector.class": "MirrorHeartbeatConnector",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "heartbeats.topic.replication.factor": "1",
        **more,
    }


def basic(credentials: str) -> str:
    return "Basic " + base64.b64encode(credentials.encode()).decode()


def servers(cluster: LocalCluster) -> dict[str, str]:
    return {f"{side}.cluster.bootstrap.servers": cluster.bootstrap_servers for side in ("source", "target")}


def raw(worker: Product, head: bytes) -> bytes:
    """The answer to bytes as they are; what there is of it, if the connection is cut."""
    answer = b""
    with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", worker.port), 120) as connection:
        connection.sendall(head)
        while part := connection.recv(65536):
            answer += part
    return answer


def get(worker: Product, path: str, authorization: str | None = None) -> bytes:
    login = f"Authorization: {authorization}\r\n" if authorization else ""
    return raw(worker, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{login}Connection: close\r\n\r\n".encode())


def config_records(cluster: LocalCluster, group: str = GROUP) -> list[tuple[str, Any]]:
    """Every record of the config topic, by now; a value that is no JSON in UTF-8 is a failure."""
    found = messages(cluster, f"{group}-configs", 0)
    return [
        ((each.key() or b"").decode(), None if each.value() is None else json.loads(each.value() or b""))
        for each in found
    ]


def asked(cluster: LocalCluster) -> list[tuple[str, Any]]:
    """Those of them that are somebody's wish: the tasks' follow from it whenever they do."""
    wishes = ("connector-", "target-state-", "restart-", "logger-")
    return [record for record in config_records(cluster) if record[0].startswith(wishes)]


def at_once(requests: Sequence[Callable[[], httpx.Response]]) -> list[httpx.Response]:
    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(lambda request: request(), requests))
