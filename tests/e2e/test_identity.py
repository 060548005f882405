"""What was copied is what was there: all that a record has, and for batches copied as they are, their bytes.

One worker copies topics of every shape, then source and target are read by librdkafka, by Kafka's DumpLogSegments and from
the brokers' segment files; nothing of the product takes part in the comparison.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from deploy.local import LocalCluster
from tests.e2e.ends import end_offsets
from tests.e2e.identity_topics import (
    ALL,
    APPENDED,
    BIG,
    COMPACTED,
    EXPLICIT_MS,
    KEEP,
    PREFIX,
    SAME_OFFSETS,
    SHAPES,
    SHAPES_PARTITIONS,
    SINGLES,
    TEXT,
    TEXT_LINES,
    TEXTS,
    TX,
    Written,
)
from tests.e2e.product import Product, mirror_config
from tests.e2e.reading import DELETE_HORIZON, batches, data_batches, dumped, records
from tests.waiting import wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

LZ4 = 3
# Alias of the source in a connector → how it is told to leave out aborted transactions.
COMMITTED_ONLY = {"C": "consumer_isolation_level", "D": "source_consumer_isolation_level"}


@dataclass(frozen=True)
class Copied:
    """Both clusters, when all is copied; and how many records were produced."""

    source: LocalCluster
    target: LocalCluster
    text_lines: int
    committed: int


@pytest.fixture(scope="module")
def copied(written: Written, target_cluster: LocalCluster, product: Product) -> Iterator[Copied]:
    """Everything copied, once."""
    source, target, expected = written.source, target_cluster, written.records
    target.create_topic(f"A.{SHAPES}", SHAPES_PARTITIONS, KEEP)
    names = {alias: f"identity-{alias}" for alias in ("A", *COMMITTED_ONLY)}
    product.put(names["A"], mirror_config(source, target, f"{PREFIX}-.*"))
    for alias, setting in COMMITTED_ONLY.items():
        config = mirror_config(source, target, TX, source_cluster_alias=alias, **{setting: "read_committed"})
        product.put(names[alias], config)
    for name in names.values():
        product.wait_running(name)

    def all_there() -> bool:
        product.check_alive()
        return all(sum(end_offsets(target, f"A.{topic}").values()) >= count for topic, count in expected.items())

    def there() -> int:
        return sum(sum(end_offsets(target, f"A.{topic}").values()) for topic in expected)

    wait_for(all_there, f"all of {expected} is copied", pause=0.5, arrived=there)
    for alias in COMMITTED_ONLY:
        wait_ends_sum(target, f"{alias}.{TX}", written.committed)
    yield Copied(source, target, written.text_lines, written.committed)
    for name in names.values():
        product.delete(name)


def wait_ends_sum(cluster: LocalCluster, topic: str, count: int) -> None:
    def there() -> int:
        return sum(end_offsets(cluster, topic).values())

    wait_for(lambda: there() >= count, f"{count} records in {topic}", arrived=there)


def differences(copied: Copied, topic: str, remote: str, isolation: str = "read_uncommitted") -> list[str]:
    """The first few differences of a topic, partition by partition and in order; offsets and kind of timestamp apart."""
    found: list[str] = []
    for partition in range(ALL[topic]):
        pairs = itertools.zip_longest(
            records(copied.source, topic, partition, isolation=isolation), records(copied.target, remote, partition)
        )
        for was, came in pairs:
            if was is None or came is None or was[1:5] != came[1:5]:
                found.append(f"{topic}-{partition}: {str(was)[:200]} came as {str(came)[:200]}")
                break
    return found


@pytest.mark.parametrize("topic", ALL)
def test_key_value_headers_timestamp_partition_and_order_are_the_same(copied: Copied, topic: str) -> None:
    assert differences(copied, topic, f"A.{topic}") == []


def test_more_than_300_000_lines_of_text_were_copied(copied: Copied) -> None:
    ends = [sum(end_offsets(copied.target, f"A.{topic}").values()) for topic in TEXTS]
    assert sum(ends) == copied.text_lines >= TEXT_LINES


@pytest.mark.parametrize("alias", COMMITTED_ONLY)
def test_read_committed_leaves_out_what_was_aborted_and_nothing_else(copied: Copied, alias: str) -> None:
    assert differences(copied, TX, f"{alias}.{TX}", "read_committed") == []


def test_what_was_committed_is_not_all_that_was_written(copied: Copied) -> None:
    everything = sum(end_offsets(copied.target, f"A.{TX}").values())
    assert 0 < copied.committed < everything


def test_offsets_are_the_same_where_the_source_has_no_gaps(copied: Copied) -> None:
    assert {topic: end_offsets(copied.target, f"A.{topic}") for topic in SAME_OFFSETS} == {
        topic: end_offsets(copied.source, topic) for topic in SAME_OFFSETS
    }


def test_a_compacted_topic_with_gaps_inside_its_batches_arrives_without_gaps(copied: Copied) -> None:
    arrived = [record.offset for record in records(copied.target, f"A.{COMPACTED}", 0)]
    assert arrived == list(range(len(arrived)))
    assert any(batch.size <= batch.last_offset_delta for batch in batches(copied.source, COMPACTED, 0))
    assert any(batch.attributes & DELETE_HORIZON for batch in batches(copied.source, COMPACTED, 0))


def test_the_time_that_the_source_broker_has_set_arrives_as_the_records_time(copied: Copied) -> None:
    was = [record for partition in range(2) for record in records(copied.source, APPENDED, partition)]
    came = [record for partition in range(2) for record in records(copied.target, f"A.{APPENDED}", partition)]
    assert {record.append_time for record in was} == {True}
    assert [record.timestamp for record in came] == [record.timestamp for record in was]
    assert EXPLICIT_MS not in {record.timestamp for record in came}


def test_the_shapes_are_what_they_are_called(copied: Copied) -> None:
    came = list(records(copied.target, f"A.{SHAPES}", 0))
    assert {record.timestamp for record in came} >= {1, EXPLICIT_MS}
    assert sum(record.value is None for record in came) == 3 * len(TEXT)
    assert sum(len(record.value or b"") == BIG for record in came) == len(TEXT)
    assert [name for name, _ in max(came, key=lambda r: len(r.headers)).headers][:2] == ["a", "a"]


@pytest.mark.parametrize("topic", TEXTS)
def test_batches_copied_as_they_are_keep_codec_timestamps_and_compressed_bytes(copied: Copied, topic: str) -> None:
    for partition in range(TEXTS[topic]):
        was, came = (
            data_batches(*where, partition) for where in ((copied.source, topic), (copied.target, f"A.{topic}"))
        )
        assert [each[:5] for each in came] == [each[:5] for each in was], f"{topic}-{partition}"
        assert came == was, f"{topic}-{partition}"


def test_single_record_batches_are_merged_and_keep_their_codec(copied: Copied) -> None:
    was, came = data_batches(copied.source, SINGLES, 0), data_batches(copied.target, f"A.{SINGLES}", 0)
    assert len(came) < len(was)
    assert {each[0] for each in came} == {each[0] for each in was} == {LZ4}


def test_kafkas_own_tool_reads_the_same_batches_and_records(copied: Copied) -> None:
    # Of a topic the last partition: the tool takes its time for each line, and the tests above compare all of them.
    partitions = [(topic, count - 1) for topic, count in SAME_OFFSETS.items()]
    was = dumped(copied.source, partitions)
    came = dumped(copied.target, [(f"A.{topic}", partition) for topic, partition in partitions])
    assert sum(len(each.records) for each in came.values()) > TEXT_LINES // 4
    for topic, partition in partitions:
        old, new = was[topic, partition], came[f"A.{topic}", partition]
        assert new.invalid == [], f"{topic}-{partition}"
        assert new.records == old.records, f"{topic}-{partition}"
        if topic in TEXTS:
            assert new.batches == old.batches, f"{topic}-{partition}"
