"""The REST interface of a worker with links, over a real socket: `/admin/links` and what is below, answered from plain data.

Lists answer in pages, search and sort as the worker does. What is changed in `links` is told from then on.
"""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

NOW_MS = 1_795_000_000_000


def lag(records: int | None, seconds: float | None, behind: int = 0, unknown: int = 0) -> dict[str, Any]:
    return {"records": records, "seconds": seconds, "partitions_behind": behind, "partitions_unknown": unknown}


def topic(name: str, partitions: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "topic": name,
        "remote_topic": f"A.{name}",
        "partitions": partitions,
        "lag": lag(0, 0.0),
        "rate": {"records": 0.0, "bytes": 0.0},
        "latency_ms": None,
        "problem": None,
        **more,
    }


def link(name: str = "A->B", **more: Any) -> dict[str, Any]:
    source, _, target = name.partition("->")
    state = more.get("state", "RUNNING")
    return {
        "name": name,
        "source": source,
        "target": target,
        "state": state,
        "leads": True,
        "leader_url": None,
        "trace": None,
        "connectors": [
            {
                "name": f"{source}-source",
                "class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
                "kind": "source",
                "state": "RUNNING",
                "since_ms": NOW_MS - 7_200_000,
                "worker_id": "w:8083",
                "trace": None,
                "tasks": [
                    {"id": 0, "state": state, "since_ms": NOW_MS - 120_000, "worker_id": "w:8083", "trace": None}
                ],
            }
        ],
        "topics": 2,
        "partitions": 3,
        "lag": lag(0, 0.0),
        "rate": {"records": 1234.0, "bytes": 1_500_000.0},
        "latency_ms": {"p50": 1.0, "p99": 9.0, "max": 20.0},
        "filtered": 1234,
        "skipped": 56,
        "groups": 1,
        "since_ms": NOW_MS - 3_600_000,
        "problems": [],
        "more_problems": 0,
        "last_report_ms": NOW_MS - 500,
        "unknown_workers": [],
        **more,
    }


@dataclass
class LinksWorker:
    """`topics`, `groups`, `partitions`: by link, the last one by link and topic. `asked`: paths with their queries."""

    links: list[dict[str, Any]] = field(default_factory=list)
    topics: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    groups: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    partitions: dict[tuple[str, str], list[dict[str, Any]]] = field(default_factory=dict)
    # As of GET /admin/workers; None: there is none.
    workers: dict[str, Any] | None = None
    # Name → how many tasks it has.
    connectors: dict[str, int] = field(default_factory=dict)
    url: str = ""
    asked: Counter[str] = field(default_factory=Counter)
    # What is answered instead: status, content, content type.
    instead: tuple[int, bytes, str] | None = None
    location: str = ""
    # The Authorization header that is asked for.
    login: str | None = None
    before_answer: Callable[[], None] = lambda: None

    def answer(self, address: str) -> tuple[int, Any]:
        """Status and body."""
        path, _, query = address.partition("?")
        if path == "/connectors" and query:
            tasks = {name: [{"id": task} for task in range(count)] for name, count in self.connectors.items()}
            return 200, {name: {"status": {"name": name, "tasks": found}} for name, found in tasks.items()}
        others = {"/connectors": list(self.connectors), "/admin/loggers": {"root": {"level": "INFO"}}}
        return (200, others[path]) if path in others else self._of_links(address)

    def _of_links(self, address: str) -> tuple[int, Any]:
        parsed = urlsplit(address)
        query = {name: values[-1] for name, values in parse_qs(parsed.query).items()}
        match [unquote(each) for each in parsed.path.strip("/").split("/")]:
            case ["admin", "workers"] if self.workers is not None:
                return 200, self.workers
            case ["admin", "links"]:
                worker = {"id": "w:8083", "version": "4.3.1", "kafka_cluster_id": "c", "time_ms": NOW_MS}
                return 200, {"worker": {**worker, "read_only": False}, "links": self.links}
            case ["admin", "links", name, "topics"] if name in self.topics:
                return 200, _page(self.topics[name], "topics", "topic", query)
            case ["admin", "links", name, "groups"] if name in self.groups:
                return 200, _page(self.groups[name], "groups", "group", query)
            case ["admin", "links", name, "topics", which] if (name, which) in self.partitions:
                found = self.partitions[name, which]
                return 200, {"topic": which, "remote_topic": f"A.{which}", "partitions": found}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}


def _page(rows: list[dict[str, Any]], members: str, name: str, query: dict[str, str]) -> dict[str, Any]:
    found = [each for each in rows if query.get("search", "") in each[name]]
    if query.get("sort") == "seconds":
        found.sort(key=lambda each: -(each["lag"]["seconds"] if each["lag"]["seconds"] is not None else 1e18))
    else:
        found.sort(key=lambda each: each[name])
    first = int(query.get("offset", 0))
    return {"total": len(found), members: found[first : first + int(query.get("limit", 100))]}


@contextlib.contextmanager
def answering(worker: LinksWorker, tls: ssl.SSLContext | None = None) -> Iterator[LinksWorker]:
    """Serves it; `worker.url` is where."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            worker.asked[self.path] += 1
            worker.before_answer()
            if worker.login is not None and self.headers.get("Authorization") != worker.login:
                status, content, kind = 401, b"User cannot access the resource.", "application/json"
            elif worker.instead is None:
                status, body = worker.answer(self.path)
                content, kind = json.dumps(body).encode(), "application/json"
            else:
                status, content, kind = worker.instead
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            if worker.location:
                self.send_header("Location", worker.location)
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(content)

        do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 — the server calls them so

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            """Whoever asked has gone."""

    with Server(("127.0.0.1", 0), Handler) as server:
        worker.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield worker
        finally:
            server.shutdown()
            thread.join()
