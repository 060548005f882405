"""Answers as Kubernetes' API server does, over HTTPS, and the files of a pod's service account that lead to it.

The bodies have the shape that an API server 1.30 gives: a Secret, a ConfigMap, and `Status` objects for 401, 403 and 404.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Self

from tests.fakes.certificates import party

TOKEN: Final = "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.first"
ACCOUNT: Final = "system:serviceaccount:kafka:mirror-connect"

Answer = tuple[int, bytes]


class KubernetesApi:
    """Serves Secrets and ConfigMaps of `objects`, by `namespace/plural/name`, from `with` to its end.

    `token`: the accepted one; `forbidden`: names that the account may not read; `instead`: an answer for all requests, or
    a function that writes one to the connection; `asked`: the paths so far. `account`: the service account's directory.
    """

    def __init__(self, directory: Path) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.token = TOKEN
        self.forbidden: set[str] = set()
        self.instead: list[Answer | Callable[[BaseHTTPRequestHandler], None]] = []
        self.asked: list[str] = []
        self.ended = threading.Event()
        authority = party("kubernetes-ca", None, ca=True)
        server = party("kubernetes", authority, ca=False)
        self.account = directory / "serviceaccount"
        self.account.mkdir()
        (self.account / "ca.crt").write_text(authority.pem)
        (self.account / "token").write_text(TOKEN)
        (self.account / "namespace").write_text("kafka")
        pair = directory / "api.pem"
        pair.write_text(server.pem + server.key_pem())
        api = self

        class Requests(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 20

            def do_GET(self) -> None:
                api.asked.append(self.path)
                answer = api.instead.pop(0) if api.instead else api._answer(self.path, self.headers["Authorization"])
                if callable(answer):
                    self.close_connection = True
                    answer(self)
                    return
                status, content = answer
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """A client that goes away, or does not trust the certificate, is what some tests are about."""

        self._server = Quiet(("127.0.0.1", 0), Requests)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(pair)
        # The handshake takes place in the request's thread: a client that leaves in it ends only that.
        self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.port = self._server.server_port
        self.environment = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.port)}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def add_secret(self, place: str, values: Mapping[str, str | bytes]) -> None:
        """`place`: namespace/name."""
        texts = {key: value.encode() if isinstance(value, str) else value for key, value in values.items()}
        data = {key: base64.b64encode(value).decode() for key, value in texts.items()}
        self._add(place, "secrets", {"kind": "Secret", "data": data, "type": "Opaque"})

    def add_config_map(self, place: str, values: Mapping[str, str]) -> None:
        """`place`: namespace/name."""
        self._add(place, "configmaps", {"kind": "ConfigMap", "data": dict(values)})

    def _add(self, place: str, plural: str, body: dict[str, Any]) -> None:
        namespace, name = place.split("/")
        metadata = {
            "name": name,
            "namespace": namespace,
            "uid": "5c9f3b3e-1c1f-4a8e-9e57-3f1f0f5f0a11",
            "resourceVersion": "48213",
            "creationTimestamp": "2026-01-12T09:30:11Z",
        }
        self.objects[f"{namespace}/{plural}/{name}"] = {"apiVersion": "v1", "metadata": metadata, **body}

    def _answer(self, path: str, authorization: str | None) -> Answer:
        if authorization != f"Bearer {self.token}":
            return 401, _status(401, "Unauthorized", "Unauthorized")
        _, _, _, _, namespace, plural, name = path.split("/")
        if name in self.forbidden:
            text = f'{plural} "{name}" is forbidden: User "{ACCOUNT}" cannot get resource "{plural}" in API group ""'
            return 403, _status(403, "Forbidden", f'{text} in the namespace "{namespace}"')
        found = self.objects.get(f"{namespace}/{plural}/{name}")
        if found is None:
            return 404, _status(404, "NotFound", f'{plural} "{name}" not found')
        return 200, json.dumps(found).encode()


def _status(code: int, reason: str, message: str) -> bytes:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return json.dumps(status | {"message": message, "reason": reason, "code": code}).encode()


def endless(api: KubernetesApi, rate: int) -> Callable[[BaseHTTPRequestHandler], None]:
    """An answer without an end: pieces of `rate` bytes, 20 a second or, with 64 KiB and more, as fast as they are read."""

    def write(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(
            b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{"kind": "Secret", "data": {"a": "'
        )
        while not api.ended.is_set():
            request.wfile.write(b"A" * rate)
            if rate < 1 << 16:
                time.sleep(0.05)

    return write
