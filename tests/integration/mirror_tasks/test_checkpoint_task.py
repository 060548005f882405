"""The checkpoint task between two real clusters: what it translates, and what it waits for."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from deploy.local import LocalCluster
from mirror_connect.connectors.records.checkpoints import Checkpoint
from mirror_connect.connectors.records.offset_syncs import OffsetSync
from mirror_connect.spark_jobs.tasks.mirror_checkpoint import run_checkpoint_task
from tests.brokers import commit
from tests.integration.mirror_rig import fresh_topic, messages, produce, running
from tests.integration.mirror_tasks.mapped_groups import (
    CHECKPOINTS,
    COMPACT,
    a_pair,
    checkpoints,
    mapped_by_ranges,
    mapped_by_syncs,
    places,
    spec,
)

pytestmark = pytest.mark.brokers


@pytest.mark.parametrize(
    ("with_ranges", "upstream", "downstream"),
    [
        pytest.param(True, 57, 157, id="to_the_very_record_by_ranges"),
        pytest.param(False, 57, 101, id="to_one_past_the_sync_without_them"),
        pytest.param(False, 0, 100, id="to_the_synced_record_itself"),
    ],
)
async def test_a_position_in_the_middle_of_a_topic_is_translated(
    source: LocalCluster, target: LocalCluster, with_ranges: bool, upstream: int, downstream: int
) -> None:
    topic, group = a_pair(source, target), fresh_topic("g")
    mapped_by_syncs(source, topic, (0, 100))
    if with_ranges:
        mapped_by_ranges(target, topic, (0, 90, 100))
    commit(source, group, topic, upstream, "a note")
    async with running(spec(source, target, "Checkpoint", group), None, run_checkpoint_task) as task:
        await task.until(lambda: bool(task.link.counters.get("records")))
        await task.finish()
    # librdkafka sends its terminating NUL along.
    assert checkpoints(target, group) == [Checkpoint(group, f"A.{topic}", 0, upstream, downstream, "a note\0")]


async def test_a_checkpoint_keeps_its_place_in_connect_offsets_as_java_does(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic, group = a_pair(source, target), fresh_topic("g")
    mapped_by_syncs(source, topic, (0, 0))
    commit(source, group, topic, 0)
    of = spec(source, target, "Checkpoint", group)
    async with running(of, None, run_checkpoint_task) as task:
        await task.until(lambda: bool(task.link.counters.get("records")))
        await task.finish()
    key = f'["{of.connector}",{{"partition":0,"topic":"A.{topic}","group":"{group}"}}]'
    assert places(target, of.connector) == [(key, b'{"offset":0}')]


@pytest.mark.kafka_test("MirrorConnectorsIntegrationBaseTest.testNoCheckpointsIfNoRecordsAreMirrored")
async def test_a_topic_of_which_nothing_was_mirrored_has_no_checkpoint(
    source: LocalCluster, target: LocalCluster
) -> None:
    (topic, other), group = (a_pair(source, target) for _ in range(2)), fresh_topic("g")
    mapped_by_syncs(source, other, (0, 0))
    for each in (topic, other):
        commit(source, group, each, 5)
    async with running(spec(source, target, "Checkpoint", group), None, run_checkpoint_task) as task:
        await task.until(lambda: bool(task.link.counters.get("records")))
        await task.finish()
    assert [each.topic for each in checkpoints(target, group)] == [f"A.{other}"]


async def test_without_a_topic_of_offset_syncs_the_status_says_so_until_there_is_one(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic, group, alias = a_pair(source, target), fresh_topic("g"), fresh_topic("B")
    commit(source, group, topic, 5)
    syncs = f"mm2-offset-syncs.{alias}.internal"
    # Other tests' topics have ranges.
    config = {"topics": topic, "emit__checkpoints__interval__seconds": "1"}
    of = replace(spec(source, target, "Checkpoint", group, **config), target_alias=alias)
    async with running(of, None, run_checkpoint_task) as task:
        await task.until(lambda: bool(task.link.problem_lines))
        (line,) = task.link.problem_lines
        assert line.startswith("Translation by offset syncs is paused since 2")
        assert f"topic {syncs} doesn't exist on the source cluster: nothing can be translated before a " in line
        assert sum(syncs in notice for notice in task.link.log_lines) == 1
        await asyncio.to_thread(source.create_topic, syncs, 1, COMPACT)
        await task.until(lambda: task.link.problem_lines == ())
        sync = OffsetSync(topic, 0, 5, 5)
        await asyncio.to_thread(produce, source, syncs, [{"key": sync.key(), "value": sync.value(), "partition": 0}])
        await task.until(lambda: bool(task.link.counters.get("records")))
        await task.finish()
    assert [each.downstream for each in checkpoints(target, group)] == [5]


async def test_without_a_topic_of_offset_syncs_ranges_translate_and_that_is_no_trouble(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic, group, alias = a_pair(source, target, records=50), fresh_topic("g"), fresh_topic("B")
    mapped_by_ranges(target, topic, (0, 50, 0))
    commit(source, group, topic, 23)
    of = replace(spec(source, target, "Checkpoint", group, topics=topic), target_alias=alias)
    async with running(of, None, run_checkpoint_task) as task:
        await task.until(lambda: bool(task.link.counters.get("records")))
        assert task.link.problem_lines == ()
        assert [line for line in task.link.log_lines if alias in line] == [
            f"Topic mm2-offset-syncs.{alias}.internal doesn't exist on the source cluster: offsets are translated by "
            "offset ranges alone, and those outside all ranges are not"
        ]
        await task.finish()
    assert [each.downstream for each in checkpoints(target, group)] == [23]


@pytest.mark.kafka_test("MirrorConnectorsIntegrationBaseTest.testRestartReplication")
async def test_after_a_restart_only_news_is_written(source: LocalCluster, target: LocalCluster) -> None:
    topic, group = a_pair(source, target), fresh_topic("g")
    mapped_by_syncs(source, topic, (0, 0), (10, 10))
    commit(source, group, topic, 10)
    async with running(spec(source, target, "Checkpoint", group), None, run_checkpoint_task) as task:
        await task.until(lambda: bool(task.link.counters.get("records")))
        await task.finish()
    other = fresh_topic("g")
    commit(source, other, topic, 10)
    async with running(spec(source, target, "Checkpoint", group, other), None, run_checkpoint_task) as task:
        await task.until(lambda: bool(task.link.counters.get("records")))
        await task.finish()
    assert (len(checkpoints(target, group)), len(checkpoints(target, other))) == (1, 1)


async def test_a_sync_that_comes_while_the_task_runs_moves_the_checkpoint_on(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic, group = a_pair(source, target), fresh_topic("g")
    mapped_by_syncs(source, topic, (0, 0))
    commit(source, group, topic, 20)
    paced = {"emit__checkpoints__interval__seconds": "1"}
    async with running(spec(source, target, "Checkpoint", group, **paced), None, run_checkpoint_task) as task:
        await task.until(lambda: task.link.counters.get("records", 0) == 1)
        mapped_by_syncs(source, topic, (20, 20))
        await task.until(lambda: task.link.counters.get("records", 0) == 2)
        await task.finish()
    assert [each.downstream for each in checkpoints(target, group)] == [1, 20]


@pytest.mark.kafka_test("MirrorConnectorsIntegrationBaseTest.testOffsetTranslationBehindReplicationFlow")
async def test_checkpoints_go_on_and_back_with_a_group_far_behind_what_is_mirrored(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic, group = a_pair(source, target), fresh_topic("g")
    # All that a store of 64 syncs may have kept of 20,000 records that were mirrored in one go.
    mapped_by_syncs(source, topic, *((upstream, upstream) for upstream in range(0, 20_001, 100)))
    paced = {"emit__checkpoints__interval__seconds": "1"}
    async with running(spec(source, target, "Checkpoint", group, **paced), None, run_checkpoint_task) as task:
        for number, position in enumerate((200, 18_000, 2_000), start=1):
            await asyncio.to_thread(commit, source, group, topic, position)
            await task.until(lambda number=number: task.link.counters.get("records", 0) == number)  # type: ignore[misc]
        await task.finish()
    first, on, back = (each.downstream for each in checkpoints(target, group))
    assert (first <= 200, first < on <= 18_000, back < on, back <= 2_000) == (True, True, True, True)


@pytest.mark.parametrize("exactly_once", [False, True], ids=["as_it_is", "exactly_once"])
async def test_a_checkpoint_that_was_aborted_is_written_again(
    source: LocalCluster, target: LocalCluster, exactly_once: bool
) -> None:
    topic, group = a_pair(source, target), fresh_topic("g")
    mapped_by_syncs(source, topic, (0, 100))
    commit(source, group, topic, 0)
    aborted = Checkpoint(group, f"A.{topic}", 0, 0, 100, "")

    def abort() -> None:
        producer = Producer({**target.librdkafka(), "transactional.id": fresh_topic("aborting")})
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce(CHECKPOINTS, key=aborted.key(), value=aborted.value(), partition=0)
        assert producer.flush(60) == 0
        producer.abort_transaction(60)

    await asyncio.to_thread(abort)
    of = replace(spec(source, target, "Checkpoint", group), exactly_once=exactly_once)
    async with running(of, None, run_checkpoint_task) as task:
        await task.until(lambda: bool(task.link.counters.get("records")))
        await task.finish()
    committed = [
        Checkpoint.decode(message.key(), message.value())
        for message in messages(target, CHECKPOINTS, isolation="read_committed")
    ]
    assert [each.downstream for each in committed if each.group == group] == [100]
    assert len(places(target, of.connector)) >= 1
