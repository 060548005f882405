"""With exactly-once, a reader of committed records sees each record once and in order, whatever kills the task."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from deploy.local import LocalCluster
from deploy.local.connect import ConnectWorker
from deploy.local.java_process import JavaProcess
from mirror_connect.connectors.task_protocol import INTERVAL, POLL, RUNNING, TaskSpec
from mirror_connect.kafka_io.producer.produce_outcome import FencedError
from tests.integration.mirror_rig import OFFSETS_TOPIC, fresh_topic, produce, read, running, spec_for, stored_offsets
from tests.integration.source_task.copied_topics import lines, mirrored_topic, set_config
from tests.integration.verify_link import verify
from tests.paths import ROOT
from tests.waiting import wait_for_state

pytestmark = pytest.mark.brokers

SMALL_BATCHES: dict[str, Any] = {"batch.num.messages": 50}


def exactly_once(spec: TaskSpec, boundary: str = INTERVAL, interval_ms: int = 200) -> TaskSpec:
    return replace(spec, exactly_once=True, transaction_boundary=boundary, transaction_interval_ms=interval_ms)


@contextmanager
def process_of(spec: TaskSpec) -> Iterator[subprocess.Popen[str]]:
    """The task in a process, killed at the end."""
    command = [sys.executable, "-m", "tests.fakes.exactly_once_process"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(spec.to_json()) + "\n")
        process.stdin.flush()
        try:
            yield process
        finally:
            process.kill()


def console_consumer(cluster: LocalCluster, topic: str, count: int, directory: Path) -> list[str]:
    """The first `count` records that Kafka's own consumer of committed records prints of a topic, sorted."""
    printed = directory / "consumer.log"
    arguments = ["--bootstrap-server", cluster.bootstrap_servers, "--topic", topic, "--from-beginning"]
    arguments += ["--isolation-level", "read_committed", "--timeout-ms", "180000", "--max-messages", str(count)]
    arguments += ["--formatter-property", "print.partition=true", "--formatter-property", "print.key=true"]
    process = JavaProcess(
        "consumer", "org.apache.kafka.tools.consumer.ConsoleConsumer", arguments, log=printed, heap="128m"
    )
    try:
        wait_for_state(lambda: not process.alive, "the consumer has read all")
    finally:
        process.kill()
    return sorted(line for line in printed.read_text().splitlines() if line.startswith("Partition:"))


async def killed_again_and_again(
    source: LocalCluster, target: LocalCluster, dice: Random, spec: TaskSpec, *, rounds: int
) -> None:
    """Each round adds records, begins to copy them, and kills the task at some moment."""
    topic = spec.assigned[0].topic
    for _ in range(rounds):
        producing = asyncio.create_task(asyncio.to_thread(produce, source, topic, lines(6_000, 2), **SMALL_BATCHES))
        with process_of(spec) as process:
            await asyncio.to_thread(_until_it_copies, process)
            await asyncio.sleep(dice.random() * 0.6)
        await producing
    produce(source, topic, lines(100, 2))
    wanted = await asyncio.to_thread(read, source, topic)
    ends = {(topic, p): sum(record.partition == p for record in wanted) - 1 for p in range(2)}
    async with running(spec, target) as task:
        async with asyncio.timeout(180):
            while await asyncio.to_thread(stored_offsets, target, spec.connector) != ends:
                task.check_running()
                await asyncio.sleep(0.2)
        await task.finish()
    assert await asyncio.to_thread(lambda: read(target, f"A.{topic}", isolation="read_committed")) == wanted


def _until_it_copies(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["state"] == RUNNING:
            return
    raise AssertionError(f"the task ended with {process.wait()}")


# tests/e2e/test_exactly_once.py kills the whole product with the same boundaries.
@pytest.mark.long
async def test_killed_tasks_repeat_nothing_for_readers_of_committed_records(
    source: LocalCluster, target: LocalCluster, dice: Random, tmp_path: Path
) -> None:
    topic = mirrored_topic(source, target, 2)
    spec = exactly_once(spec_for(source, target, {topic: 2}))
    await killed_again_and_again(source, target, dice, spec, rounds=3)
    code, report = await asyncio.to_thread(verify, source, target, topic, "--strict")
    assert code == 0, report
    wanted = sorted(f"Partition:{r.partition}\t{(r.key or b'').decode()}" for r in read(source, topic))
    seen = await asyncio.to_thread(console_consumer, target, f"A.{topic}", len(wanted), tmp_path)
    assert [line.rpartition("\t")[0] for line in seen] == wanted


@pytest.mark.soak
async def test_killed_tasks_with_a_transaction_for_each_poll_repeat_nothing(
    source: LocalCluster, target: LocalCluster, dice: Random
) -> None:
    topic = mirrored_topic(source, target, 2)
    spec = exactly_once(spec_for(source, target, {topic: 2}), POLL)
    await killed_again_and_again(source, target, dice, spec, rounds=2)


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_fifty_kills_repeat_nothing_for_readers_of_committed_records(
    source: LocalCluster, target: LocalCluster, dice: Random
) -> None:
    topic = mirrored_topic(source, target, 2)
    spec = exactly_once(spec_for(source, target, {topic: 2}))
    await killed_again_and_again(source, target, dice, spec, rounds=50)


async def test_a_reader_of_committed_records_sees_nothing_before_its_position_is_there(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic = mirrored_topic(source, target)
    produce(source, topic, lines(1_000))
    spec = exactly_once(spec_for(source, target, {topic: 1}), interval_ms=3_000)
    async with running(spec, target) as task:
        async with asyncio.timeout(180):
            while len(await asyncio.to_thread(read, target, f"A.{topic}")) < 1_000:
                await asyncio.sleep(0.02)
        if not stored_offsets(target, spec.connector):
            assert read(target, f"A.{topic}", isolation="read_committed") == []
            assert task.link.counters.get("records", 0) == 0
        await task.copied(1_000)
        assert stored_offsets(target, spec.connector) == {(topic, 0): 999}
        assert read(target, f"A.{topic}", isolation="read_committed") == read(source, topic)
        await task.finish()
        assert task.link.committed


async def test_switching_exactly_once_on_and_off_goes_on_where_the_last_run_ended(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic = mirrored_topic(source, target)
    spec = spec_for(source, target, {topic: 1})
    for on in (False, True, False, True):
        produce(source, topic, lines(700))
        async with running(exactly_once(spec) if on else spec, target) as task:
            await task.copied(700)
            await task.finish()
            assert not [line for line in task.link.event_lines if "Somebody else" in line]
    assert read(target, f"A.{topic}", isolation="read_committed") == read(source, topic)


async def test_batches_larger_than_the_target_takes_are_split_in_the_transaction(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic = mirrored_topic(source, target)
    await asyncio.to_thread(set_config, target, f"A.{topic}", "max.message.bytes", "5000")
    produce(source, topic, lines(5_000))
    async with running(exactly_once(spec_for(source, target, {topic: 1})), target) as task:
        await task.copied(5_000)
        await task.finish()
    assert read(target, f"A.{topic}", isolation="read_committed") == read(source, topic)


@pytest.mark.soak
async def test_partitions_join_and_leave_a_task_with_transactions(source: LocalCluster, target: LocalCluster) -> None:
    first, second = mirrored_topic(source, target, 2), mirrored_topic(source, target, 2)
    for topic in (first, second):
        produce(source, topic, lines(1_000, 2))
    spec = exactly_once(spec_for(source, target, {first: 2}))
    async with running(spec, target) as task:
        await task.copied(1_000)
        task.assign({first: 1, second: 2})
        await task.copied(2_000)
        await task.until(lambda: task.link.assignment_version == 2)
        produce(source, first, lines(1_000, 2))
        await task.copied(2_500)
        task.assign({first: 2, second: 2})
        await task.copied(3_000)
        await task.finish()
    for topic in (first, second):
        assert read(target, f"A.{topic}", isolation="read_committed") == read(source, topic)


@pytest.mark.soak
async def test_a_second_run_fences_the_first_and_ends_its_transaction(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic = mirrored_topic(source, target)
    spec = exactly_once(spec_for(source, target, {topic: 1}), interval_ms=20_000)
    produce(source, topic, lines(1_000))
    async with running(spec, target) as first:
        async with asyncio.timeout(180):
            while not await asyncio.to_thread(read, target, f"A.{topic}"):
                first.check_running()
                await asyncio.sleep(0.02)
        async with running(exactly_once(spec), target) as second:
            await second.copied(1_000)
            await second.finish()
        produce(source, topic, lines(10))
        with pytest.raises(FencedError, match=spec.transactional_id):
            await first.copied(10_000)
    assert read(target, f"A.{topic}", isolation="read_committed") == read(source, topic)[:1_000]


@pytest.mark.mm2
@pytest.mark.long
async def test_a_java_worker_with_exactly_once_goes_on_after_a_kill_and_so_do_we(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic, name = mirrored_topic(source, target, 2), fresh_topic("swap")
    spec = replace(
        exactly_once(spec_for(source, target, {topic: 2}, connector=name)), transactional_id=f"{name}-{name}-0"
    )
    java = ConnectWorker(
        target,
        {"exactly.once.source.support": "enabled", "offset.storage.topic": OFFSETS_TOPIC},
        group=name,
        heap="512m",
    )
    config = {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": source.bootstrap_servers,
        "target.cluster.bootstrap.servers": target.bootstrap_servers,
        "topics": topic,
        "tasks.max": "1",
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "sync.topic.configs.enabled": "false",
    }
    for _ in range(2):
        produce(source, topic, lines(6_000, 2), **SMALL_BATCHES)
        with process_of(spec) as process:
            await asyncio.to_thread(_until_it_copies, process)
            await asyncio.sleep(0.3)
        before = await asyncio.to_thread(committed_records, target, topic)
        with java:
            assert java.request("PUT", f"/connectors/{name}/config", config)[0] in (200, 201)
            produce(source, topic, lines(6_000, 2), **SMALL_BATCHES)
            async with asyncio.timeout(180):
                while await asyncio.to_thread(committed_records, target, topic) == before:
                    await asyncio.sleep(0.1)
            java.kill()
    async with running(spec, target) as task:
        wanted = read(source, topic)
        async with asyncio.timeout(360):
            while await asyncio.to_thread(committed_records, target, topic) < len(wanted):
                task.check_running()
                await asyncio.sleep(0.2)
        await task.finish()
    assert read(target, f"A.{topic}", isolation="read_committed") == wanted


def committed_records(target: LocalCluster, topic: str) -> int:
    return len(read(target, f"A.{topic}", isolation="read_committed"))
