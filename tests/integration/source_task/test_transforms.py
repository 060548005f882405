"""Transformations between two real clusters: the copies are those of MirrorMaker 2 with the same settings, in Java."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from deploy.local import LocalCluster
from deploy.local.connect import ConnectWorker
from mirror_connect.connectors.mirror.routed_policy import routed_policy
from tests.fakes.source_spec import WITHOUT_SYNCS
from tests.integration.mirror_rig import produce, read, running, spec_for, stored_offsets
from tests.integration.source_task.copied_topics import BEGUN, mirrored_topic

pytestmark = pytest.mark.brokers

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
# Records with a secret go. The topic gets another name, so a filter for the former one takes nothing. Those with a value
# lose their mark. What is still marked goes: tombstones.
CHAIN = {
    "transforms": "quiet,sales,never,marks,twice",
    "transforms.quiet.type": "org.apache.kafka.connect.transforms.Filter",
    "transforms.quiet.predicate": "secret",
    "transforms.sales.type": "org.apache.kafka.connect.transforms.RegexRouter",
    # Its first alternative is what Java replaces, although the whole name needs the second one.
    "transforms.sales.regex": r"(?<link>[AJ])\.|([AJ])\.(t-.*)",
    "transforms.sales.replacement": "sales-${link}\\-",
    "transforms.sales.predicate": "copies",
    "transforms.never.type": "Filter",
    "transforms.never.predicate": "elsewhere",
    "transforms.marks.type": "DropHeaders",
    "transforms.marks.headers": "mark, größe",
    "transforms.marks.predicate": "gone",
    "transforms.marks.negate": "true",
    "transforms.twice.type": "Filter",
    "transforms.twice.predicate": "marked",
    "predicates": "secret,gone,marked,elsewhere,copies",
    "predicates.secret.type": "HasHeaderKey",
    "predicates.secret.name": "secret",
    "predicates.gone.type": "RecordIsTombstone",
    "predicates.marked.type": "HasHeaderKey",
    "predicates.marked.name": "mark",
    "predicates.elsewhere.type": "TopicNameMatches",
    "predicates.elsewhere.pattern": r"[AJ]\..*|t-.*",
    "predicates.copies.type": "TopicNameMatches",
    "predicates.copies.pattern": r".\.t-.*",
}


def records(count: int, partitions: int) -> list[dict[str, object]]:
    chance = random.Random(7)
    headers = [("mark", b"1"), ("größe", b"\xff\x00"), ("none", None), ("secret", b""), ("mark", b"2")]
    return [
        {
            "key": chance.choice([None, b"", b"%d" % number]),
            "value": chance.choice([None, b"", b"value %d" % number * chance.randint(1, 30)]),
            "headers": chance.sample(headers, chance.choice([0, 0, 1, 2, 3])),
            "partition": number % partitions,
            "timestamp": BEGUN + number,
        }
        for number in range(count)
    ]


@pytest.mark.mm2
# With the times of the broker Java starts once more; test_append_time.py has those.
@pytest.mark.parametrize("stamped", ["CreateTime", pytest.param("LogAppendTime", marks=pytest.mark.long)])
async def test_copies_are_those_of_mirrormaker_with_the_same_chain(
    source: LocalCluster, target: LocalCluster, stamped: str
) -> None:
    topic = mirrored_topic(source, target, 2, message_timestamp_type=stamped)
    for codec, size in (("none", 200), ("lz4", 200), ("zstd", 1)):
        produce(source, topic, records(3_000, 2), **{"compression.type": codec, "batch.num.messages": size})
    ours_in, javas_in = (f"sales-{alias}-{topic}" for alias in ("A", "J"))
    for remote in (ours_in, javas_in):
        target.create_topic(remote, 2)
    spec = spec_for(source, target, {topic: 2}, config={**WITHOUT_SYNCS, **CHAIN})
    assert routed_policy(spec.config).remote_topic("A", topic) == ours_in
    routed = tuple(replace(each, remote_topic=ours_in, named=each.remote_topic) for each in spec.assigned)
    spec = replace(spec, assigned=routed)
    ends = {(topic, partition): 4_499 for partition in range(2)}
    async with running(spec, target) as task:
        async with asyncio.timeout(180):
            while await asyncio.to_thread(stored_offsets, target, spec.connector) != ends:
                task.check_running()
                await asyncio.sleep(0.2)
        await task.finish()
    ours = read(target, ours_in)
    assert 0 < len(ours) < 9_000
    assert read(target, f"A.{topic}") == []

    config = {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": "J",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": source.bootstrap_servers,
        "target.cluster.bootstrap.servers": target.bootstrap_servers,
        "topics": topic,
        "replication.factor": "1",
        "config.properties.exclude": "message.timestamp.type",
        **WITHOUT_SYNCS,
        **dict.fromkeys(("key.converter", "value.converter", "header.converter"), BYTES),
        **CHAIN,
    }
    with ConnectWorker(target, group=spec.connector, heap="512m") as java:
        assert java.request("PUT", "/connectors/java/config", config)[0] == 201
        async with asyncio.timeout(360):
            while len(await asyncio.to_thread(read, target, javas_in)) < len(ours):
                await asyncio.sleep(0.5)
        # More than ours would come after it.
        offsets = {"offset": 4_499}
        async with asyncio.timeout(180):
            while [each["offset"] for each in java.request("GET", "/connectors/java/offsets")[1]["offsets"]] != [
                offsets,
                offsets,
            ]:
                await asyncio.sleep(0.5)
    assert read(target, javas_in) == ours


async def test_a_header_is_inserted_and_a_task_that_starts_again_repeats_nothing(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic = mirrored_topic(source, target)
    inserted = {
        "transforms": "from",
        "transforms.from.type": "InsertHeader",
        "transforms.from.header": "from",
        "transforms.from.value.literal": "A",
    }
    spec = spec_for(source, target, {topic: 1}, config={**WITHOUT_SYNCS, **inserted})
    for _ in range(2):
        produce(source, topic, records(1_000, 1))
        async with running(spec, target) as task:
            await task.copied(1_000)
            await task.finish()
    assert read(target, f"A.{topic}") == [
        each._replace(headers=(*each.headers, ("from", b"A"))) for each in read(source, topic)
    ]
