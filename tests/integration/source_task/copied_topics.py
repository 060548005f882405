"""What tests of the source task produce and how they compare it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from pathlib import Path
from random import Random

from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from deploy.local import LocalCluster
from tests.integration.mirror_rig import (
    Record,
    fresh_topic,
    read,
)
from tests.waiting import state_reached

# Recent times: retention deletes older records, and a broker that restarts forgets a producer whose last *record* is older
# than producer.id.expiration.ms, so it can't tell a repetition then.
BEGUN = int(time.time() * 1000) - 600_000


DELETE_HORIZON = 0x40


SET = AlterConfigOpType.SET


QUICK_CLEANER = {"log.cleaner.backoff.ms": "200", "log.cleaner.min.compaction.lag.ms": "0"}


def mirrored_topic(source: LocalCluster, target: LocalCluster, partitions: int = 1, **config: str) -> str:
    """A topic on both sides; the configuration is the source's."""
    topic = fresh_topic()
    source.create_topic(topic, partitions, {name.replace("_", "."): value for name, value in config.items()})
    target.create_topic(f"A.{topic}", partitions)
    return topic


def lines(count: int, partitions: int = 1) -> list[dict[str, object]]:
    """Records of real text: lines of the standard library's sources, over and over."""
    text = Path(json.__file__).read_bytes().splitlines() + Path(subprocess.__file__).read_bytes().splitlines()
    return [
        {
            "key": b"%d" % number,
            "value": text[number % len(text)],
            "partition": number % partitions,
            "timestamp": BEGUN + number,
        }
        for number in range(count)
    ]


def set_config(cluster: LocalCluster, topic: str, name: str, value: str) -> None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=SET))
    for altered in cluster.admin().incremental_alter_configs([resource]).values():
        altered.result(180)


ODD: list[dict[str, object]] = [
    {"key": None, "value": b"no key"},
    {"key": b"tombstone", "value": None},
    {"key": b"", "value": b""},
    {"key": b"headers", "value": b"x", "headers": [("a", b"1"), ("a", b"2"), ("none", None), ("umläut", b"")]},
    {"key": b"big", "value": bytes(range(256)) * 3_600},
    {"key": None, "value": None},
]


async def no_longer_compacted(source: LocalCluster, topic: str) -> list[Record]:
    """What is left of a topic that the cleaner has seen for the last time."""
    set_config(source, topic, "min.compaction.lag.ms", str(2**63 - 1))
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)

    def kept() -> bool:
        told = source.admin().describe_configs([resource])[resource].result(180)
        return told["min.compaction.lag.ms"].value == str(2**63 - 1)

    await state_reached(kept, f"{topic} is compacted no longer", in_thread=True)
    # A round that has begun goes on to its end.
    before, present = None, await asyncio.to_thread(read, source, topic)
    async with asyncio.timeout(180):
        while before != present:
            await asyncio.sleep(1)
            before, present = present, await asyncio.to_thread(read, source, topic)
    return present


def transactions(source: LocalCluster, topic: str) -> None:
    """Committed, aborted, committed: 300 records each, in one partition."""
    producer = Producer({**source.librdkafka(), "transactional.id": f"tx-{topic}"})
    producer.init_transactions()
    for name, commit in ((b"first", True), (b"aborted", False), (b"second", True)):
        producer.begin_transaction()
        for number in range(300):
            producer.produce(topic, key=name, value=b"%d" % number)
        producer.flush()
        producer.commit_transaction() if commit else producer.abort_transaction()


def without_repetitions(records: list[Record]) -> list[Record]:
    """First occurrences only, in their order; keys are unique in the source."""
    first: dict[tuple[int, bytes | None], Record] = {}
    for record in records:
        first.setdefault((record.partition, record.key), record)
    return list(first.values())


def large_records(count: int, partitions: int, dice: Random) -> list[dict[str, object]]:
    """Of 20 kB that no codec makes smaller, dealt to the partitions in turn."""
    return [
        {
            "key": b"%d" % number,
            "value": dice.randbytes(20_000),
            "partition": number % partitions,
            "timestamp": BEGUN + number,
        }
        for number in range(count)
    ]
