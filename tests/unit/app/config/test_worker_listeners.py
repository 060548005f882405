"""A whole worker's listeners: http and https at once, /admin on its own, slow clients at its end. Its cluster is away."""

from __future__ import annotations

import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from mirror_connect.connectors.config.bounded_file import UNREADABLE
from tests.fakes.certificates import Party, party
from tests.waiting import wait_for_state

PATIENCE_S = 60
PROPERTIES = """
bootstrap.servers=127.0.0.1:1
group.id=listeners
config.storage.topic=configs
offset.storage.topic=offsets
status.storage.topic=statuses
key.converter=org.apache.kafka.connect.converters.ByteArrayConverter
value.converter=org.apache.kafka.connect.converters.ByteArrayConverter
"""


@dataclass
class Started:
    process: subprocess.Popen[str]
    log: Path

    def urls(self, what: str) -> list[str]:
        """The addresses that a line of the log names."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until and self.process.poll() is None:
            if found := re.search(rf"{what} at ([^\s,]+(?:, [^\s,]+)*)[^\n]*\n", self.log.read_text()):
                return found[1].split(", ")
            time.sleep(0.02)
        raise AssertionError(self.log.read_text())


def start(folder: Path, more: str) -> Started:
    file, log = folder / "worker.properties", folder / "log"
    file.write_text(PROPERTIES + more)
    with log.open("w") as written:
        process = subprocess.Popen([sys.executable, "-m", "mirror_connect.app", str(file)], stderr=written, text=True)
    return Started(process, log)


@pytest.fixture(scope="module")
def server() -> Party:
    return party("localhost", None, ca=True)


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory, server: Party) -> Iterator[Started]:
    folder = tmp_path_factory.mktemp("worker")
    (folder / "server.pem").write_text(server.key_pem() + server.pem)
    started = start(
        folder,
        "listeners=https://127.0.0.1:0,http://127.0.0.1:0,http://localhost:0\n"
        "admin.listeners=https://127.0.0.1:0\n"
        "response.http.headers.config=set X-Demo: one\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={folder / 'server.pem'}\n",
    )
    try:
        yield started
    finally:
        started.process.kill()
        started.process.wait(PATIENCE_S)


@pytest.fixture
def client(server: Party) -> Iterator[httpx.Client]:
    with httpx.Client(verify=ssl.create_default_context(cadata=server.pem), timeout=PATIENCE_S) as trusting:
        yield trusting


def test_each_listener_answers_in_its_protocol(worker: Started, client: httpx.Client) -> None:
    urls = worker.urls("REST listens")
    found = [(url.partition(":")[0], client.get(f"{url}/health").json()["status"]) for url in urls]
    assert found == [("https", "starting"), ("http", "starting"), ("http", "starting")]


def test_admin_listeners_have_loggers_and_no_configured_headers(worker: Started, client: httpx.Client) -> None:
    (url,) = worker.urls("REST has /admin")
    answer = client.get(f"{url}/admin/loggers/root")
    assert (answer.status_code, answer.json()["level"], "x-demo" in answer.headers) == (200, "INFO", False)


def test_the_main_listeners_have_no_loggers_then_but_configured_headers(worker: Started, client: httpx.Client) -> None:
    answer = client.get(f"{worker.urls('REST listens')[0]}/admin/loggers/root")
    assert (answer.status_code, answer.headers["x-demo"]) == (404, "one")


def test_a_worker_ends_as_asked_although_clients_dawdle_on_every_listener(
    tmp_path: Path, server: Party, client: httpx.Client
) -> None:
    """Its last resort, which ends it whatever hangs, would be exit code 1."""
    (tmp_path / "server.pem").write_text(server.key_pem() + server.pem)
    started = start(
        tmp_path,
        "listeners=https://127.0.0.1:0,http://127.0.0.1:0\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={tmp_path / 'server.pem'}\n",
    )
    slow = []
    try:
        for url in started.urls("REST listens"):
            for said in (
                b"",
                b"\x16\x03\x01",
                b"PUT /connectors/a/config HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{",
            ):
                slow.append(socket.create_connection(("127.0.0.1", httpx.URL(url).port or 0)))
                slow[-1].sendall(said)
            client.get(f"{url}/health")
        started.process.send_signal(signal.SIGTERM)
        assert started.process.wait(PATIENCE_S) == os.EX_OK, started.log.read_text()
    finally:
        started.process.kill()
        for each in slow:
            each.close()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        pytest.param(
            "listeners=https://127.0.0.1:0\n",
            "Invalid listeners.https.ssl.keystore.location: an https listener needs a key store with its private key and "
            "certificate",
            id="no_key_store",
        ),
        pytest.param(
            "listeners=http://127.0.0.1:0\nadmin.listeners=https://127.0.0.1:0\nadmin.listeners.https.ssl.keystore.location=/none",
            "Invalid value /none for configuration admin.listeners.https.ssl.keystore.location: " + UNREADABLE,
            id="no_file",
        ),
        pytest.param(
            "listeners=http://127.0.0.1:0\nresponse.http.headers.config=X-Demo: one\n",
            "Invalid value X-Demo: one for configuration response.http.headers.config: Invalid header config action: "
            "'X-Demo:'. Expected one of [set, add, setDate, addDate]",
            id="a_header_rule",
        ),
        pytest.param(
            "listeners=http://127.0.0.1:0\naccess.control.allow.origin=https://(ui\n",
            "Invalid value https://(ui for configuration access.control.allow.origin: the origin https://(ui is no regular",
            id="an_origin",
        ),
        pytest.param(
            "listeners=ftp://127.0.0.1:0\n",
            "Invalid value ftp://127.0.0.1:0 for configuration listeners: Listener protocol must be either",
            id="a_protocol",
        ),
    ],
)
def test_wrong_settings_of_listeners_are_wrong_settings(tmp_path: Path, more: str, said: str) -> None:
    started = start(tmp_path, more)
    assert started.process.wait(PATIENCE_S) == 2
    assert said in started.log.read_text().splitlines()[-1]


def test_a_listener_that_asks_nobody_who_they_are_is_told(tmp_path: Path) -> None:
    started = start(tmp_path, "listeners=http://127.0.0.1:0,http://0.0.0.0:0,http://localhost:0\n")
    try:
        line = wait_for_state(
            lambda: re.search(r"Anyone who can reach .*\n", started.log.read_text()), "it is told", PATIENCE_S
        )
        assert "Anyone who can reach http://0.0.0.0:0 may do anything here" in line[0]
    finally:
        started.process.kill()
        started.process.wait(PATIENCE_S)
