"""A target that takes batches of 150 kB, a source with batches of 900 kB, and six times kill -9 while all of it is copied.

Every batch of the source is split on its way, so what a kill finds are pieces: positions must not pass one that is missing.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import pytest
from confluent_kafka import Producer

from deploy.local import LocalCluster
from tests.e2e.kills import Survived, ended_by, kill, slow
from tests.e2e.product import TASK, Product, mirror_config
from tests.e2e.progress import Progress
from tests.e2e.reading import batches, values
from tests.e2e.rewinds import Rewind, rewinds
from tests.seeds import chance
from tests.waiting import wait_for

# In `make test` the models kill tasks whose batches are split, and test_identity_with_kills.py kills real ones.
pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.soak, pytest.mark.long]

NAME: Final = "small-limit"
TOPIC: Final = "small-limit-orders"
ALIAS: Final = "S"
COPY: Final = f"{ALIAS}.{TOPIC}"
RECORDS: Final = 300_000
PARTITIONS: Final = 2
VALUE_BYTES: Final = 300
LIMIT: Final = 150_000
LARGE: Final = 700_000
HEADER: Final = 61
KILLS: Final = 6
# Some batches a second: the last kill must still come while there is something to copy.
BYTES_PER_SECOND: Final = 4_000_000
FLOWS_S: Final = (0.7, 1.6)
SECOND: Final = 1.0


def fill(source: LocalCluster) -> None:
    """Batches of almost 900 kB: whole ones only, as the producer waits for them."""
    noise = chance(TOPIC)
    producer = Producer(
        {
            **source.librdkafka(),
            "batch.size": 900_000,
            "batch.num.messages": 100_000,
            "message.max.bytes": 1_000_000,
            "linger.ms": 5_000,
            "queue.buffering.max.kbytes": 200_000,
            "queue.buffering.max.messages": RECORDS,
        }
    )
    for number in range(RECORDS):
        value = b"%d %s" % (number // PARTITIONS, noise.randbytes(VALUE_BYTES - 10))
        producer.produce(TOPIC, value, partition=number % PARTITIONS)
    assert producer.flush(120) == 0


@pytest.fixture(scope="module")
def survived(source_cluster: LocalCluster, target_cluster: LocalCluster) -> Survived:
    source, target = source_cluster, target_cluster
    source.create_topic(TOPIC, PARTITIONS)
    target.create_topic(COPY, PARTITIONS, {"max.message.bytes": str(LIMIT)})
    fill(source)
    slow(source, ALIAS, NAME, BYTES_PER_SECOND)
    dice = chance(NAME)
    config = mirror_config(
        source,
        target,
        TOPIC,
        source_cluster_alias=ALIAS,
        # One answer must not use up the quota.
        consumer_fetch_max_bytes="1000000",
        # Topic configs follow the source: the limit would go.
        sync_topic_configs_enabled="false",
    )
    copies = [(COPY, partition) for partition in range(PARTITIONS)]
    with Product(target, group=NAME) as product, Progress(target, copies) as progress:
        product.put(NAME, config)
        kills = [kill(product, progress, (TASK,), dice.uniform(*FLOWS_S)) for _ in range(KILLS)]
        slow(source, ALIAS, NAME, None)

        def complete() -> bool:
            product.check_alive()
            return all(end >= RECORDS // PARTITIONS for end in progress.ends.values()) and progress.still(2.0)

        wait_for(complete, f"all {RECORDS} records have come", 90, arrived=lambda: progress.total)
    return Survived(source, target, progress, kills)


@pytest.fixture(scope="module")
def jumps(survived: Survived) -> dict[int, list[Rewind]]:
    """The jumps back of each partition; AssertionError where a record is missing, foreign or out of order."""
    was = values(survived.source, TOPIC, PARTITIONS)
    came = values(survived.target, COPY, PARTITIONS)
    return {partition: rewinds(was[partition], came[partition]) for partition in range(PARTITIONS)}


def test_the_sources_batches_are_larger_than_the_target_takes(survived: Survived) -> None:
    sizes = [HEADER + len(batch.records) for p in range(PARTITIONS) for batch in batches(survived.source, TOPIC, p)]
    assert sum(size > LARGE for size in sizes) > 50
    copied = [HEADER + len(batch.records) for p in range(PARTITIONS) for batch in batches(survived.target, COPY, p)]
    assert max(copied) <= LIMIT


def test_each_kill_came_while_records_were_copied(survived: Survived) -> None:
    come = [sum(each.come.values()) for each in survived.kills]
    assert come == sorted(set(come))
    assert all(min(each.come.values()) < RECORDS // PARTITIONS for each in survived.kills)


def test_every_record_is_there_in_order_and_comes_again_only_by_a_jump_back(jumps: dict[int, list[Rewind]]) -> None:
    assert jumps.keys() == set(range(PARTITIONS))
    assert max(map(len, jumps.values())) <= KILLS


def test_no_kill_repeats_what_was_there_a_second_before(
    survived: Survived, jumps: dict[int, list[Rewind]], capsys: pytest.CaptureFixture[str]
) -> None:
    ages, repeated = [0.0] * KILLS, [0] * KILLS
    writer_ended_by = ended_by(survived, [(COPY, partition) for partition in jumps])
    for partition, each in jumps.items():
        copy = COPY, partition
        for jump in each:
            cause = writer_ended_by(copy, jump.at - 1)
            first = survived.progress.written(copy, jump.at - jump.repeated)
            ages[cause] = max(ages[cause], survived.kills[cause].when - first)
            repeated[cause] += jump.repeated
    with capsys.disabled():
        told = [f"{count}, {age:.1f} s old at most" for count, age in zip(repeated, ages, strict=True)]
        print(f" [repeated after each kill: {'; '.join(told)}]", end="")
    stalls = [max(0.0, survived.progress.stalled(kill.when, 2 * SECOND)) for kill in survived.kills]
    assert [age for age, stall in zip(ages, stalls, strict=True) if age > SECOND + stall] == [], (ages, stalls)
    assert all(earlier.when < later.when for earlier, later in pairwise(survived.kills))
