"""`mirror-connect verify` against two real clusters: a true copy, copies with one fault each, logs that brokers changed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.local import LocalCluster
from mirror_connect.kafka_io.records.record_batch import HEADER_SIZE
from tests.brokers import FULL_BATCHES
from tests.fakes.encoded_batches import with_records
from tests.fakes.worker_rest import worker_that_answers
from tests.integration.mirror_rig import OFFSETS_PARTITIONS, OFFSETS_TOPIC, fresh_topic, produce, running, spec_for
from tests.integration.verify_link import Records, both, command, some, verify

pytestmark = pytest.mark.brokers


@pytest.fixture(scope="module")
def target() -> Iterator[LocalCluster]:
    quick_cleaner = {"log.cleaner.backoff.ms": "100", "log.cleaner.min.compaction.lag.ms": "0"}
    with LocalCluster("verify-target", properties=quick_cleaner) as cluster:
        yield cluster


async def test_a_copy_by_the_source_task_is_equal(one_broker: LocalCluster, target: LocalCluster) -> None:
    topic = both(one_broker, target, partitions=2)
    records = [{**record, "partition": number % 2} for number, record in enumerate(some(4000))]
    produce(one_broker, topic, records, **{"compression.type": "lz4", "linger.ms": 20})
    async with running(spec_for(one_broker, target, {topic: 2})) as task:
        await task.copied(4000)
        await task.finish()
    code, report = verify(one_broker, target, topic)
    assert (code, report["outcome"]) == (0, "equal")
    assert sum(each["equal"] for each in report["partitions"]) == 4000


FAULTS: dict[str, Callable[[Records], Records]] = {
    "missing": lambda records: records[:700] + records[701:],
    "doubled": lambda records: records[:701] + records[700:],
    "reordered": lambda records: [*records[:700], *records[701:720], records[700], *records[720:]],
    "changed": lambda records: [
        *records[:700],
        {**records[700], "value": flipped(records[700]["value"])},
        *records[701:],
    ],
    "foreign": lambda records: [*records[:700], {"value": b"stranger", "partition": 0}, *records[700:]],
}


def flipped(value: bytes) -> bytes:
    return value[:33] + bytes([value[33] ^ 1]) + value[34:]


# Each starts the command; test_verify_rests_on_nobody.py finds the others in its own process.
FEW = ("missing", "changed")


@pytest.mark.parametrize(
    "kind", [kind if kind in FEW else pytest.param(kind, marks=pytest.mark.long) for kind in FAULTS]
)
def test_one_wrong_record_is_found_where_it_is(one_broker: LocalCluster, target: LocalCluster, kind: str) -> None:
    topic = both(one_broker, target)
    records = some(1000)
    produce(one_broker, topic, records, **{"compression.type": "lz4"})
    # Idempotent: one producer, whose id the batches carry, wrote it all.
    produce(target, f"A.{topic}", FAULTS[kind](records), **{"compression.type": "zstd", "enable.idempotence": True})
    code, report = verify(one_broker, target, topic)
    (partition,) = report["partitions"]
    (fault,) = partition["listed"]
    assert (code, fault["kind"], fault["records"]) == (1, kind, 1)
    assert fault["source_offsets"] == (None if kind == "foreign" else [700, 700])
    where = {"missing": None, "doubled": [701, 701], "reordered": [719, 719]}.get(kind, [700, 700])
    assert fault["target_offsets"] == where


@pytest.mark.long
def test_repeats_behind_a_restart_are_differences_for_the_strict_only(
    one_broker: LocalCluster, target: LocalCluster
) -> None:
    topic = both(one_broker, target)
    records = some(1000)
    produce(one_broker, topic, records)
    for part in (records[:700], records[650:]):
        produce(target, f"A.{topic}", part, **{"enable.idempotence": True})
    for more, code in (((), 0), (("--strict",), 1)):
        ended, report = verify(one_broker, target, topic, *more)
        (partition,) = report["partitions"]
        assert (ended, partition["equal"], partition["repeated"], partition["listed"]) == (code, 1000, 50, [])
    done = command(one_broker, target, topic, "--strict")
    assert "duplicates alone, which --strict counts as faults: 50 duplicates on the target" in done.stdout


@pytest.mark.long
def test_what_was_skipped_and_copied_later_is_out_of_order_and_not_missing(
    one_broker: LocalCluster, target: LocalCluster
) -> None:
    topic = both(one_broker, target)
    records = some(300)
    produce(one_broker, topic, records)
    # The position is set forward, and later the positions are deleted.
    for part in (records[:100], records[200:], records):
        produce(target, f"A.{topic}", part, **{"enable.idempotence": True})
    code, report = verify(one_broker, target, topic)
    (partition,) = report["partitions"]
    (fault,) = partition["listed"]
    assert (code, partition["equal"], partition["repeated"], partition["faults"]["missing"]) == (1, 200, 200, 0)
    assert (fault["kind"], fault["records"]) == ("reordered", 100)
    assert (fault["source_offsets"], fault["target_offsets"]) == ([100, 199], [300, 399])


def test_the_line_for_people_names_the_byte(one_broker: LocalCluster, target: LocalCluster) -> None:
    topic = both(one_broker, target)
    produce(one_broker, topic, some(1000))
    produce(target, f"A.{topic}", FAULTS["changed"](some(1000)))
    done = command(one_broker, target, topic)
    size = len(some(1000)[700]["value"])
    told = f"changed, source offset 700, target offset 700: value differs in 1 of {size} bytes, the first is byte 33"
    assert f"{topic}-0: {told}" in done.stdout


def test_a_topic_that_is_not_on_the_target_is_a_difference(one_broker: LocalCluster, target: LocalCluster) -> None:
    topic = fresh_topic("verify")
    one_broker.create_topic(topic)
    produce(one_broker, topic, some(10))
    code, report = verify(one_broker, target, topic)
    assert (code, report["partitions"][0]["faults"]["missing"]) == (1, 10)


def test_no_topic_to_compare_is_no_success(one_broker: LocalCluster, target: LocalCluster) -> None:
    done = command(one_broker, target, "there-is-no-such-topic")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "has no topic that this link copies" in done.stderr


async def test_a_link_that_lags_is_compared_up_to_its_position(one_broker: LocalCluster, target: LocalCluster) -> None:
    topic = both(one_broker, target)
    if OFFSETS_TOPIC not in target.admin().list_topics(timeout=60).topics:
        target.create_topic(OFFSETS_TOPIC, OFFSETS_PARTITIONS, config={"cleanup.policy": "compact"})
    produce(one_broker, topic, some(300))
    spec = spec_for(one_broker, target, {topic: 1})
    async with running(spec, target) as task:
        await task.copied(300)
        await task.finish()
    produce(one_broker, topic, some(50, 300))
    code, report = verify(one_broker, target, topic, "--offsets-topic", OFFSETS_TOPIC)
    (found,) = report["partitions"]
    assert (code, found["equal"], found["not_copied_yet_offsets"]) == (0, 300, 50)
    # A link that catches up copies more between the look at its positions and the one at the target's ends.
    produce(target, f"A.{topic}", some(20, 300))
    code, report = verify(one_broker, target, topic, "--offsets-topic", OFFSETS_TOPIC)
    (found,) = report["partitions"]
    assert (code, found["equal"], found["not_copied_yet_offsets"]) == (0, 320, 30)
    # Without it nobody knows that the last ones are only late.
    code, report = verify(one_broker, target, topic)
    assert (code, report["partitions"][0]["faults"]["missing"]) == (1, 30)


def test_a_copy_of_a_topic_that_the_source_has_no_longer_is_named_and_not_compared(
    one_broker: LocalCluster, target: LocalCluster
) -> None:
    topic = both(one_broker, target)
    for cluster, name in ((one_broker, topic), (target, f"A.{topic}")):
        produce(cluster, name, some(5))
    target.create_topic(f"A.{topic}-old", 1)
    code, report = verify(one_broker, target, f"{topic}.*")
    assert (code, [each["topic"] for each in report["partitions"]]) == (0, [topic])
    assert report["notices"] == [f"Not compared, because the source has no topics with these names: A.{topic}-old"]


def test_a_topic_of_which_nothing_is_copied_yet_is_named_and_no_success(
    one_broker: LocalCluster, target: LocalCluster
) -> None:
    topic = fresh_topic()
    one_broker.create_topic(topic, 1)
    produce(one_broker, topic, some(50))
    if OFFSETS_TOPIC not in target.admin().list_topics(timeout=60).topics:
        target.create_topic(OFFSETS_TOPIC, OFFSETS_PARTITIONS, config={"cleanup.policy": "compact"})
    code, report = verify(one_broker, target, topic, "--offsets-topic", OFFSETS_TOPIC)
    (found,) = report["partitions"]
    assert (code, report["outcome"], found["not_copied_yet_offsets"]) == (2, "not compared", 50)
    assert found["error"].startswith(f"the target has no topic A.{topic}.")


async def test_a_topic_without_a_copy_is_no_success_beside_one_that_is_copied(
    one_broker: LocalCluster, target: LocalCluster
) -> None:
    topic = both(one_broker, target)
    one_broker.create_topic(f"{topic}-late", 1)
    for name in (topic, f"{topic}-late"):
        produce(one_broker, name, some(50))
    if OFFSETS_TOPIC not in target.admin().list_topics(timeout=60).topics:
        target.create_topic(OFFSETS_TOPIC, OFFSETS_PARTITIONS, config={"cleanup.policy": "compact"})
    async with running(spec_for(one_broker, target, {topic: 1}), target) as task:
        await task.copied(50)
        await task.finish()
    code, report = verify(one_broker, target, f"{topic}.*", "--offsets-topic", OFFSETS_TOPIC)
    copied, late = report["partitions"]
    assert (code, copied["equal"], copied["error"]) == (2, 50, None)
    assert late["error"].startswith(f"the target has no topic A.{topic}-late.")


def test_a_running_connector_is_asked_for_everything(one_broker: LocalCluster, target: LocalCluster) -> None:
    topic = both(one_broker, target)
    produce(one_broker, topic, some(120))
    produce(target, f"A.{topic}", some(100))
    config = {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": "A",
        "topics": topic,
        **{f"source.cluster.{name}": value for name, value in one_broker.client_properties().items()},
        **{f"target.cluster.{name}": value for name, value in target.client_properties().items()},
    }
    place = {"cluster": "A", "partition": 0, "topic": topic}
    answers = {
        "/connectors/mirror/config": config,
        "/connectors/mirror/offsets": {"offsets": [{"partition": place, "offset": {"offset": 99}}]},
    }
    with worker_that_answers(answers) as worker:
        done = subprocess.run(
            [sys.executable, "-m", "mirror_connect.cli", "verify", "mirror", "--worker", worker.url, "--json"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    (found,) = json.loads(done.stdout)["partitions"]
    assert (done.returncode, found["equal"], found["not_copied_yet_offsets"]) == (0, 100, 20)


def test_a_byte_that_flipped_on_the_targets_disk_is_found(one_broker: LocalCluster, target: LocalCluster) -> None:
    topic = both(one_broker, target)
    produce(one_broker, topic, some(100))
    produce(target, f"A.{topic}", some(100))
    (segment,) = target.partition_directory(f"A.{topic}", 0).glob("*.log")
    # Among the first batch's records, whatever batches the producer made: a header's first bytes are not under its CRC.
    with segment.open("r+b") as file:
        file.seek(HEADER_SIZE + 5)
        byte = file.read(1)[0]
        file.seek(HEADER_SIZE + 5)
        file.write(bytes([byte ^ 1]))
    code, report = verify(one_broker, target, topic)
    found = report["partitions"][0]
    assert (code, found["faults"]["unreadable"], found["faults"]["missing"]) == (1, 1, 0)


def test_a_cluster_that_is_away_is_one_line_and_code_2(one_broker: LocalCluster, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere.properties"
    nowhere.write_text("bootstrap.servers=127.0.0.1:1\n", "utf-8")
    done = command(one_broker, one_broker, "any", "--target", str(nowhere))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "target cluster at 127.0.0.1:1 can't be reached" in done.stderr


def test_a_batch_that_cant_be_unpacked_is_found_and_what_follows_is_compared(
    one_broker: LocalCluster, target: LocalCluster
) -> None:
    topic = both(one_broker, target)
    produce(one_broker, topic, some(30))
    for first in (0, 10, 20):
        produce(target, f"A.{topic}", some(10, first), **{**FULL_BATCHES, "compression.type": "lz4"})
    (segment,) = target.partition_directory(f"A.{topic}", 0).glob("*.log")
    content = bytearray(segment.read_bytes())
    second = 12 + int.from_bytes(content[8:12])
    behind = second + 12 + int.from_bytes(content[second + 8 : second + 12])
    spoiled = with_records(bytes(content[second:behind]), b"\x00" * (behind - second - HEADER_SIZE))
    with segment.open("r+b") as file:
        file.seek(second)
        file.write(spoiled)
    code, report = verify(one_broker, target, topic)
    found = report["partitions"][0]
    assert (code, found["faults"]["unreadable"], found["faults"]["missing"], found["equal"]) == (1, 1, 0, 20)
    assert found["listed"][0]["target_offsets"] == [10, 10]


@pytest.mark.long
def test_a_header_name_that_librdkafka_cant_show_is_no_equal_one(
    one_broker: LocalCluster, target: LocalCluster
) -> None:
    topic = both(one_broker, target)
    for cluster, name in ((one_broker, topic), (target, f"A.{topic}")):
        produce(cluster, name, [{**record, "headers": [("name", b"v")]} for record in some(5)])
        (segment,) = cluster.partition_directory(name, 0).glob("*.log")
        content = segment.read_bytes()
        batch = content[: 12 + int.from_bytes(content[8:12])]
        other = batch[HEADER_SIZE:].replace(b"name", b"n\xffme")
        segment.write_bytes(with_records(batch, other) + content[len(batch) :])
    code, report = verify(one_broker, target, topic)
    assert (code, report["partitions"][0]["equal"]) == (2, 0)
    assert "isn't UTF-8" in report["partitions"][0]["error"]
