"""`mirror-connect verify` where one log no longer has, or never shows, what the other one has."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec

from deploy.local import LocalCluster
from tests.brokers import delete_before, led
from tests.integration.mirror_rig import produce
from tests.integration.verify_link import NOW, both, command, some, verify
from tests.waiting import PATIENCE_S, wait_for_state

pytestmark = pytest.mark.brokers


@pytest.fixture(scope="module")
def target() -> Iterator[LocalCluster]:
    quick_cleaner = {"log.cleaner.backoff.ms": "100", "log.cleaner.min.compaction.lag.ms": "0"}
    with LocalCluster("verify-target", properties=quick_cleaner) as cluster:
        yield cluster


def test_aborted_transactions_of_the_source_are_left_out(
    one_broker: LocalCluster, target: LocalCluster, tmp_path: Path
) -> None:
    topic = both(one_broker, target)
    producer = Producer({**one_broker.librdkafka(), "transactional.id": topic})
    producer.init_transactions(60)
    for number in range(6):
        producer.begin_transaction()
        for record in some(50, 50 * number):
            producer.produce(topic, **record)
        producer.flush(60)  # an abort would throw away what hasn't left yet
        if number % 2:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
    everything_ends(one_broker, topic, 306)
    committed = [record for number in (0, 2, 4) for record in some(50, 50 * number)]
    produce(target, f"A.{topic}", committed)
    reading = tmp_path / "source.properties"
    given = one_broker.write_client_properties().read_text("utf-8")
    reading.write_text(f"{given}\nisolation.level=read_committed\n", "utf-8")
    code, report = verify(one_broker, target, topic, "--source", str(reading))
    assert (code, report["partitions"][0]["equal"]) == (0, 150)
    # Read uncommitted, the aborted ones are at the source and not on the target.
    assert verify(one_broker, target, topic)[1]["partitions"][0]["faults"]["missing"] == 150


def everything_ends(cluster: LocalCluster, topic: str, end: int) -> None:
    """Waits for the last marker: the coordinator writes it after the producer has had its answer."""
    place = TopicPartition(topic, 0)

    def ends() -> bool:
        asked = cluster.admin().list_offsets(
            {place: OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_COMMITTED
        )
        found = led(asked[place])
        return found is not None and found.offset >= end

    wait_for_state(ends, f"{topic} is committed up to {end}", pause=0.05)


@pytest.mark.long
def test_what_the_targets_compaction_took_is_not_missing(one_broker: LocalCluster, target: LocalCluster) -> None:
    compacted = {
        "cleanup.policy": "compact",
        "segment.ms": "200",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "200",
    }
    topic = both(one_broker, target, **compacted)
    records = [{**record, "key": b"key %d" % (number % 50)} for number, record in enumerate(some(1000))]
    produce(one_broker, topic, records)
    produce(target, f"A.{topic}", records)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        # The active segment is never compacted: a record of a later time makes it an old one.
        later = {**some(1)[0], "key": b"later", "timestamp": int(time.time() * 1000)}
        for cluster, name in ((one_broker, topic), (target, f"A.{topic}")):
            produce(cluster, name, [later])
        code, report = verify(one_broker, target, topic)
        assert code == 0, report
        if report["partitions"][0]["gone_from_target"] >= 900 or time.monotonic() > deadline:
            break
    assert report["partitions"][0]["gone_from_target"] >= 900
    assert report["partitions"][0]["equal"] >= 50


def test_what_the_sources_retention_took_is_not_foreign(one_broker: LocalCluster, target: LocalCluster) -> None:
    topic = both(one_broker, target)
    produce(one_broker, topic, some(500))
    produce(target, f"A.{topic}", some(500))
    delete_before(one_broker, topic, 321)
    code, report = verify(one_broker, target, topic)
    found = report["partitions"][0]
    assert (code, found["equal"], found["before_source_start"]) == (0, 179, 321)


def test_what_was_copied_of_records_that_the_source_has_no_longer_is_not_called_equal(
    one_broker: LocalCluster, target: LocalCluster
) -> None:
    topic = both(one_broker, target)
    produce(one_broker, topic, some(202))
    # 89 records were gone before they were copied.
    produce(target, f"A.{topic}", some(101) + some(12, 190))
    delete_before(one_broker, topic, 190)
    told = (
        "not comparable: 101 target records from source offsets below 190, where the source's log now begins; "
        "at least 89 of those source offsets were never copied or held no record"
    )
    code, report = verify(one_broker, target, topic)
    (found,) = report["partitions"]
    assert (code, found["equal"], found["gone_from_source"], found["before_source_start"]) == (0, 12, 101, 101)
    assert found["notes"] == [told]
    lines = command(one_broker, target, topic).stdout.splitlines()
    assert f"{topic}-0: {told}" in lines
    assert lines[-1].startswith(
        "The copy is equal to its source as far as both sides still have it: 101 target records "
    )
    # Of what was asked for nothing is gone.
    code, report = verify(one_broker, target, topic, "--from", str(NOW + 195))
    (found,) = report["partitions"]
    assert (code, found["equal"], found["gone_from_source"], found["notes"]) == (0, 7, 0, [])


def test_a_topic_that_two_links_copy_to_the_same_place_is_not_just_called_equal(
    one_broker: LocalCluster, target: LocalCluster
) -> None:
    topic = both(one_broker, target)
    produce(one_broker, topic, some(50))
    for _ in range(2):
        produce(target, f"A.{topic}", some(50), **{"enable.idempotence": True})
    done = command(one_broker, target, topic)
    assert done.returncode == 0
    assert "The copy is equal to its source: 50 duplicates on the target (too many for a restart: " in done.stdout


@pytest.mark.long
def test_what_the_targets_retention_took_is_not_missing(one_broker: LocalCluster, target: LocalCluster) -> None:
    topic = both(one_broker, target)
    produce(one_broker, topic, some(500))
    produce(target, f"A.{topic}", some(500))
    delete_before(target, f"A.{topic}", 321)
    code, report = verify(one_broker, target, topic)
    found = report["partitions"][0]
    assert (code, found["equal"], found["gone_from_target"], found["before_target_start"]) == (0, 179, 321, 321)
