"""The client of the internal HTTP off loopback, against real TLS servers: which certificate gets a token."""

from __future__ import annotations

import hashlib
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from deploy.local.tls_material import TlsMaterial, create_tls_material
from mirror_connect.spark_jobs.internal_http import InternalHttp, WorkerUnreachableError, was_reached, why_unreachable


@dataclass
class Server:
    """One that keeps what it was sent."""

    url: str
    fingerprint: str
    received: list[str] = field(default_factory=list)


class _Refused(HTTPServer):
    def handle_error(self, *_: object) -> None:
        """A handshake that the client breaks off is expected here."""


def _serve(material: TlsMaterial, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.received.append(str(self.headers["Authorization"]))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    context.maximum_version = newest
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.load_cert_chain(material.server.certificate_pem, material.server.key_pem)
    serving = _Refused(("127.0.0.1", 0), Handler)
    serving.socket = context.wrap_socket(serving.socket, server_side=True)
    certificate = x509.load_pem_x509_certificate(material.server.certificate_pem.read_bytes())
    fingerprint = hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest()
    server = Server(f"https://127.0.0.1:{serving.server_port}", fingerprint)
    thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        serving.shutdown()
        thread.join()
        serving.server_close()


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> TlsMaterial:
    return create_tls_material(tmp_path_factory.mktemp("worker"))


@pytest.fixture
def worker(material: TlsMaterial) -> Iterator[Server]:
    yield from _serve(material)


@pytest.fixture
def in_the_middle(tmp_path: Path) -> Iterator[Server]:
    yield from _serve(create_tls_material(tmp_path / "other"))


@pytest.fixture
def old(material: TlsMaterial) -> Iterator[Server]:
    yield from _serve(material, ssl.TLSVersion.TLSv1_1)


def test_the_one_certificate_gets_the_token_whatever_its_name_and_authority(worker: Server) -> None:
    http = InternalHttp(worker.url, "the-token", worker.fingerprint)
    assert (was_reached(worker.url), http.call("GET", "/")) == (False, {})
    http.close()
    assert (worker.received, was_reached(worker.url)) == (["Bearer the-token"], True)
    assert why_unreachable(worker.url, worker.fingerprint) is None


def test_another_certificate_gets_nothing(worker: Server, in_the_middle: Server) -> None:
    http = InternalHttp(in_the_middle.url, "the-token", worker.fingerprint)
    for _ in range(2):
        with pytest.raises(WorkerUnreachableError):
            http.call("GET", "/")
    http.close()
    assert in_the_middle.received == []
    assert why_unreachable(in_the_middle.url, worker.fingerprint) is not None
    assert in_the_middle.received == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_version_of_tls_that_is_not_safe_any_more_gets_nothing(old: Server) -> None:
    http = InternalHttp(old.url, "the-token", old.fingerprint)
    with pytest.raises(WorkerUnreachableError):
        http.call("GET", "/")
    http.close()
    assert old.received == []


def test_a_server_without_tls_gets_nothing() -> None:
    received: list[bytes] = []

    class Plain(BaseHTTPRequestHandler):
        def handle(self) -> None:
            received.append(self.request.recv(65_536))

    serving = _Refused(("127.0.0.1", 0), Plain)
    thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
    thread.start()
    http = InternalHttp(f"http://127.0.0.1:{serving.server_port}", "the-token", "0" * 64)
    with pytest.raises(WorkerUnreachableError):
        http.call("GET", "/")
    http.close()
    serving.shutdown()
    thread.join()
    serving.server_close()
    assert received
    assert not any(b"the-token" in each for each in received)
