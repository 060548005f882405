"""The client of REST: every failure is one line with the URL, the status, Connect's message and what to do."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from mirror_connect.cli.rest import worker_client
from mirror_connect.cli.rest.failures import (
    CommandFailed,
    RequestRefused,
    UnknownName,
    WorkerUnreachable,
    WrongUsage,
)
from mirror_connect.cli.rest.worker_client import WorkerClient, connector_path, tls_context
from tests.fakes.certificates import party
from tests.fakes.links_worker import LinksWorker, answering
from tests.unit.cli.rest.conftest import Mirror

JSON, HTML = "application/json", "text/html"


@pytest.mark.parametrize(
    ("answer", "failure", "line"),
    [
        pytest.param(
            (404, b'{"error_code":404,"message":"No status"}', JSON),
            UnknownName,
            "was answered with 404: No status; mirror-connect status lists the connectors",
            id="unknown",
        ),
        pytest.param(
            (404, b"<html>", HTML),
            WorkerUnreachable,
            "was answered with 404: this is no Connect worker, or it is starting",
            id="a_page",
        ),
        pytest.param(
            (401, b"User cannot access the resource.", JSON),
            WrongUsage,
            "was answered with 401: User cannot access the resource.; give --user, and the password in "
            "MIRROR_CONNECT_PASSWORD",
            id="login",
        ),
        pytest.param(
            (400, b'{"error_code":400,"message":"a b"}', JSON),
            RequestRefused,
            "was answered with 400: a b",
            id="refused",
        ),
        pytest.param((503, b"", JSON), RequestRefused, "was answered with 503; the worker's log says more", id="bare"),
        pytest.param(
            (200, b"<html>", HTML),
            WorkerUnreachable,
            "is no Connect worker: its answer to /connectors is not JSON",
            id="no_json",
        ),
    ],
)
def test_refusals(linked: LinksWorker, answer: tuple[int, bytes, str], failure: type[CommandFailed], line: str) -> None:
    linked.instead = answer
    with WorkerClient(linked.url) as worker, pytest.raises(failure) as refused:
        worker.get("/connectors")
    assert (linked.url in str(refused.value), str(refused.value).endswith(line)) == (True, True), str(refused.value)


@pytest.mark.parametrize(("status", "method", "tries"), [(409, "PUT", 21), (500, "GET", 5), (500, "PUT", 1)])
def test_what_passes_is_tried_again(
    linked: LinksWorker,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    method: str,
    tries: int,
) -> None:
    """Conflicts for ten seconds, a 500 to a read for two: workers that rebalance answer so."""
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(worker_client.time, "monotonic", lambda: now)
    linked.instead = (status, b'{"error_code":1,"message":"rebalance"}', JSON)
    with WorkerClient(linked.url, sleep=sleep) as worker, pytest.raises(RequestRefused):
        worker.send(method, "/connectors")
    assert linked.asked["/connectors"] == tries


def test_a_conflict_that_ends_is_not_seen(linked: LinksWorker) -> None:
    linked.instead = (409, b'{"error_code":409,"message":"rebalance"}', JSON)

    def end(_: float) -> None:
        linked.instead = None

    with WorkerClient(linked.url, sleep=end) as worker:
        assert worker.get("/admin/links")["links"] == []


def test_nobody_listens() -> None:
    with WorkerClient("http://127.0.0.1:9") as worker, pytest.raises(WorkerUnreachable) as failed:
        worker.get("/")
    assert str(failed.value) == (
        "http://127.0.0.1:9 can't be reached: [Errno 111] Connection refused; name the worker with --worker or --context"
    )


@pytest.mark.parametrize("url", ["", "localhost", "ftp://a", "http://", "http://[", "http://a:hunter22@b:c"])
def test_a_wrong_url_is_not_shown(url: str) -> None:
    with pytest.raises(WrongUsage) as failed:
        WorkerClient(url)
    assert "hunter22" not in str(failed.value)


def test_names_are_escaped_in_paths() -> None:
    assert connector_path("a b/c%", "status") == "/connectors/a%20b%2Fc%25/status"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A directory with root.pem, server.pem and client.pem; the two have their keys in them."""
    root = party("root", None, ca=True)
    (tmp_path / "root.pem").write_text(root.pem)
    for name in ("localhost", "client"):
        made = party(name, root, ca=False)
        (tmp_path / f"{name}.pem").write_text(made.key_pem() + made.pem)
        (tmp_path / f"{name}.key").write_text(made.key_pem("hunter22"))
    return tmp_path


def test_https_needs_an_authority_that_is_trusted_and_may_need_a_certificate(keys: Path, mirror: Mirror) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(keys / "localhost.pem")
    server.load_verify_locations(keys / "root.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    cacert, cert = ("--cacert", str(keys / "root.pem")), ("--cert", str(keys / "client.pem"))
    with answering(LinksWorker(), server) as worker:
        untrusted = mirror("links", "--worker", worker.url)
        assert (untrusted.code, untrusted.err.count("\n")) == (2, 1)
        assert "has a certificate that is not trusted: name its authority with --cacert" in untrusted.err
        assert mirror("links", "--worker", worker.url, *cacert).code == 2
        assert mirror("links", "--worker", worker.url, *cacert, *cert).code == 0
        mirror("config", "set-context", "tls", "--worker", worker.url, *cacert, *cert)
        assert mirror("links").code == 0


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (("/nowhere", None, None), "--cacert /nowhere can't be used: No such file or directory"),
        ((None, "/nowhere", None), "--cert /nowhere can't be used: No such file or directory"),
        ((None, "client.pem", "client.key"), "must be PEM, as must its key, without a password"),
        (("client.key", None, None), "can't be used"),
        ((None, None, "client.key"), "--key needs --cert"),
    ],
)
def test_files_that_can_not_be_used_are_named(keys: Path, files: tuple[str | None, ...], said: str) -> None:
    paths = [None if each is None else keys / each for each in files]
    with pytest.raises(WrongUsage) as failed:
        tls_context(*paths)
    assert said in str(failed.value)
