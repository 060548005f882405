"""Changes of a connector's source offsets: when they are allowed, and what they check, write and hide."""

from __future__ import annotations

import asyncio

import pytest

from mirror_connect.app.config.exactly_once import Support
from mirror_connect.app.errors import (
    BadRequest,
    ConnectError,
    ConnectorNotFound,
    NotStopped,
    StaleConfiguration,
    TasksElsewhere,
)
from mirror_connect.app.herder import source_offsets
from mirror_connect.app.herder.lifecycle import TargetState
from mirror_connect.app.herder.source_offsets import Change
from mirror_connect.app.herder.validation import ConfigRules
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError
from mirror_connect.connectors.task_protocol import TaskId
from mirror_connect.kafka_io.admin.admin_errors import AdminError
from tests.fakes.connect_worker import FakeWorker, eventually, source_config

ORDERS_0 = {"topic": "orders", "partition": 0, "cluster": "A"}
KEY_0 = b'["a",{"cluster":"A","partition":0,"topic":"orders"}]'
SET: list[Change] = [(ORDERS_0, {"offset": 4})]


async def stopped(worker: FakeWorker, **config: str) -> None:
    await worker.herder.configs.create("a", source_config(**config), TargetState.STOPPED)


async def test_keys_have_the_member_order_of_java_whatever_the_request_had(worker: FakeWorker) -> None:
    await stopped(worker)
    await worker.herder.source_offsets.alter("a", SET)
    assert worker.offset_topic.entries() == [(KEY_0, b'{"offset":4}')]
    (entry,) = await worker.herder.source_offsets.list("a")
    assert (entry.partition, entry.offset) == (ORDERS_0, {"offset": 4})


async def test_an_offset_of_another_cluster_is_set_as_in_connect_and_the_log_says_that_nobody_reads_it(
    worker: FakeWorker, caplog: pytest.LogCaptureFixture
) -> None:
    await stopped(worker)
    foreign = [({**ORDERS_0, "cluster": "B", "partition": number}, {"offset": 4}) for number in range(2)]
    await worker.herder.source_offsets.alter("a", [*SET, *foreign])
    assert len(worker.offset_topic.entries()) == 3
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert told == [
        "Connector a: no task will read 2 source offsets of those: cluster B is not its source.cluster.alias"
    ]
    # Removing them is how a user mends it.
    caplog.clear()
    await worker.herder.source_offsets.alter("a", [(partition, None) for partition, _ in foreign])
    assert "no task will read" not in caplog.text


async def test_an_offset_without_a_partition_is_refused_and_a_removal_is_not(worker: FakeWorker) -> None:
    await stopped(worker)
    with pytest.raises(BadRequest, match="Source partitions may not be null"):
        await worker.herder.source_offsets.alter("a", [*SET, (None, {"offset": 1})])
    assert worker.offset_topic.entries() == []
    await worker.herder.source_offsets.alter("a", [(None, None)])
    assert worker.offset_topic.entries() == [(b'["a",null]', None)]


async def test_a_record_larger_than_the_limit_is_refused_before_anything_else(
    worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_offsets, "RECORD_LIMIT", len(KEY_0) + len(b'{"offset":4}'))
    await stopped(worker)
    await worker.herder.source_offsets.alter("a", SET)
    with pytest.raises(BadRequest, match="take more than"):
        await worker.herder.source_offsets.alter("a", [(ORDERS_0, {"offset": 40})])
    assert len(worker.offset_topic.entries()) == 1


async def test_only_a_connector_that_exists_and_is_stopped_can_be_changed(worker: FakeWorker) -> None:
    offsets = worker.herder.source_offsets
    for change in (offsets.alter("a", SET), offsets.reset("a"), offsets.list("a")):
        with pytest.raises(ConnectorNotFound):
            await change
    await worker.herder.configs.create("a", source_config(), TargetState.PAUSED)
    for change in (offsets.alter("a", SET), offsets.reset("a")):
        with pytest.raises(NotStopped):
            await change
    assert worker.offset_topic.entries() == []


async def test_a_task_that_may_still_write_delays_the_change_and_then_refuses_it(
    worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await worker.herder.configs.create("a", source_config(), None)
    await worker.state("a", "RUNNING", ["RUNNING"])
    events = worker.supervisor.hold_ends()
    await worker.herder.configs.stop("a")
    monkeypatch.setattr(source_offsets, "TASKS_WAIT_S", 0.05)
    with pytest.raises(StaleConfiguration):
        await worker.herder.source_offsets.alter("a", SET)
    assert worker.offset_topic.entries() == []
    events.task_ended(TaskId("a", 0))
    await worker.herder.source_offsets.alter("a", SET)
    assert worker.offset_topic.entries() == [(KEY_0, b'{"offset":4}')]


async def test_another_worker_that_may_still_write_delays_the_change_and_then_refuses_it(
    worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stopped(worker)
    worker.supervisor.elsewhere["a"] = "worker other:8083 has not given them up yet"
    monkeypatch.setattr(source_offsets, "TASKS_WAIT_S", 0.05)
    with pytest.raises(TasksElsewhere, match="other:8083"):
        await worker.herder.source_offsets.alter("a", SET)
    assert worker.offset_topic.entries() == []
    monkeypatch.setattr(source_offsets, "TASKS_WAIT_S", 60.0)
    altering = asyncio.create_task(worker.herder.source_offsets.alter("a", SET))
    await asyncio.sleep(0.2)
    assert not altering.done()
    worker.supervisor.elsewhere.clear()
    await altering
    assert worker.offset_topic.entries() == [(KEY_0, b'{"offset":4}')]


async def test_a_config_that_changes_meanwhile_is_checked_and_its_store_is_used(worker: FakeWorker) -> None:
    await stopped(worker)
    worker.offsets_gate = asyncio.Event()
    changing = asyncio.create_task(worker.herder.source_offsets.alter("a", SET))
    await eventually(lambda: worker.offsets_asked == 1)
    await worker.herder.configs.put("a", source_config(topics="payments"))
    worker.offsets_gate.set()
    await changing
    # Asked for again, as the new config might lead to another cluster.
    assert (worker.offsets_asked, worker.offset_topic.entries()) == (2, [(KEY_0, b'{"offset":4}')])


async def test_the_lock_for_writes_is_free_while_a_cluster_is_slow(worker: FakeWorker) -> None:
    await stopped(worker)
    worker.offsets_gate = asyncio.Event()
    changing = asyncio.create_task(worker.herder.source_offsets.reset("a"))
    await eventually(lambda: worker.offsets_asked == 1)
    async with asyncio.timeout(30):
        await worker.herder.configs.create("b", source_config(), None)
    worker.offsets_gate.set()
    await changing


@pytest.mark.parametrize(
    "failure",
    [
        ClusterUnreachable("broker hunter2:9092 does not answer"),
        AdminError("broker hunter2:9092 refused it", 1),
        ConfigError("bootstrap.servers", "hunter2:9092", "no address"),
    ],
    ids=lambda failure: type(failure).__name__,
)
async def test_an_error_of_the_store_hides_what_a_provider_gave(worker: FakeWorker, failure: Exception) -> None:
    await stopped(worker, **{"target.cluster.bootstrap.servers": "${file:/secrets:address}"})
    worker.offsets_failure = failure
    with pytest.raises(ConnectError) as caught:
        await worker.herder.source_offsets.list("a")
    assert ("hunter2" in str(caught.value), "[hidden]" in str(caught.value)) == (False, True)


async def test_a_write_that_fails_hides_what_a_provider_gave(worker: FakeWorker) -> None:
    await stopped(worker, **{"target.cluster.bootstrap.servers": "${file:/secrets:address}"})
    worker.offset_topic.failure = ClusterUnreachable("broker hunter2:9092 does not answer")
    for change in (worker.herder.source_offsets.alter("a", SET), worker.herder.source_offsets.reset("a")):
        with pytest.raises(ConnectError) as caught:
            await change
        assert (caught.value.status, str(caught.value)) == (500, "broker [hidden] does not answer")
    worker.offset_topic.failure = None


async def test_with_exactly_once_former_tasks_are_fenced_and_the_change_is_one_transaction() -> None:
    """As recorded of Connect: the count of tasks is noted as 0, and the id is that of the first task."""
    async with FakeWorker(rules=ConfigRules(exactly_once=Support.ENABLED)).running() as worker:
        worker.connectors.tasks["a"] = 3
        await worker.herder.configs.create("a", source_config(), None)
        await worker.state("a", "RUNNING", ["RUNNING"] * 3)
        assert worker.herder.fencing is not None
        await worker.herder.fencing.fence("a")
        await worker.herder.configs.stop("a")
        await worker.state("a", "STOPPED")
        worker.fenced.clear()
        await worker.herder.source_offsets.alter("a", SET)
        await worker.herder.source_offsets.reset("a")
        assert (worker.fenced[0], worker.transactions) == (("a", (0, 1, 2)), ["group-a-0"] * 2)
        assert [each for each in worker.written() if "fencing" in each] == [
            'tasks-fencing-a={"task-count":3}',
            'tasks-fencing-a={"task-count":0}',
        ]


async def test_without_it_no_transactional_id_is_needed() -> None:
    async with FakeWorker(rules=ConfigRules(exactly_once=Support.PREPARING)).running() as worker:
        await stopped(worker)
        await worker.herder.source_offsets.alter("a", SET)
        assert (worker.fenced, worker.transactions) == ([], [])
