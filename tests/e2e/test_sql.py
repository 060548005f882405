"""Records that Spark filters and masks on their way, while its two Python processes are killed at random."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from deploy.local import LocalCluster
from tests.e2e.ends import end_offsets
from tests.e2e.product import Product, mirror_config
from tests.e2e.reading import last_value
from tests.e2e.short_epochs import on_executors, short_epochs
from tests.e2e.sql_processes import kill_some
from tests.seeds import chance
from tests.waiting import wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.soak, pytest.mark.long]

PARTITIONS: Final = 3
SALT: Final = "pepper-and-salt"
SQL: Final = (
    "SELECT named_struct('id', value.id, 'country', value.country, "
    "'email', sha2(concat(secrets.SALT, value.email), 256), 'note', value.note) AS value "
    "FROM records WHERE value.country = 'EU'"
)
CONFIG: Final = {
    "spark.transform.sql": SQL,
    "spark.transform.value.schema": "id BIGINT, country STRING, email STRING, note STRING",
    "spark.transform.secret.SALT": SALT,
}

EPOCH_S: Final = 4.0
EPOCHS: Final = 6
# In the worker's log: on a Spark cluster, what an executor says of an epoch's end is not there.
EPOCH_BEGAN: Final = "a process has asked for its spec"


class Link:
    """JSON records at the source, and what of them is on the target."""

    def __init__(self, source: LocalCluster, target: LocalCluster, topic: str) -> None:
        self.source, self.target, self.topic = source, target, topic
        self.remote = f"A.{topic}"
        self.counts = dict.fromkeys(range(PARTITIONS), 0)
        source.create_topic(topic, PARTITIONS)
        self._producer = Producer({**source.librdkafka(), "linger.ms": 5, "enable.idempotence": True})

    def write(self, count: int) -> None:
        """So many records more in each partition."""
        for _ in range(count):
            for partition, number in self.counts.items():
                value = {
                    "id": number,
                    "country": ("EU", "US")[number % 2],
                    "email": f"u{number}@example.org",
                    "note": "x" * 80,
                }
                self._producer.produce(self.topic, json.dumps(value), b"%d" % number, partition=partition)
                self.counts[partition] = number + 1
            self._producer.poll(0)
        assert self._producer.flush(120) == 0

    def copied(self) -> int:
        with contextlib.suppress(Exception):
            return sum(end_offsets(self.target, self.remote).values())
        return 0

    def wait_all(self) -> None:
        """Until the last kept record of each partition is there. How many there are says less: some may come twice."""

        def complete() -> bool:
            return all(self.last(partition) == (count - 1) // 2 * 2 for partition, count in self.counts.items())

        wait_for(complete, f"the last of {self.counts} are copied", 180, arrived=self.copied)

    def last(self, partition: int) -> int | None:
        """The number of the last record on the target."""
        value = last_value(self.target, self.remote, partition)
        return None if value is None else int(json.loads(value)["id"])

    def check(self) -> int:
        """All kept records are there, masked and in order; the number of repetitions."""
        repeated = 0
        for partition, numbers in self.read().items():
            wanted = list(range(0, self.counts[partition], 2))
            assert sorted(set(numbers)) == wanted
            for before, after in itertools.pairwise(numbers):
                assert after == before + 2 or after <= before, f"{after} follows {before}"
            repeated += len(numbers) - len(wanted)
        return repeated

    def read(self) -> dict[int, list[int]]:
        """The numbers on the target, after a look at each record."""
        ends = end_offsets(self.target, self.remote)
        consumer = Consumer(
            {**self.target.librdkafka(), "group.id": "sql", "enable.auto.commit": False, "enable.partition.eof": True}
        )
        consumer.assign([TopicPartition(self.remote, partition, 0) for partition in ends])
        found: dict[int, list[int]] = {partition: [] for partition in ends}
        left = {partition for partition, end in ends.items() if end}
        until = time.monotonic() + 180
        while left:
            assert time.monotonic() < until
            for message in consumer.consume(1000, 1.0):
                error, partition = message.error(), message.partition()
                assert partition is not None
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF
                    left.discard(partition)
                    continue
                value = json.loads(message.value() or b"")
                number = value["id"]
                assert message.key() == b"%d" % number
                masked = hashlib.sha256(f"{SALT}u{number}@example.org".encode()).hexdigest()
                assert value == {"id": number, "country": "EU", "email": masked, "note": "x" * 80}
                found[partition].append(number)
        consumer.close()
        return found


@pytest.fixture
def link(source_cluster: LocalCluster, target_cluster: LocalCluster, product: Product) -> Iterator[Link]:
    topic = f"sql-{time.time_ns()}"
    made = Link(source_cluster, target_cluster, topic)
    made.write(200)
    product.put(topic, {**mirror_config(source_cluster, target_cluster, topic), **CONFIG})
    product.wait_running(topic)
    yield made
    product.delete(topic)


def test_records_are_filtered_and_masked_and_no_secret_is_told(link: Link, product: Product) -> None:
    link.wait_all()
    assert link.check() == 0
    assert SALT not in product.log_file.read_text()


@pytest.mark.parametrize("rounds", [3, 30])
def test_killed_processes_lose_nothing_and_keep_the_order(rounds: int, link: Link, product: Product) -> None:
    random: Random = chance("sql")
    link.wait_all()
    for turn in range(rounds):
        link.write(random.randint(100, 2_000))
        time.sleep(random.random())
        if turn and turn % 10 == 0:
            # After twelve deaths a task is FAILED.
            product.call("POST", f"{product.connector_path(link.topic)}/tasks/0/restart")
            product.wait_running(link.topic)
        kill_some(product, random)
        link.write(50)
        link.wait_all()
    repeated = link.check()
    # At each kill what was acknowledged since the last commit, and no more.
    assert repeated < rounds * 3 * 2_050


def test_epochs_repeat_nothing_and_a_worker_that_is_stopped_loses_nothing(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    topic = "sql-epochs"
    made = Link(source_cluster, target_cluster, topic)
    environment = {**short_epochs(tmp_path, EPOCH_S), "MIRROR_CONNECT_LOG_LEVEL": "DEBUG"}
    properties = on_executors(environment)
    with Product(target_cluster, group=topic, properties=properties, environment=environment) as product:
        product.put(topic, {**mirror_config(source_cluster, target_cluster, topic), **CONFIG})
        product.wait_running(topic)
        began, turns = time.monotonic(), 0
        while time.monotonic() - began < EPOCHS * EPOCH_S or product.log_text().count(EPOCH_BEGAN) <= EPOCHS:
            made.write(500)
            time.sleep(0.1)
            turns += 1
            assert turns < 3_000
        made.wait_all()
        assert made.check() == 0
        # Under load, so that rows are on their way through Spark. A slow machine may not commit all of them in time.
        for _ in range(20):
            made.write(100)
        assert product.stop() == 0
        before = len(product.log_text())
        product.start()
        made.write(10)
        made.wait_all()
        assert made.check() <= 20 * 100 * PARTITIONS
        if not properties:
            said = product.log_text()[before:]
            assert said.index("Spark for statements is starting") < said.index("This worker runs")
