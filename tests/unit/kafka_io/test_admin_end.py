"""An admin client goes without keeping anybody waiting: librdkafka's end may take ten seconds."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from typing import Any

import pytest

from mirror_connect.kafka_io import admin
from mirror_connect.kafka_io.admin import ClusterAdmin


class FakeClient:
    """Remembers the thread in which its last reference went."""

    ended: list[int]
    gone: threading.Event

    def __init__(self, config: dict[str, Any], **_: object) -> None:
        self.config = config

    def __del__(self) -> None:
        self.ended.append(threading.get_ident())
        self.gone.set()


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> type[FakeClient]:
    monkeypatch.setattr(FakeClient, "ended", [], raising=False)
    monkeypatch.setattr(FakeClient, "gone", threading.Event(), raising=False)
    monkeypatch.setattr(admin, "AdminClient", FakeClient)
    return FakeClient


def test_the_client_ends_in_a_thread_of_its_own_as_soon_as_nobody_has_it(client: type[FakeClient]) -> None:
    gc.disable()
    try:
        ClusterAdmin({"bootstrap.servers": "a:1"}, "target cluster")
        assert client.gone.wait(60)
    finally:
        gc.enable()
    assert len(client.ended) == 1
    assert client.ended != [threading.get_ident()]


def test_the_client_ends_there_too_when_the_collector_finds_it(client: type[FakeClient]) -> None:
    held: list[Any] = [ClusterAdmin({"bootstrap.servers": "a:1"}, "target cluster")]
    held.append(held)
    del held
    gc.collect()
    assert client.gone.wait(60)
    assert len(client.ended) == 1
    assert client.ended != [threading.get_ident()]


def test_trouble_that_the_client_tells_of_is_heard(client: type[FakeClient]) -> None:
    cluster = ClusterAdmin({"bootstrap.servers": "a:1"}, "target cluster")
    trouble = admin.KafkaError(admin.KafkaError._RESOLVE, "no such name")
    cluster._client.config["error_cb"](trouble)  # type: ignore[attr-defined]
    assert cluster._trouble is trouble


def test_a_program_that_ends_with_a_client_does_end() -> None:
    program = """
from mirror_connect.kafka_io.admin import ClusterAdmin
held = [ClusterAdmin({"bootstrap.servers": "127.0.0.1:1"}, "target cluster")]
held.append(held)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
