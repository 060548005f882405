"""The status topic against the records of a real Kafka Connect 4.3.1 worker (tests/fixtures/worker-connect-status)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mirror_connect.app.storage import status as module
from mirror_connect.app.storage.status import Status, StatusStore, TopicStatus
from mirror_connect.connectors.task_protocol import TaskId
from tests.fakes.topic_log import FakeTopic, FakeTopicLog
from tests.paths import FIXTURES

FIXTURE = FIXTURES / "worker-connect-status.jsonl"
LINES: list[dict[str, Any]] = [json.loads(line) for line in FIXTURE.read_text().splitlines()]
A_0 = TaskId("a", 0)


def status(state: str = "RUNNING", worker: str = "w:1", generation: int = 3) -> Status:
    return Status(state, worker, generation)


async def started_store(topic: FakeTopic | None = None) -> StatusStore:
    store = StatusStore(FakeTopicLog(topic))
    await store.start()
    return store


@pytest.mark.parametrize(
    "line",
    [pytest.param(line, id=f"{line['partition']}-{line['offset']}") for line in LINES if line["value_hex"] is not None],
)
def test_encoders_write_the_bytes_that_kafka_wrote(line: dict[str, Any]) -> None:
    value = bytes.fromhex(line["value_hex"])
    topic = json.loads(value).get("topic")
    if topic is not None:
        read = TopicStatus(topic["name"], topic["connector"], topic["task"], topic["discoverTimestamp"])
        assert module.topic_key(read.connector, read.topic).hex() == line["key_hex"]
        assert module.encode_topic(read) == value
    else:
        decoded = module.decode_status(value)
        assert decoded is not None
        assert module.encode_status(decoded) == value


@pytest.mark.parametrize(
    "wrong",
    [
        {"state": 1},
        {"worker_id": None},
        {"generation": "3"},
        {"generation": None},
        {"trace": []},
        {"trace": {"line": 1}},
        {"trace": 7},
        {"version": ["4.3.1"]},
        {"version": True},
    ],
    ids=str,
)
async def test_a_status_with_a_member_of_another_type_changes_nothing(wrong: dict[str, Any]) -> None:
    right = {"state": "RUNNING", "trace": "line", "worker_id": "w:1", "generation": 3, "version": "4.3.1"}
    topic = FakeTopic()
    for key in (b"status-connector-a", b"status-task-a-0"):
        topic.add(key, json.dumps(right).encode())
        topic.add(key, json.dumps({**right, "state": "FAILED", **wrong}).encode())
    store = await started_store(topic)
    assert store.connector("a") == store.task(A_0) == Status("RUNNING", "w:1", 3, "line", "4.3.1")


async def test_recorded_topic_gives_the_statuses_that_its_worker_showed_at_the_end() -> None:
    topic = FakeTopic()
    for line in sorted(LINES, key=lambda line: int(line["timestamp"])):
        topic.add(bytes.fromhex(line["key_hex"]), bytes.fromhex(line["value_hex"]) if line["value_hex"] else None)
    store = await started_store(topic)
    assert store.connectors() == {"mm2-source", "mm2-checkpoint", "mm2-heartbeat", "mm2-altchk"}
    assert store.connector("mm2-altchk") == Status("UNASSIGNED", "127.0.0.1:8583", 45, version=None)
    assert {number: task.state for number, task in store.tasks("mm2-source").items()}[0] == "FAILED"
    assert {entry.connector for entry in store.topics("mm2-source")} == {"mm2-source"}
    assert "A.exp-tx" in {entry.topic for entry in store.topics("mm2-source")}


@pytest.mark.parametrize(
    ("known", "written", "seen"),
    [
        pytest.param(status(), status("UNASSIGNED", "w:2"), "RUNNING", id="same_generation"),
        pytest.param(status(), status("UNASSIGNED", "w:2", 2), "RUNNING", id="earlier_generation"),
        pytest.param(status(), status("UNASSIGNED", "w:2", 4), "UNASSIGNED", id="later_generation"),
        pytest.param(status(), status("UNASSIGNED"), "UNASSIGNED", id="of_the_same_worker"),
        pytest.param(status("PAUSED"), status("UNASSIGNED"), "UNASSIGNED", id="over_a_paused_task"),
        pytest.param(status(), status("FAILED"), "FAILED", id="any_other_state"),
    ],
)
async def test_task_given_up_is_no_news_after_another_worker_has_started_it(
    known: Status, written: Status, seen: str
) -> None:
    store = await started_store()
    await store.put_task(A_0, known)
    await store.put_task(A_0, written)
    await store.refresh()
    found = store.task(A_0)
    assert found is not None
    assert found.state == seen


async def test_a_standby_and_a_later_worker_see_why_the_leaders_task_waits() -> None:
    topic = FakeTopic()
    leader, standby = await started_store(topic), await started_store(topic)
    waits = Status("UNASSIGNED", "w:1", 3, "Spark has died; it is started again after 60 s")
    await leader.put_task(A_0, status())
    await leader.put_task(A_0, waits)
    await standby.refresh()
    later = await started_store(topic)
    assert (standby.task(A_0), later.task(A_0)) == (waits, waits)


async def test_connector_that_is_unassigned_is_shown_so_at_once() -> None:
    store = await started_store()
    await store.put_connector("a", status())
    await store.put_connector("a", status("UNASSIGNED"))
    await store.refresh()
    assert store.connector("a") == status("UNASSIGNED")


async def test_deletion_leaves_tombstones_for_topics_tasks_and_connector() -> None:
    topic = FakeTopic()
    store = await started_store(topic)
    await store.put_connector("a", status())
    await store.put_task(A_0, status())
    await store.put_topic(TopicStatus("A.t", "a", 0, 1))
    await store.refresh()
    await store.delete_connector("a")
    await store.refresh()
    assert topic.entries()[-3:] == [
        (b"status-topic-A.t:connector-a", None),
        (b"status-task-a-0", None),
        (b"status-connector-a", None),
    ]
    assert store.connectors() == frozenset()


async def test_topic_is_written_once_until_it_is_reset() -> None:
    store = await started_store()
    first = TopicStatus("A.t", "a:connector-b", 0, 1)
    assert await store.put_topic(first)
    await store.refresh()
    assert not await store.put_topic(TopicStatus("A.t", "a:connector-b", 1, 2))
    assert store.topics("a:connector-b") == [first]
    await store.delete_topics("a:connector-b")
    await store.refresh()
    assert store.topics("a:connector-b") == []
    assert await store.put_topic(first)


async def test_a_state_begins_when_it_is_written_and_not_when_it_is_told_again() -> None:
    now = 0
    topic = FakeTopic(now_ms=lambda: now)
    store = await started_store(topic)
    seen = []
    for at, each in [
        (1_000, status()),
        (2_000, status("FAILED")),
        (3_000, Status("FAILED", "w:1", 4, "another trace")),
        (4_000, status("UNASSIGNED")),
        (5_000, status("FAILED")),
    ]:
        now = at
        await store.put_task(A_0, each)
        await store.put_connector("a", each)
        await store.refresh()
        task, connector = store.task(A_0), store.connector("a")
        assert task is not None
        assert connector is not None
        seen.append((task.since_ms, connector.since_ms))
    assert seen == [(at, at) for at in (1_000, 2_000, 2_000, 4_000, 5_000)]
    # The next process of the worker reads the same records, or the last one where the topic was compacted.
    later = (await started_store(topic)).task(A_0)
    assert later is not None
    assert later.since_ms == 5_000
    del topic.records[:-2]
    compacted = (await started_store(topic)).task(A_0)
    assert compacted is not None
    assert compacted.since_ms == 5_000


async def test_a_record_without_a_timestamp_tells_no_beginning() -> None:
    topic = FakeTopic(now_ms=lambda: -1)
    store = await started_store(topic)
    await store.put_task(A_0, status("FAILED"))
    await store.refresh()
    task = store.task(A_0)
    assert task is not None
    assert (task.state, task.since_ms) == ("FAILED", None)


async def test_status_of_a_worker_older_than_the_version_member_is_read() -> None:
    value = b'{"state":"RUNNING","trace":null,"worker_id":"w:1","generation":4}'
    assert module.decode_status(value) == Status("RUNNING", "w:1", 4, None, None)


async def test_records_that_can_not_be_read_are_skipped(caplog: pytest.LogCaptureFixture) -> None:
    topic = FakeTopic()
    for key in (b"status-task-a", b"status-topic-x", b"status-topic-:connector-", b"else", None):
        topic.add(key, b"{}")
    unreadable = ("status-connector-a", "status-task-a-0", "status-topic-t:connector-a")
    for key in unreadable:
        topic.add(key.encode(), b'{"state":1}')
    topic.add(b"status-connector-", b"{}")
    topic.add(b"status-connector-a", None)
    assert (await started_store(topic)).connectors() == frozenset()
    keys = ("status-task-a", "status-topic-x", "status-topic-:connector-", "else", "")
    reasons = [
        *(f"its key {key} is unknown" for key in keys),
        *(f"the value of {key} is unreadable" for key in unreadable),
        "its key status-connector- is unknown",
    ]
    assert caplog.messages == [
        f"Topic connect-topic: the record at partition 0, offset {offset} is skipped: {reason}"
        for offset, reason in enumerate(reasons)
    ]
