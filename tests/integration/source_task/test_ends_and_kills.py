"""Source tasks that end, are killed, moved or fenced lose no record."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from deploy.local import LocalCluster
from mirror_connect.connectors.task_protocol import RUNNING
from mirror_connect.kafka_io.producer.produce_outcome import FencedError
from tests.integration.mirror_rig import (
    OFFSETS_PARTITIONS,
    OFFSETS_TOPIC,
    fresh_topic,
    produce,
    read,
    running,
    spec_for,
    stored_offsets,
)
from tests.integration.source_task.copied_topics import (
    lines,
    mirrored_topic,
    without_repetitions,
)
from tests.paths import ROOT

pytestmark = pytest.mark.brokers


async def test_the_position_at_the_end_is_that_of_the_last_record(source: LocalCluster, target: LocalCluster) -> None:
    topic = mirrored_topic(source, target, partitions=2)
    produce(source, topic, lines(1_000, 2))
    spec = spec_for(source, target, {topic: 2})
    async with running(spec) as task:
        await task.copied(1_000)
        await task.finish()
    assert stored_offsets(target, spec.connector) == {(topic, 0): 499, (topic, 1): 499}


async def test_the_next_run_goes_on_where_the_last_one_ended(source: LocalCluster, target: LocalCluster) -> None:
    topic = mirrored_topic(source, target)
    spec = spec_for(source, target, {topic: 1})
    for _ in range(3):
        produce(source, topic, lines(700))
        async with running(spec, target) as task:
            await task.copied(700)
            await task.finish()
    assert read(target, f"A.{topic}") == read(source, topic)


@pytest.mark.soak
async def test_partitions_join_and_leave_a_running_task(source: LocalCluster, target: LocalCluster) -> None:
    first, second = mirrored_topic(source, target, 2), mirrored_topic(source, target, 2)
    produce(source, first, lines(1_000, 2))
    produce(source, second, lines(1_000, 2))
    async with running(spec_for(source, target, {first: 2}), target) as task:
        await task.copied(1_000)
        task.assign({first: 1, second: 2})
        await task.copied(2_000)
        await task.until(lambda: task.link.assignment_version == 2)
        produce(source, first, lines(1_000, 2))
        await task.copied(2_500)
        task.assign({first: 2, second: 2})
        await task.copied(3_000)
        await task.finish()
    assert [read(target, f"A.{t}") for t in (first, second)] == [read(source, t) for t in (first, second)]


@pytest.mark.soak
async def test_a_target_broker_killed_under_load_costs_and_doubles_no_record(
    source: LocalCluster, dice: Random
) -> None:
    with LocalCluster("restarted") as target:
        target.create_topic(OFFSETS_TOPIC, OFFSETS_PARTITIONS)
        topic = fresh_topic()
        source.create_topic(topic, 4)
        target.create_topic(f"A.{topic}", 4)
        produce(source, topic, lines(100_000, 4), **{"batch.num.messages": 50})
        async with running(spec_for(source, target, {topic: 4})) as task:
            await task.copied(dice.randrange(1_000, 40_000))
            await asyncio.to_thread(target.kill)
            await asyncio.to_thread(target.start)
            await task.copied(100_000)
            await task.finish()
        assert read(target, f"A.{topic}") == read(source, topic)


@pytest.mark.soak
async def test_a_leader_that_dies_under_load_costs_and_doubles_no_record(source: LocalCluster, dice: Random) -> None:
    # unclean.leader.election stays off and two replicas must be in sync, so what was acknowledged survives.
    with LocalCluster("three", brokers=3, properties={"min.insync.replicas": "2"}, heap="256m") as target:
        target.create_topic(OFFSETS_TOPIC, OFFSETS_PARTITIONS, replication=3)
        topic = fresh_topic()
        source.create_topic(topic, 4)
        target.create_topic(f"A.{topic}", 4, replication=3)
        produce(source, topic, lines(100_000, 4), **{"batch.num.messages": 50})
        async with running(spec_for(source, target, {topic: 4})) as task:
            await task.copied(dice.randrange(1_000, 40_000))
            await asyncio.to_thread(target.brokers[2].kill)
            await task.copied(100_000)
            await task.finish()
        assert read(target, f"A.{topic}") == read(source, topic)


@pytest.mark.soak
async def test_a_task_killed_under_load_loses_nothing_and_repeats_little(
    source: LocalCluster, target: LocalCluster, tmp_path: Path
) -> None:
    topic = mirrored_topic(source, target, 2)
    spec = spec_for(source, target, {topic: 2})
    produce(source, topic, lines(150_000, 2), **{"batch.num.messages": 20})
    positions = tmp_path / "positions.json"
    positions.write_text("[]")
    process = subprocess.Popen(  # noqa: ASYNC220 - only started here
        [sys.executable, "-m", "tests.fakes.task_process", str(positions)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(spec.to_json()) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            if json.loads(line).get("commits", 0) >= 1:
                break
        process.kill()
    killed_at = stored_offsets(target, spec.connector)
    async with running(spec, target) as task:
        # A commit that was on its way may still have come: how much is left is not known here.
        async with asyncio.timeout(180):
            while await asyncio.to_thread(stored_offsets, target, spec.connector) != dict.fromkeys(
                ((topic, 0), (topic, 1)), 74_999
            ):
                task.check_running()
                await asyncio.sleep(0.2)
        await task.finish()
    got, wanted = read(target, f"A.{topic}"), read(source, topic)
    assert killed_at != {}
    assert without_repetitions(got) == wanted


@pytest.mark.soak
async def test_without_a_lease_nothing_is_written(source: LocalCluster, target: LocalCluster) -> None:
    topic = mirrored_topic(source, target)
    async with running(spec_for(source, target, {topic: 1})) as task:
        produce(source, topic, lines(100))
        await task.copied(100)
        task.link.lease = False
        produce(source, topic, lines(100))
        await asyncio.sleep(1)
        assert len(read(target, f"A.{topic}")) == 100
        task.link.lease = True
        await task.copied(200)
        await task.finish()


@pytest.mark.soak
async def test_a_second_run_with_the_same_transactional_id_fences_the_first(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic = mirrored_topic(source, target)
    spec = spec_for(source, target, {topic: 1})
    async with running(spec) as first:
        produce(source, topic, lines(100))
        await first.copied(100)
        async with running(spec, target) as second:
            # Until its first batch is written the first may go on: with positions read, the second copies for itself.
            await second.until(lambda: second.link.state == RUNNING)
            produce(source, topic, lines(100))
            await second.copied(100)
            produce(source, topic, lines(1))
            with pytest.raises(FencedError, match=spec.transactional_id):
                await first.copied(10_000)
