"""Dead letters between real clusters, with a task that is killed by SIGKILL again and again: none is lost, none is changed.

With exactly-once a reader of committed records sees each of them once. The model has what happens in between.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest

from deploy.local import LocalCluster
from mirror_connect.connectors.task_protocol import POLL, TaskSpec
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from tests.fakes.source_spec import WITHOUT_SYNCS
from tests.integration.mirror_rig import Record, fresh_topic, produce, read, running, spec_for, stored_offsets
from tests.integration.source_task.copied_topics import BEGUN, mirrored_topic
from tests.integration.source_task.test_exactly_once import SMALL_BATCHES, _until_it_copies, exactly_once, process_of

pytestmark = [pytest.mark.brokers, pytest.mark.soak, pytest.mark.long]

CONFIG = {
    **WITHOUT_SYNCS,
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "transforms": "seen,mask",
    "transforms.seen.type": "org.apache.kafka.connect.transforms.InsertHeader",
    "transforms.seen.header": "seen",
    "transforms.seen.value.literal": "1",
    "transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Value",
    "transforms.mask.fields": "card",
    "errors.tolerance": "all",
    "errors.deadletterqueue.context.headers.enable": "true",
}
PARTITIONS = 2


def letters_spec(source: LocalCluster, target: LocalCluster, topic: str, letters: str) -> TaskSpec:
    config = {**CONFIG, "errors.deadletterqueue.topic.name": letters}
    return spec_for(source, target, {topic: PARTITIONS}, config=config)


def some(count: int, first: int = 0) -> list[Mapping[str, object]]:
    """One of seven is no JSON."""
    return [
        {
            "key": b"%d" % number,
            "value": b'{"card": ' if number % 7 == 3 else b'{"card":"4111","n":%d}' % number,
            "headers": [("h", b"%d" % number), ("h", None)],
            "partition": number % PARTITIONS,
            "timestamp": BEGUN + number,
        }
        for number in range(first, first + count)
    ]


def is_bad(record: Record) -> bool:
    return record.value == b'{"card": '


def originals(letters: list[Record]) -> list[tuple[int, Record]]:
    """The source offset and the source's record of each letter, by its context headers."""
    found = []
    for each in letters:
        told = dict(each.headers[2:])
        partition = int(told["__connect.errors.partition"] or b"")
        found.append(
            (int(told["__connect.errors.offset"] or b""), each._replace(partition=partition, headers=each.headers[:2]))
        )
    return found


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("mode", ["at_least_once", "exactly_once", "exactly_once_by_polls"])
async def test_a_killed_task_loses_and_changes_no_dead_letter(
    source: LocalCluster, target: LocalCluster, dice: Random, mode: str
) -> None:
    topic, letters = mirrored_topic(source, target, PARTITIONS), fresh_topic("letters")
    target.create_topic(letters, 1)
    spec = letters_spec(source, target, topic, letters)
    once = mode != "at_least_once"
    if once:
        spec = exactly_once(spec, *([POLL] if mode.endswith("polls") else []))
    for number in range(5):
        records = some(6_000, 6_000 * number)
        producing = asyncio.create_task(asyncio.to_thread(produce, source, topic, records, **SMALL_BATCHES))
        with process_of(spec) as process:
            await asyncio.to_thread(_until_it_copies, process)
            await asyncio.sleep(dice.random() * 0.6)
        await producing
    wanted = await asyncio.to_thread(read, source, topic)
    ends = {(topic, p): sum(record.partition == p for record in wanted) - 1 for p in range(PARTITIONS)}
    async with running(spec, target) as task:
        async with asyncio.timeout(180):
            while await asyncio.to_thread(stored_offsets, target, spec.connector) != ends:
                task.check_running()
                await asyncio.sleep(0.2)
        await task.finish()
    isolation = "read_committed" if once else "read_uncommitted"
    copied = await asyncio.to_thread(lambda: read(target, f"A.{topic}", isolation=isolation))
    found = originals(await asyncio.to_thread(lambda: read(target, letters, isolation=isolation)))
    good = [each.key for each in wanted if not is_bad(each)]
    bad = [each for each in wanted if is_bad(each)]
    assert len(bad) == sum(number % 7 == 3 for number in range(30_000))
    # Nothing that a step has changed is in a letter: neither the header that the first one inserts, nor anything else.
    assert Counter(each for _, each in found).keys() == Counter(bad).keys()
    for partition in range(PARTITIONS):
        offsets = [number for number, each in enumerate(w for w in wanted if w.partition == partition) if is_bad(each)]
        told = [offset for offset, each in found if each.partition == partition]
        assert sorted(set(told)) == offsets
        if once:
            assert told == offsets
    assert all(each.value is not None and b'"4111"' not in each.value for each in copied)
    if once:
        assert [each.key for each in copied] == good
    else:
        assert {each.key for each in copied} == set(good)


async def test_a_letter_that_is_too_large_fails_the_task_until_the_topic_takes_it(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic, letters = mirrored_topic(source, target, PARTITIONS), fresh_topic("letters")
    target.create_topic(letters, 1, {"max.message.bytes": "2000"})
    produce(source, topic, [*some(10), {"key": b"large", "value": b"x" * 5_000, "partition": 0}, *some(10, 10)])
    spec = letters_spec(source, target, topic, letters)
    async with running(spec, target) as task, asyncio.timeout(180):
        with pytest.raises(
            PartitionRefusedError, match=rf"{topic}, partition 0, offset 5: .*max.message.bytes of topic"
        ):
            await task.task
    assert stored_offsets(target, spec.connector).get((topic, 0), -1) < 5
    raised = replace(spec, config={**spec.config, "errors.deadletterqueue.topic.name": f"{letters}-large"})
    target.create_topic(f"{letters}-large", 1)
    async with running(raised, target) as task:
        await task.until(lambda: stored_offsets(target, spec.connector).get((topic, 0)) == 10)
        await task.finish()
    keys = [each.key for each in read(target, f"{letters}-large")]
    assert b"large" in keys
