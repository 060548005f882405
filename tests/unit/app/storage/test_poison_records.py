"""Whatever lies in an internal topic, its readers go on: a bad record costs nothing but itself.

Who may write to the topics of a worker, or found a way to, must not take it down: each successor would read the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from mirror_connect.app.errors import NoStatus
from mirror_connect.app.rest.answers import answer
from mirror_connect.app.rest.bodies import ConnectorInfoBody, ConnectorStatusBody
from mirror_connect.app.storage import config_records
from mirror_connect.app.storage.config_view import ConfigView
from mirror_connect.app.storage.offsets import OffsetStore
from mirror_connect.app.storage.status import StatusStore
from mirror_connect.app.storage.topic_log import KafkaTopicLog
from mirror_connect.connectors.mirror.assignment import stored_partitions
from mirror_connect.connectors.mirror.mirror_checkpoint import assigned_groups
from mirror_connect.connectors.records.binary import UnreadableRecord
from mirror_connect.connectors.records.checkpoints import Checkpoint
from mirror_connect.connectors.records.heartbeats import Heartbeat
from mirror_connect.connectors.records.offset_syncs import OffsetSync
from mirror_connect.connectors.records.source_offsets import (
    parse_source_offset_headers,
    parse_source_offset_key,
    parse_source_offset_value,
)
from mirror_connect.connectors.translation.offset_range_index import RangeIndex
from mirror_connect.connectors.translation.offset_ranges import NO_ID, OffsetRange, RangeLogState, Segment
from mirror_connect.connectors.translation.offset_sync_store import OffsetSyncStore
from mirror_connect.kafka_io.admin.topic_plan import TopicPlan
from mirror_connect.kafka_io.consumer.log_clients import LogClients
from mirror_connect.kafka_io.consumer.topic_tail import LogRecord
from tests.fakes.connect_worker import FakeWorker, source_config
from tests.fakes.topic_log import FakeTopic, FakeTopicLog

Record = tuple[bytes | None, bytes | None]
DEEP = b"[" * 100_000 + b"]" * 100_000
ENDLESS = b"9" * 5000
PREFIXES = (
    *("connector-", "target-state-", "task-", "commit-", "restart-connector-", "tasks-fencing-", "session-key"),
    *("logger-cluster-", "status-connector-", "status-task-", "status-topic-", ""),
)
# What a connector, a task or an offset may be called: some that there are, some that are no names.
NAMES = ("a", "a-0", "a-1", "-", "a-", "b", "t:connector-a", '["a",{"topic":"t","partition":0}]', f"a-{'9' * 5000}")
MEMBERS = (
    *("properties", "tasks", "task-count", "state", "state.v2", "include-tasks", "only-failed", "key", "algorithm"),
    *(
        "creation-timestamp",
        "level",
        "trace",
        "worker_id",
        "generation",
        "version",
        "topic",
        "name",
        "connector",
        "task",
    ),
    *("discoverTimestamp", "offset", "connector.class", "task.assigned.partitions"),
)
PLAIN = some.one_of(
    some.none(),
    some.booleans(),
    some.integers(),
    some.sampled_from([3_000_000_000, 10**10, -1, 2**63, 10**400, 0, 1, 2]),
    some.floats(),
    some.text(max_size=8),
    some.sampled_from(["RUNNING", "STARTED", "a", "t", "orders-0", "orders-x", "é", "\ud800", "9" * 5000, "MQ=="]),
)
JSON = some.recursive(
    PLAIN,
    lambda each: some.lists(each, max_size=3) | some.dictionaries(some.sampled_from(MEMBERS), each, max_size=6),
    max_leaves=20,
)
KEYS = some.one_of(
    some.builds(lambda prefix, name: (prefix + name).encode(), some.sampled_from(PREFIXES), some.sampled_from(NAMES)),
    some.binary(max_size=20),
    some.none(),
)
VALUES = some.one_of(
    JSON.map(lambda value: json.dumps(value).encode()),
    some.dictionaries(some.sampled_from(MEMBERS), PLAIN, max_size=12).map(lambda value: json.dumps(value).encode()),
    some.sampled_from([DEEP, b'{"properties":' + DEEP + b"}", b'{"tasks":' + ENDLESS + b"}", b'{"a":"\\ud800"}']),
    some.binary(max_size=40),
    some.none(),
)
RECORDS = some.lists(some.tuples(KEYS, VALUES), max_size=12)
# `make soak` has more of them.
EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "150"))
MANY = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
SOME = settings(max_examples=EXAMPLES // 10, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.soak
@MANY
@given(RECORDS)
def test_the_config_topic_is_read_whatever_it_holds(found: Sequence[Record]) -> None:
    view = ConfigView()
    for key, value in [*found, config_records.connector_entry("good", {"connector.class": "X"})]:
        view.apply(key, value)
    snapshot = view.snapshot()
    assert snapshot.contains("good")
    for name in snapshot.connectors:
        texts = [snapshot.connectors[name], *snapshot.tasks(name)]
        assert all(isinstance(value, str | None) for config in texts for value in config.values())
        assert len(snapshot.tasks(name)) == snapshot.task_count(name)


@pytest.mark.soak
@MANY
@given(RECORDS)
def test_statuses_and_offsets_are_read_whatever_their_topics_hold(found: Sequence[Record]) -> None:
    async def read() -> None:
        topic = FakeTopic()
        for key, value in found:
            topic.add(key, value)
        topic.add(b"status-task-good-0", b'{"state":"RUNNING","trace":null,"worker_id":"w","generation":1}')
        statuses, offsets = StatusStore(FakeTopicLog(topic)), OffsetStore(FakeTopicLog(topic))
        for store in (statuses, offsets):
            await store.start()
        assert [status.state for status in statuses.tasks("good").values()] == ["RUNNING"]
        for name in statuses.connectors():
            for status in (statuses.connector(name), *statuses.tasks(name).values()):
                assert status is None or isinstance(status.trace, str | None)
            statuses.topics(name)
        for name in ("a", "b", "["):
            await offsets.entries(name)
        for store in (statuses, offsets):
            await store.stop()

    asyncio.run(read())


@pytest.mark.soak
@SOME
@given(RECORDS, RECORDS)
def test_a_worker_takes_over_and_runs_connectors_whatever_its_topics_hold(
    configs: Sequence[Record], statuses: Sequence[Record]
) -> None:
    async def take_over() -> None:
        config_topic, status_topic = FakeTopic(), FakeTopic()
        for topic, records in ((config_topic, configs), (status_topic, statuses)):
            for key, value in records:
                topic.add(key, value)
        async with FakeWorker(config_topic, status_topic).running() as worker:
            await worker.herder.configs.create("good", source_config(), None)
            await worker.state("good", "RUNNING", ["RUNNING"])
            for key, value in configs:
                config_topic.add(key, value)
            await worker.herder.configs.put("good", source_config(topics="others"))
            await worker.state("good", "RUNNING", ["RUNNING"])
            assert all(isinstance(task.partitions, frozenset) for task in worker.supervisor.wanted.values())
            for name in await worker.herder.connectors.names():
                answer(ConnectorInfoBody.of(await worker.herder.connectors.info(name)))
                with contextlib.suppress(NoStatus):
                    answer(ConnectorStatusBody.of(await worker.herder.connectors.status(name)))

    asyncio.run(take_over())


@pytest.mark.soak
@MANY
@given(some.binary(max_size=80), some.binary(max_size=200))
def test_topics_of_mirrormaker_are_read_whatever_they_hold(key: bytes, value: bytes) -> None:
    for decode in (OffsetSync.decode, Checkpoint.decode, Heartbeat.decode, Segment.decode):
        with contextlib.suppress(UnreadableRecord):
            decode(key, value)
    parse_source_offset_key(key)
    parse_source_offset_value(value)
    parse_source_offset_headers([("mirror-connect.topic.id", value), ("", None)])


@pytest.mark.soak
@MANY
@given(some.lists(some.integers(0, 2**70 - 1), min_size=8, max_size=8), some.integers(0, 2**63 - 1))
def test_numbers_that_no_offset_can_be_are_no_ranges(numbers: list[int], number: int) -> None:
    upstream, downstream, reach, owed, floor, gap, skipped, length = numbers
    before = RangeLogState(upstream, downstream, upstream + reach % 2**69, owed, floor % (downstream + 1))
    ranges = (OffsetRange((upstream + gap) % 2**69, (downstream + skipped) % 2**70, length % 2**69 + 1),)
    segment = Segment("t", 0, number, number, NO_ID, NO_ID, before, ranges)
    with contextlib.suppress(UnreadableRecord, ValueError, IndexError):
        decoded = Segment.decode(segment.key(), segment.value())
        index = RangeIndex()
        index.add(decoded)
        index.translate(2**62)


@pytest.mark.soak
@MANY
@given(some.lists(some.integers(-(2**63), 2**63 - 1), min_size=2, max_size=8), some.integers(-(2**63), 2**63 - 1))
def test_syncs_of_any_offsets_translate(offsets: list[int], asked: int) -> None:
    store = OffsetSyncStore()
    for upstream, downstream in itertools.pairwise(offsets):
        store.insert(OffsetSync("t", 0, upstream, downstream))
    store.read_to_end()
    store.translate("t", 0, asked)


def test_a_commit_of_millions_of_tasks_costs_no_memory() -> None:
    view = ConfigView()
    view.apply(*config_records.connector_entry("a", {"connector.class": "X"}))
    tracemalloc.start()
    try:
        view.apply(b"commit-a", b'{"tasks":3000000}')
        snapshot = view.snapshot()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (snapshot.tasks("a"), "a" in snapshot.inconsistent, peak < 1 << 20) == ([], True, True)


@pytest.mark.parametrize("tasks", [b"-1", b"2147483648", b"1e3", b"true", b'"1"', ENDLESS])
def test_what_is_no_count_of_tasks_changes_nothing(tasks: bytes) -> None:
    view = ConfigView()
    for key, value in (config_records.connector_entry("a", {}), config_records.task_entry("a", 0, {"x": "y"})):
        view.apply(key, value)
    view.apply(*config_records.commit_entry("a", 1))
    view.apply(b"commit-a", b'{"tasks":' + tasks + b"}")
    assert (view.snapshot().task_count("a"), view.snapshot().tasks("a")) == (1, [{"x": "y"}])


@pytest.mark.parametrize("value", [b"1", b"{}", b'["x"]', b"true", b"1.5"])
def test_a_config_with_a_value_that_is_no_text_is_dropped(value: bytes) -> None:
    view = ConfigView()
    view.apply(*config_records.connector_entry("a", {"x": "y"}))
    view.apply(b"connector-a", b'{"properties":{"x":' + value + b"}}")
    assert view.snapshot().connectors["a"] == {"x": "y", "name": "a"}


async def test_a_record_that_a_store_trips_over_costs_no_other_of_its_delivery(
    caplog: pytest.LogCaptureFixture,
) -> None:
    read: list[bytes | None] = []

    def trip(record: LogRecord) -> None:
        if record.key == b"bad":
            raise RecursionError
        read.append(record.key)

    log = KafkaTopicLog(LogClients({}, "c"), TopicPlan.for_configs("configs", 1, {}))
    log._tail, log._on_record = object(), trip  # type: ignore[assignment]
    log._receive([LogRecord(key, b"", 0, at, 0) for at, key in enumerate([b"one", b"bad", b"two"])], {0: 3})
    while log._brought:
        await asyncio.sleep(0)
    assert (read, log._positions) == ([b"one", b"two"], {0: 3})
    assert ["configs" in line and "partition 0, offset 1" in line for line in caplog.messages] == [True]


def test_assignments_that_nobody_can_read_are_none() -> None:
    text = f"orders-0,orders-x,orders,-,orders-{'9' * 5000},orders-2147483648,orders-\u0661,orders-2"
    assert list(map(str, stored_partitions(text))) == ["orders-0", "orders-2"]


@pytest.mark.parametrize("exact", ["[", "7", "[" * 100_000, '{"a":1}', "[[1]]"])
def test_groups_that_nobody_can_read_are_none(exact: str) -> None:
    config: dict[str, Any] = {"task.assigned.groups.json": exact}
    assert assigned_groups(config) == []
