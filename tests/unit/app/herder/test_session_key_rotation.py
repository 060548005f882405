"""The leader replaces the session key when it is too old; what the former one has signed still counts for a minute."""

from __future__ import annotations

import pytest

from mirror_connect.app.config.inter_worker import InterWorker
from mirror_connect.app.errors import Forbidden
from mirror_connect.app.herder import session_key_rotation
from mirror_connect.app.herder.request_signatures import body_signature
from mirror_connect.app.herder.worker_client import WorkersLink
from mirror_connect.app.herder.worker_requests import WorkerRequests
from mirror_connect.app.storage.config_records import SessionKey, session_key_entry
from tests.fakes.connect_worker import FakeMembership, FakeWorker, eventually


async def test_only_the_leader_replaces_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_key_rotation, "LOOK_EVERY_S", 0.01)
    link = WorkersLink("http://me:1", InterWorker(ttl_ms=100))
    leader = FakeWorker(link=link)
    follower = FakeWorker(
        leader.config_topic, leader.status_topic, membership=FakeMembership(is_leader=False), link=link
    )

    def keys() -> list[bytes | None]:
        return [value for key, value in leader.config_topic.entries() if key == b"session-key"]

    async with follower.running():
        async with leader.running():
            await eventually(lambda: len(keys()) >= 3)
        written = len(keys())
        await eventually(lambda: follower.configs.lacks_session_key)
        assert len(keys()) == written
    assert len(set(keys())) == written


async def test_a_former_key_counts_for_a_minute() -> None:
    worker = FakeWorker()
    now = 1_700_000_000.0
    async with worker.running():
        await eventually(lambda: worker.configs.snapshot().session_key is not None)
        requests = WorkerRequests(
            worker.configs,
            worker.herder.leadership,
            worker.link,
            membership=worker.membership,
            task_configs=worker.herder.task_configs,
            clock=lambda: now,
        )
        former = worker.configs.snapshot().session_key
        assert former is not None
        signature = body_signature(b"[]", former, "HmacSHA256")
        requests.check_connects(b"[]", "HmacSHA256", signature)
        worker.config_topic.add(*session_key_entry(SessionKey(b"n" * 32, "HmacSHA256", 1)))
        await eventually(lambda: worker.configs.snapshot().session_key != former)
        now += 59
        requests.check_connects(b"[]", "HmacSHA256", signature)
        now += 2
        with pytest.raises(Forbidden):
            requests.check_connects(b"[]", "HmacSHA256", signature)
