"""A worker is asked with a login and a limit of time; what goes wrong is one line."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from deploy.local.tls_material import create_tls_material
from mirror_connect.check import running_worker
from mirror_connect.check.document import UnknownDocument
from mirror_connect.check.judge import check_worker
from mirror_connect.check.running_worker import ask

ROOT_ANSWER = {"version": "4.3.1", "commit": "x", "kafka_cluster_id": "abc"}
CONFIG = {"connector.class": "MirrorSource", "tasks.max": "1", "source.cluster.alias": "A"}
Answer = Callable[[BaseHTTPRequestHandler], tuple[int, Any]]


@contextmanager
def _server(answer: Answer, context: ssl.SSLContext | None = None) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answer(self)
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with _served(Handler, context) as url:
        yield url


@contextmanager
def _served(handler: type[BaseHTTPRequestHandler], context: ssl.SSLContext | None = None) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    # A client that has given up is no error.
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http{'s' if context else ''}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _worker(expands: bool) -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> tuple[int, Any]:
        if request.path == "/":
            return 200, ROOT_ANSWER
        if request.path.startswith("/connectors?") and expands:
            return 200, {"a/b": {"info": {"name": "a/b", "config": CONFIG, "tasks": []}}}
        return (200, ["a/b"]) if request.path.startswith("/connectors?") else (200, CONFIG)

    return answer


@pytest.mark.parametrize("expands", [True, False])
def test_connectors_of_a_worker_of_any_release(expands: bool) -> None:
    with _server(_worker(expands)) as url:
        worker = ask(f"{url}/")
    assert (worker.url, worker.about) == (url, "Connect 4.3.1 on the cluster abc")
    assert [(each.name, each.config()) for each in worker.connectors] == [("a/b", CONFIG)]


def test_a_login_by_option_or_url_and_the_line_without_one() -> None:
    def answer(request: BaseHTTPRequestHandler) -> tuple[int, Any]:
        wanted = "Basic " + base64.b64encode(b"ann:hush-hush").decode()
        return _worker(True)(request) if request.headers.get("Authorization") == wanted else (401, {"message": "no"})

    with _server(answer) as url:
        assert ask(url, ("ann", "hush-hush")).connectors
        by_url = ask(url.replace("//", "//ann:hush-hush@"))
        assert by_url.url == url
        report = check_worker(url.replace("//", "//ann:hush-hush@"))
        assert report.links[0].command().startswith(f"mirror-connect verify a/b --worker {url} --user ann")
        with pytest.raises(UnknownDocument) as caught:
            ask(url)
    assert str(caught.value) == f"{url}: it answered 401: give --user, and the password in MIRROR_CONNECT_PASSWORD"


def test_a_certificate_that_is_not_trusted_and_one_that_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = create_tls_material(tmp_path / "tls")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.server.pem)
    with _server(_worker(True), context) as url:
        with pytest.raises(
            UnknownDocument, match="its certificate is not trusted: name the authority's in SSL_CERT_FILE"
        ):
            ask(url)
        monkeypatch.setenv("SSL_CERT_FILE", str(made.authority_pem))
        assert ask(url).connectors
        with pytest.raises(UnknownDocument, match="it can't be reached"):
            ask(url.replace("https", "http"))


@pytest.mark.parametrize(
    ("status", "body", "line"),
    [
        (200, b"<html>", "it is no Connect worker: its answer is not JSON"),
        (200, {"a": 1}, "it is no Connect worker: GET / has no kafka_cluster_id"),
        (404, {}, "it is no Connect worker: GET / has no kafka_cluster_id"),
        (404, b"<html>Not Found</html>", "it is no Connect worker: GET / has no kafka_cluster_id"),
        (500, {}, "it answered 500 to GET /"),
        (200, b"[" * 100_000, "it is no Connect worker: its answer is not JSON"),
    ],
)
def test_whatever_is_no_worker_is_told(status: int, body: Any, line: str) -> None:
    with _server(lambda _: (status, body)) as url, pytest.raises(UnknownDocument) as caught:
        ask(url)
    assert str(caught.value) == f"{url}: {line}"


@pytest.mark.parametrize(
    ("listed", "line"),
    [
        ((404, b"<html>"), "GET /connectors lists no connectors"),
        ((200, {"error_code": 1, "message": "no"}), "GET /connectors has no configs"),
        ((200, {"a": {"info": {"config": []}}}), "GET /connectors has no configs"),
        ((200, "connectors"), "GET /connectors lists no connectors"),
    ],
)
def test_whatever_lists_no_connectors_is_told(listed: tuple[int, Any], line: str) -> None:
    def answer(request: BaseHTTPRequestHandler) -> tuple[int, Any]:
        return (200, ROOT_ANSWER) if request.path == "/" else listed

    with _server(answer) as url, pytest.raises(UnknownDocument) as caught:
        ask(url)
    assert str(caught.value) == f"{url}: it is no Connect worker: {line}"


def test_an_answer_byte_by_byte_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_worker, "TIMEOUT_S", 0.3)

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, Any]:
        request.send_response(200)
        request.send_header("Content-Length", "400")
        request.end_headers()
        for _ in range(400):
            request.wfile.write(b" ")
            time.sleep(0.02)
        return 200, {}

    with _server(answer) as url, pytest.raises(UnknownDocument, match=r"it did not answer within 0\.3 s"):
        ask(url)


def test_a_name_server_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_worker, "TIMEOUT_S", 0.3)
    answer, answered = threading.Event(), []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answered.append(answer.wait(30)))
    with pytest.raises(UnknownDocument, match=r"it did not answer within 0\.3 s"):
        ask("http://connect.example:8083")
    assert answered == []
    answer.set()


def test_a_worker_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_worker, "TIMEOUT_S", 0.2)
    release = threading.Event()

    def answer(_: BaseHTTPRequestHandler) -> tuple[int, Any]:
        release.wait(30)
        return 200, {}

    with _server(answer) as url:
        with pytest.raises(UnknownDocument, match=r"it did not answer within 0\.2 s"):
            ask(url)
        release.set()


@pytest.mark.parametrize("packed", [False, True])
def test_an_answer_without_an_end_is_given_up(packed: bool) -> None:
    piece = b" " * (1 << 20)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            if packed:
                self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            packer = zlib.compressobj(wbits=31)
            with contextlib.suppress(OSError):
                while True:
                    self.wfile.write(packer.compress(piece) if packed else piece)

        def log_message(self, *_: object) -> None:
            pass

    with _served(Handler) as url, pytest.raises(UnknownDocument, match=r"it answered with more than 64 MiB"):
        ask(url)
