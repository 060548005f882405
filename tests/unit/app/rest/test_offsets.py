"""GET, PATCH and DELETE /connectors/{name}/offsets over a real socket, and the records they leave."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import httpx
import pytest

from mirror_connect.app.herder import source_offsets
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.task_protocol import TaskId
from tests.fakes.connect_worker import FakeWorker, eventually, source_config

NOT_STOPPED = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the specified "
    "connector by issuing a 'PUT' request to the '/connectors/a/stop' endpoint"
)
KEY_0 = b'["a",{"cluster":"A","partition":0,"topic":"orders"}]'
KEY_1 = b'["a",{"cluster":"A","partition":1,"topic":"orders"}]'


def entry(partition: int, offset: int | None, topic: str = "orders") -> dict[str, Any]:
    where = {"topic": topic, "partition": partition, "cluster": "A"}
    return {"partition": where, "offset": None if offset is None else {"offset": offset}}


async def created(client: httpx.AsyncClient, state: str = "STOPPED") -> None:
    body = {"name": "a", "config": source_config(), "initial_state": state}
    assert (await client.post("/connectors", json=body)).status_code == 201


async def altered(client: httpx.AsyncClient, *entries: dict[str, Any]) -> httpx.Response:
    return await client.patch("/connectors/a/offsets", json={"offsets": list(entries)})


async def test_a_connector_without_offsets_has_an_empty_list(client: httpx.AsyncClient) -> None:
    await created(client)
    assert (await client.get("/connectors/a/offsets")).json() == {"offsets": []}


async def test_offsets_of_a_running_connector_are_listed(client: httpx.AsyncClient, worker: FakeWorker) -> None:
    await created(client, "RUNNING")
    worker.offset_topic.add(KEY_0, b'{"offset":41}')
    worker.offset_topic.add(KEY_0.replace(b"a", b"b", 1), b'{"offset":7}')
    partition = {"cluster": "A", "partition": 0, "topic": "orders"}
    assert (await client.get("/connectors/a/offsets")).json() == {
        "offsets": [{"partition": partition, "offset": {"offset": 41}}]
    }


async def test_set_offsets_are_written_with_keys_that_a_java_worker_finds(
    client: httpx.AsyncClient, worker: FakeWorker
) -> None:
    await created(client)
    answer = await altered(client, entry(0, 4), entry(1, 9))
    assert answer.json() == {"message": "The offsets for this connector have been altered successfully"}
    assert worker.offset_topic.entries() == [(KEY_0, b'{"offset":4}'), (KEY_1, b'{"offset":9}')]


@pytest.mark.parametrize(
    ("offsets", "line"),
    [
        ((4,), "1 source offset set"),
        ((None,), "1 source offset removed"),
        ((4, 9), "2 source offsets set"),
        ((4, None), "1 source offset set, 1 source offset removed"),
    ],
)
async def test_the_log_says_what_was_set_and_what_was_removed(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture, offsets: tuple[int | None, ...], line: str
) -> None:
    caplog.set_level(logging.INFO, "mirror_connect.app.herder")
    await created(client)
    await altered(client, *(entry(partition, offset) for partition, offset in enumerate(offsets)))
    assert [each for each in caplog.messages if "offset" in each] == [f"Connector a: {line}"]


@pytest.mark.kafka_test("MirrorSourceConnectorTest.testAlterOffsetsTombstones")
@pytest.mark.kafka_test("MirrorCheckpointConnectorTest.testAlterOffsetsTombstones")
@pytest.mark.kafka_test("MirrorHeartBeatConnectorTest.testAlterOffsetsTombstones")
async def test_a_null_offset_forgets_whatever_partition_is_named(client: httpx.AsyncClient, worker: FakeWorker) -> None:
    await created(client)
    junk: dict[str, Any] = {"partition": {"a": [1, {"d": 1.5, "c": None}]}, "offset": None}
    assert (await altered(client, entry(0, None), junk, {"partition": None})).status_code == 200
    assert worker.offset_topic.entries() == [
        (KEY_0, None),
        (b'["a",{"a":[1,{"c":null,"d":1.5}]}]', None),
        (b'["a",null]', None),
    ]


@pytest.mark.kafka_test("MirrorSourceConnectorTest.testAlterOffsetsMultiplePartitions")
@pytest.mark.kafka_test("MirrorCheckpointConnectorTest.testAlterOffsetsMultiplePartitions")
@pytest.mark.kafka_test("MirrorHeartBeatConnectorTest.testAlterOffsetsMultiplePartitions")
async def test_one_bad_entry_refuses_all_of_them(client: httpx.AsyncClient, worker: FakeWorker) -> None:
    await created(client)
    answer = await altered(client, entry(0, 4), entry(1, -1))
    assert answer.json() == {
        "error_code": 400,
        "message": "Source offset {offset=-1} for source partition {cluster=A, partition=1, topic=orders} has an invalid "
        "value -1 for the 'offset' key, which cannot be negative",
    }
    assert worker.offset_topic.entries() == []


async def test_a_reset_forgets_everything_of_this_connector_alone(
    client: httpx.AsyncClient, worker: FakeWorker
) -> None:
    await created(client)
    spelled_otherwise = b'["a",{"topic":"orders","partition":0,"cluster":"A"}]'
    for key in (KEY_0, KEY_1, spelled_otherwise, KEY_0.replace(b"a", b"b", 1)):
        worker.offset_topic.add(key, b'{"offset":1}')
    worker.offset_topic.add(KEY_1, None)
    answer = await client.delete("/connectors/a/offsets")
    assert answer.json() == {"message": "The offsets for this connector have been reset successfully"}
    assert worker.offset_topic.entries()[5:] == [(KEY_0, None), (spelled_otherwise, None)]


@pytest.mark.parametrize("state", ["RUNNING", "PAUSED"])
@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_only_offsets_of_a_stopped_connector_can_be_changed(
    client: httpx.AsyncClient, method: str, state: str
) -> None:
    await created(client, state)
    answer = await client.request(method, "/connectors/a/offsets", json={"offsets": [entry(0, 4)]})
    assert answer.json() == {"error_code": 400, "message": NOT_STOPPED}


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
async def test_an_unknown_connector_has_no_offsets(client: httpx.AsyncClient, method: str) -> None:
    answer = await client.request(method, "/connectors/a/offsets", json={"offsets": [entry(0, 4)]})
    assert answer.json() == {"error_code": 404, "message": "Connector a not found"}


@pytest.mark.parametrize("body", [{}, {"offsets": []}, {"offsets": None}])
async def test_a_change_of_nothing_is_refused_before_the_connector_is_looked_for(
    client: httpx.AsyncClient, body: dict[str, Any]
) -> None:
    answer = await client.patch("/connectors/a/offsets", json=body)
    message = "Partitions / offsets need to be provided for an alter offsets request"
    assert answer.json() == {"error_code": 400, "message": message}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("", id="none"),
        pytest.param("null", id="null"),
        pytest.param("[]", id="array"),
        pytest.param('{"offsets":{}}', id="object_of_offsets"),
        pytest.param('{"offsets":[null]}', id="null_entry"),
        pytest.param('{"offsets":[{"partition":"x","offset":null}]}', id="partition_that_is_text"),
        pytest.param('{"offsets":[{"partition":{},"offset":3}]}', id="offset_that_is_a_number"),
        pytest.param('{"offsets":[{"partition":{},"offset":null,"x":1}]}', id="unknown_member_of_an_entry"),
        pytest.param('{"offsets":[],"x":1}', id="unknown_member"),
        pytest.param('{"offsets":[{"partition":{"n":9223372036854775808}}]}', id="integer_beyond_64_bits"),
        pytest.param('{"offsets":[{"partition":{"n":1' + "0" * 5000 + "}}]}", id="integer_of_5000_digits"),
        pytest.param('{"offsets":[{"partition":{"n":1e999}}]}', id="number_beyond_a_double"),
        pytest.param('{"offsets":[{"partition":{"n":' + "[" * 200 + "]" * 200 + "}}]}", id="deeply_nested"),
        pytest.param('{"offsets":[{"partition":null,"offset":{"offset":0}}]}', id="offset_of_no_partition"),
        pytest.param('{"offsets":[{"partition":{"n":"' + "x" * 1_000_000 + '"}}]}', id="larger_than_a_record"),
    ],
)
async def test_a_body_that_makes_no_sense_is_400_and_writes_nothing(
    client: httpx.AsyncClient, worker: FakeWorker, body: str
) -> None:
    await created(client)
    headers = {"Content-Type": "application/json"}
    answer = await client.patch("/connectors/a/offsets", content=body, headers=headers)
    assert (answer.status_code, len(answer.json()["message"]) > 10) == (400, True)
    assert worker.offset_topic.entries() == []


async def test_a_change_waits_for_the_last_commit_of_a_task_that_is_ending(
    client: httpx.AsyncClient, worker: FakeWorker
) -> None:
    await created(client, "RUNNING")
    await worker.state("a", "RUNNING", ["RUNNING"])
    events = worker.supervisor.hold_ends()
    await client.put("/connectors/a/stop")
    changing = asyncio.create_task(altered(client, entry(0, 4)))
    await asyncio.sleep(0.2)
    assert worker.offset_topic.entries() == []
    worker.offset_topic.add(KEY_0, b'{"offset":99}')
    events.task_ended(TaskId("a", 0))
    assert (await changing).status_code == 200
    assert worker.offset_topic.entries()[1:] == [(KEY_0, b'{"offset":4}')]


async def test_a_task_that_does_not_end_makes_a_change_a_passing_conflict(
    client: httpx.AsyncClient, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_offsets, "TASKS_WAIT_S", 0.05)
    await created(client, "RUNNING")
    await worker.state("a", "RUNNING", ["RUNNING"])
    worker.supervisor.hold_ends()
    await client.put("/connectors/a/stop")
    answer = await altered(client, entry(0, 4))
    assert (answer.status_code, "momentarily" in answer.text) == (409, True)


async def test_a_connector_that_is_resumed_meanwhile_keeps_its_offsets(
    client: httpx.AsyncClient, worker: FakeWorker
) -> None:
    await created(client)
    worker.offsets_gate = asyncio.Event()
    changing = asyncio.create_task(altered(client, entry(0, 4)))
    await eventually(lambda: worker.offsets_asked > 0)
    await client.put("/connectors/a/resume")
    worker.offsets_gate.set()
    assert (await changing).json() == {"error_code": 400, "message": NOT_STOPPED}
    assert worker.offset_topic.entries() == []


async def test_a_cluster_that_does_not_answer_is_one_line(client: httpx.AsyncClient, worker: FakeWorker) -> None:
    await created(client)
    worker.offsets_failure = ClusterUnreachable("The target cluster at b:9092 does not answer")
    answers = [await client.get("/connectors/a/offsets"), await client.delete("/connectors/a/offsets")]
    assert [answer.json() for answer in answers] == [
        {"error_code": 500, "message": "The target cluster at b:9092 does not answer"}
    ] * 2


async def test_an_address_of_a_config_provider_is_not_told(client: httpx.AsyncClient, worker: FakeWorker) -> None:
    config = source_config(**{"target.cluster.bootstrap.servers": "${file:/secrets:address}"})
    await client.post("/connectors", json={"name": "a", "config": config, "initial_state": "STOPPED"})
    worker.offsets_failure = ClusterUnreachable("The target cluster at hunter2:9092 does not answer")
    answers = [
        await client.get("/connectors/a/offsets"),
        await client.delete("/connectors/a/offsets"),
        await altered(client, entry(0, 4)),
    ]
    assert [answer.json()["message"] for answer in answers] == ["The target cluster at [hidden] does not answer"] * 3
