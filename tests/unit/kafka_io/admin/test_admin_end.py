"""An admin client goes without keeping anybody waiting: librdkafka's end may take ten seconds."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from mirror_connect.kafka_io.admin import admin
from mirror_connect.kafka_io.admin.admin import ClusterAdmin


class FakeClient:
    """Stands for librdkafka's."""

    def __init__(self, config: dict[str, Any], **_: object) -> None:
        self.config = config


@pytest.fixture(autouse=True)
def _fake_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "AdminClient", FakeClient)


@pytest.fixture
def handed_over(monkeypatch: pytest.MonkeyPatch) -> list[list[object]]:
    """What threads were to let go, each a list with a client that nobody else has."""
    gc.collect()  # what earlier tests of this process have left
    found: list[list[object]] = []
    threads = SimpleNamespace(start_new_thread=lambda clear, _arguments: found.append(clear.__self__))
    monkeypatch.setattr(admin, "_thread", threads)
    return found


def used() -> ClusterAdmin:
    """An admin client that was used: librdkafka's is made then."""
    made = ClusterAdmin({"bootstrap.servers": "a:1"}, "target cluster")
    assert isinstance(made._client, FakeClient)
    return made


def test_a_thread_lets_the_client_go_as_soon_as_nobody_has_it(handed_over: list[list[object]]) -> None:
    gc.disable()
    try:
        used()
    finally:
        gc.enable()
    assert [[type(client) for client in each] for each in handed_over] == [[FakeClient]]


def test_a_thread_does_so_too_when_the_collector_finds_it(handed_over: list[list[object]]) -> None:
    held: list[Any] = [used()]
    held.append(held)
    del held
    gc.collect()
    assert [[type(client) for client in each] for each in handed_over] == [[FakeClient]]


def test_the_thread_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    ended, gone = [], threading.Event()

    def end(_client: FakeClient) -> None:
        ended.append(threading.get_ident())
        gone.set()

    monkeypatch.setattr(FakeClient, "__del__", end, raising=False)
    used()
    assert gone.wait(60)
    assert ended != [threading.get_ident()]


def test_a_program_that_ends_with_a_client_does_end() -> None:
    program = """
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
held = [ClusterAdmin({"bootstrap.servers": "127.0.0.1:1"}, "target cluster")]
held[0]._client
held.append(held)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_an_error_that_the_client_reports_is_noted() -> None:
    cluster = ClusterAdmin({"bootstrap.servers": "a:1"}, "target cluster")
    error = admin.KafkaError(admin.KafkaError._RESOLVE, "no such name")
    cluster._client.config["error_cb"](error)
    assert cluster._errors._cause is error
