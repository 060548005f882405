"""The config topic as the herder uses it: writes, listeners, the session key."""

from __future__ import annotations

import pytest

from mirror_connect.app.storage import config_records as records
from mirror_connect.app.storage import config_view as view
from mirror_connect.app.storage.config_records import RestartRequest
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.connectors.errors import ClusterUnreachable
from tests.fakes.topic_log import FakeTopic, FakeTopicLog

CONFIG = {"connector.class": "X", "name": "a"}


async def started_store(topic: FakeTopic) -> ConfigStore:
    store = ConfigStore(FakeTopicLog(topic), clock=lambda: 1_700_000_000.5)
    await store.start()
    return store


async def test_own_write_is_seen_as_soon_as_it_returns() -> None:
    store = await started_store(FakeTopic())
    await store.put_connector("a", {"z": "1", "b": "2"}, target_state="STOPPED")
    assert list(store.snapshot().connectors["a"].items()) == [("z", "1"), ("b", "2"), ("name", "a")]
    assert store.snapshot().target_state("a") == "STOPPED"


async def test_initial_target_state_is_written_in_front_of_the_config() -> None:
    topic = FakeTopic()
    await (await started_store(topic)).put_connector("a", CONFIG, target_state="PAUSED")
    assert [record.key for record in topic.records] == [b"target-state-a", b"connector-a"]


async def test_task_configs_are_written_before_their_commit() -> None:
    topic = FakeTopic()
    store = await started_store(topic)
    await store.put_connector("a", CONFIG)
    await store.put_task_configs("a", [CONFIG, CONFIG])
    assert [record.key for record in topic.records][1:] == [b"task-a-0", b"task-a-1", b"commit-a"]
    assert store.snapshot().task_count("a") == 2


async def test_listeners_hear_changes_but_not_what_was_there_at_the_start() -> None:
    topic = FakeTopic()
    topic.add(*records.connector_entry("old", CONFIG))
    heard: list[view.Change] = []
    store = ConfigStore(FakeTopicLog(topic))
    store.add_listener(heard.append)
    await store.start()
    await store.put_connector("a", CONFIG)
    await store.put_task_configs("a", [])
    await store.put_target_state("a", "STARTED")
    await store.put_target_state("a", "PAUSED")
    await store.put_restart_request(RestartRequest("a", True, False))
    await store.delete_connector("a")
    assert heard == [
        view.ConnectorUpdated("a"),
        view.TasksUpdated("a"),
        view.TargetStateChanged("a", "PAUSED"),
        RestartRequest("a", True, False),
        view.ConnectorRemoved("a"),
    ]


async def test_failing_listener_does_not_keep_the_change_from_others() -> None:
    heard: list[view.Change] = []
    store = await started_store(FakeTopic())
    store.add_listener(lambda _: 1 / 0)  # type: ignore[arg-type, return-value]
    store.add_listener(heard.append)
    await store.put_connector("a", CONFIG)
    assert heard == [view.ConnectorUpdated("a")]


async def test_session_key_is_written_when_there_is_none() -> None:
    store = await started_store(FakeTopic())
    assert await store.put_session_key()
    key = store.snapshot().session_key
    assert key is not None
    assert (len(key.key), key.algorithm, key.created) == (32, "HmacSHA256", 1_700_000_000_500)
    assert not await store.put_session_key()


async def test_expired_session_key_is_replaced() -> None:
    topic = FakeTopic()
    topic.add(*records.session_key_entry(records.SessionKey(b"k" * 32, "HmacSHA256", 1_699_996_400_500)))
    assert await (await started_store(topic)).put_session_key()


async def test_write_that_fails_tells_its_caller() -> None:
    topic = FakeTopic()
    store = await started_store(topic)
    topic.failure = ClusterUnreachable("no broker answers")
    with pytest.raises(ClusterUnreachable):
        await store.put_connector("a", CONFIG)


async def test_a_record_that_is_skipped_is_logged_with_its_place(caplog: pytest.LogCaptureFixture) -> None:
    topic = FakeTopic()
    topic.add(*records.connector_entry("a", CONFIG))
    for key in (b"commit-a", b"restart-connector-a", b"logger-cluster-x"):
        topic.add(key, b"junk")
    topic.add(b"logger-cluster-x", None)
    await started_store(topic)
    whats = ("commit of a", "restart request of a", "logger level of x")
    assert caplog.messages == [
        f"Topic connect-topic: the record at partition 0, offset {offset} is skipped: the {what} is unreadable"
        for offset, what in enumerate(whats, 1)
    ]
