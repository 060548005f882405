"""The config topic against the records of a real Kafka Connect 4.3.1 worker (tests/fixtures/worker-connect-configs)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from mirror_connect.app.storage import config_records as records
from mirror_connect.app.storage import config_view as view
from mirror_connect.app.storage.config_records import Entry, RestartRequest
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.connectors.errors import ClusterUnreachable
from tests.fakes.topic_log import FakeTopic, FakeTopicLog
from tests.paths import FIXTURES

FIXTURE = FIXTURES / "worker-connect-configs.jsonl"
CONFIG = {"connector.class": "X", "name": "a"}


def recorded(before: int = 1_000_000) -> list[Entry]:
    lines = [json.loads(line) for line in FIXTURE.read_text().splitlines()]
    return [
        (bytes.fromhex(line["key_hex"]), bytes.fromhex(line["value_hex"]) if line["value_hex"] is not None else None)
        for line in lines
        if line["offset"] < before
    ]


def viewed(*entries: Entry) -> view.ConfigView:
    built = view.ConfigView()
    for key, value in entries:
        built.apply(key, value)
    return built


def rewritten(key: str, value: bytes) -> Entry:
    """The record as our encoders write it, from what our decoders read."""
    body: dict[str, Any] = json.loads(value)
    task = records.task_key(key)
    encoders: dict[str, Callable[[str], Entry]] = {
        records.TARGET_STATE: lambda name: records.target_state_entry(name, records.target_state(value) or ""),
        records.CONNECTOR: lambda name: records.connector_entry(name, records.properties(value) or {}),
        records.TASK: lambda _: records.task_entry(*(task or ("", 0)), records.properties(value) or {}),
        records.COMMIT: lambda name: records.commit_entry(name, body["tasks"]),
        records.RESTART: lambda name: records.restart_entry(
            records.restart_request(name, value) or RestartRequest("", False, False)
        ),
        records.FENCING: lambda name: records.fencing_entry(name, body["task-count"]),
        records.LOGGER: lambda name: records.logger_entry(name, records.level(value) or ""),
    }
    if key == records.SESSION_KEY:
        session = records.session_key(value)
        assert session is not None
        return records.session_key_entry(session)
    prefix = next(prefix for prefix in encoders if key.startswith(prefix))
    return encoders[prefix](key.removeprefix(prefix))


@pytest.mark.parametrize(
    ("key", "value"),
    [pytest.param(k, v, id=f"{n}-{k.decode()}") for n, (k, v) in enumerate(recorded()) if v is not None],
)
def test_encoders_write_the_bytes_that_kafka_wrote(key: bytes, value: bytes) -> None:
    assert rewritten(key.decode(), value) == (key, value)


def test_recorded_topic_gives_the_state_that_its_worker_had_at_the_end() -> None:
    state = viewed(*recorded()).snapshot()
    assert set(state.connectors) == {"mm2-source", "mm2-checkpoint", "mm2-heartbeat"}
    assert set(state.target_states.values()) == {"STARTED"}
    assert dict(state.task_counts) == {"mm2-source": 3, "mm2-checkpoint": 1, "mm2-heartbeat": 1}
    assert state.inconsistent == frozenset()
    assert dict(state.fencing_counts) == {"mm2-source": 3}
    assert state.pending_fencing == {"mm2-checkpoint", "mm2-heartbeat", "mm2-bad"}
    assert state.session_key is not None
    assert state.session_key.created == 1795227653009


def test_recorded_stop_and_deletion_are_seen_when_they_happened() -> None:
    stopped = viewed(*recorded(before=26)).snapshot()
    assert stopped.target_state("mm2-heartbeat") == "STOPPED"
    assert stopped.tasks("mm2-heartbeat") == []
    deleted = viewed(*recorded(before=31)).snapshot()
    assert deleted.target_state("mm2-heartbeat") is None
    created_stopped = viewed(*recorded(before=33)).snapshot()
    assert created_stopped.target_state("mm2-heartbeat") == "STOPPED"


def test_recorded_task_configs_are_in_force_after_their_commit_only() -> None:
    assert viewed(*recorded(before=10)).snapshot().tasks("mm2-source") == []
    committed = viewed(*recorded(before=11)).snapshot().tasks("mm2-source")
    assert [config["task.index"] for config in committed] == ["0", "1"]


def test_commit_whose_tasks_compaction_took_makes_the_connector_inconsistent() -> None:
    state = viewed(
        records.connector_entry("a", CONFIG), records.task_entry("a", 1, CONFIG), records.commit_entry("a", 2)
    ).snapshot()
    assert state.inconsistent == {"a"}
    assert state.tasks("a") == []


def test_incomplete_set_is_not_completed_by_later_records() -> None:
    state = viewed(
        records.connector_entry("a", CONFIG),
        records.task_entry("a", 1, CONFIG),
        records.commit_entry("a", 2),
        records.task_entry("a", 0, CONFIG),
        records.commit_entry("a", 2),
    ).snapshot()
    assert state.inconsistent == {"a"}


def test_complete_commit_heals_an_inconsistent_connector_and_counts_as_a_generation() -> None:
    built = viewed(
        records.connector_entry("a", CONFIG), records.task_entry("a", 1, CONFIG), records.commit_entry("a", 2)
    )
    assert built.snapshot().generations.get("a") is None
    for entry in [*(records.task_entry("a", task, CONFIG) for task in range(2)), records.commit_entry("a", 2)]:
        built.apply(*entry)
    assert built.snapshot().inconsistent == frozenset()
    assert built.snapshot().generations["a"] == 0


def test_commit_of_no_tasks_needs_no_task_records() -> None:
    state = viewed(records.connector_entry("a", CONFIG), records.commit_entry("a", 0)).snapshot()
    assert (state.inconsistent, state.task_count("a")) == (frozenset(), 0)


def test_task_records_beyond_the_committed_count_do_no_harm() -> None:
    extra = [records.task_entry("a", task, CONFIG) for task in range(3)]
    state = viewed(records.connector_entry("a", CONFIG), *extra, records.commit_entry("a", 2)).snapshot()
    assert len(state.tasks("a")) == 2


def test_tasks_of_a_deleted_connector_do_not_come_alive_with_its_name() -> None:
    state = viewed(
        records.task_entry("a", 0, CONFIG),
        records.commit_entry("a", 1),
        records.connector_entry("a", CONFIG),
        records.commit_entry("a", 1),
    ).snapshot()
    assert state.inconsistent == {"a"}


def test_fencing_count_outlives_the_deletion_of_its_connector() -> None:
    state = viewed(
        records.connector_entry("a", CONFIG), records.fencing_entry("a", 4), *records.deletion_entries("a")
    ).snapshot()
    assert dict(state.fencing_counts) == {"a": 4}


@pytest.mark.parametrize(
    ("value", "state"),
    [
        pytest.param(b'{"state":"PAUSED"}', "PAUSED", id="worker_older_than_3.5"),
        pytest.param(b'{"state":"PAUSED","state.v2":"STOPPED"}', "STOPPED", id="both"),
        pytest.param(b'{"state":"PAUSED","state.v2":null}', "PAUSED", id="v2_null"),
        pytest.param(b'{"state":"DANCING"}', "STARTED", id="unknown_is_dropped"),
        pytest.param(b"junk", "STARTED", id="unreadable_is_dropped"),
    ],
)
def test_target_state_is_read_from_the_newest_member_known(value: bytes, state: str) -> None:
    built = viewed(records.connector_entry("a", CONFIG), (b"target-state-a", value))
    assert built.snapshot().target_state("a") == state


def test_tombstone_of_the_target_state_alone_starts_the_connector_again() -> None:
    built = viewed(
        records.connector_entry("a", CONFIG), records.target_state_entry("a", "PAUSED"), (b"target-state-a", None)
    )
    assert built.snapshot().target_state("a") == "STARTED"


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param((b"task-a-0", None), id="task_tombstone"),
        pytest.param((b"task-a", b'{"properties":{}}'), id="task_without_number"),
        pytest.param((b"connector-a", b'{"properties":[]}'), id="config_that_is_no_map"),
        pytest.param((b"commit-a", b'{"tasks":"1"}'), id="count_that_is_text"),
        pytest.param((b"session-key", b'{"key":"%"}'), id="session_key_without_members"),
        pytest.param(
            (b"session-key", '{"key":"é","algorithm":"x","creation-timestamp":1}'.encode()),
            id="session_key_not_of_ascii",
        ),
        pytest.param(
            (b"session-key", b'{"key":"MQ==","algorithm":"x","creation-timestamp":9223372036854775808}'),
            id="session_key_of_no_time",
        ),
        pytest.param((b"what-is-this", b"{}"), id="unknown_key"),
        pytest.param((None, b"{}"), id="no_key"),
    ],
)
def test_record_that_can_not_be_read_changes_nothing(entry: tuple[bytes | None, bytes | None]) -> None:
    built = viewed(
        records.connector_entry("a", CONFIG), records.task_entry("a", 0, CONFIG), records.commit_entry("a", 1)
    )
    before = built.snapshot()
    assert built.apply(*entry) is None
    assert built.snapshot() == before


@pytest.mark.parametrize(
    ("key", "parsed"),
    [
        pytest.param("task-a-b-12", ("a-b", 12), id="dashes_in_the_name"),
        pytest.param("task--0", ("", 0), id="empty_name"),
        pytest.param("task-a--0", ("a-", 0), id="name_that_ends_with_a_dash"),
        pytest.param("task-a-x", None, id="no_number"),
    ],
)
def test_task_number_is_what_follows_the_last_dash(key: str, parsed: tuple[str, int] | None) -> None:
    assert records.task_key(key) == parsed


def test_secrets_in_configs_are_in_no_repr() -> None:
    built = viewed(records.connector_entry("a", {"sasl.jaas.config": "hunter2"}), *recorded(before=1))
    assert "hunter2" not in repr(built.snapshot())
    assert "xd\\x" not in repr(built.snapshot())
    assert "SessionKey(algorithm" in repr(built.snapshot())


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
    topic.add(*records.session_key_entry(records.SessionKey.new(created=1_699_996_400_500)))
    assert await (await started_store(topic)).put_session_key(lifetime_ms=3_600_000)


async def test_write_that_fails_tells_its_caller() -> None:
    topic = FakeTopic()
    store = await started_store(topic)
    topic.failure = ClusterUnreachable("no broker answers")
    with pytest.raises(ClusterUnreachable):
        await store.put_connector("a", CONFIG)
