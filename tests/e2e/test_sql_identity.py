"""Records of every shape go through Spark and come back unchanged: all that a record has, in order, with every codec."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pytest

from deploy.local import LocalCluster
from tests.e2e.ends import end_offsets
from tests.e2e.identity_topics import ALL, KEEP, PREFIX, SHAPES, SHAPES_PARTITIONS, TEXT_LINES, TX, Written
from tests.e2e.product import Product, mirror_config
from tests.e2e.reading import records
from tests.waiting import wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long]

# Each column is computed by Spark, and written into the record again.
EVERYTHING: Final = (
    "SELECT CAST(key AS BINARY) AS key, substring(value, 1) AS value, transform(headers, h -> h) AS headers, "
    "timestampadd(MICROSECOND, 0, timestamp) AS timestamp FROM records WHERE offset >= 0"
)
# Alias of the source → its statement, and what it sees of transactions.
LINKS: Final = {
    "S": ("SELECT * FROM records", "read_uncommitted"),
    "T": (EVERYTHING, "read_committed"),
}


@dataclass(frozen=True)
class Copied:
    """Both clusters, when all is copied. `counts`: records of each topic of the target."""

    source: LocalCluster
    target: LocalCluster
    counts: Mapping[str, int]


@pytest.fixture(scope="module")
def copied(written: Written, target_cluster: LocalCluster, product: Product) -> Iterator[Copied]:
    """Everything copied with each statement, by a connector of its own."""
    source, target = written.source, target_cluster
    wanted: dict[str, int] = {}
    for alias, (statement, isolation) in LINKS.items():
        target.create_topic(f"{alias}.{SHAPES}", SHAPES_PARTITIONS, KEEP)
        config = mirror_config(
            source, target, f"{PREFIX}-.*", source_cluster_alias=alias, source_consumer_isolation_level=isolation
        )
        product.put(f"sql-identity-{alias}", {**config, "spark.transform.sql": statement})
        for topic, count in written.records.items():
            only_committed = topic == TX and isolation == "read_committed"
            wanted[f"{alias}.{topic}"] = written.committed if only_committed else count
    for alias in LINKS:
        product.wait_running(f"sql-identity-{alias}")

    def there() -> dict[str, int]:
        product.check_alive()
        return {topic: sum(end_offsets(target, topic).values()) for topic in wanted}

    wait_for(
        lambda: all(count >= wanted[topic] for topic, count in there().items()),
        f"all of {wanted} is copied",
        pause=0.5,
        arrived=there,
    )
    yield Copied(source, target, there())
    for alias in LINKS:
        product.delete(f"sql-identity-{alias}")


@pytest.mark.parametrize("topic", ALL)
@pytest.mark.parametrize("alias", LINKS)
def test_key_value_headers_timestamp_partition_and_order_are_the_same(copied: Copied, alias: str, topic: str) -> None:
    isolation = LINKS[alias][1]
    for partition in range(ALL[topic]):
        pairs = itertools.zip_longest(
            records(copied.source, topic, partition, isolation=isolation),
            records(copied.target, f"{alias}.{topic}", partition),
        )
        for number, (was, came) in enumerate(pairs):
            assert was is not None, f"{topic}-{partition}: {str(came)[:200]} is too much"
            assert came is not None, f"{topic}-{partition}: {str(was)[:200]} is missing"
            assert was[1:5] == came[1:5], f"{topic}-{partition}: record {number} is another one"


@pytest.mark.parametrize("alias", LINKS)
def test_there_were_more_than_300_000_records(copied: Copied, alias: str) -> None:
    assert sum(count for topic, count in copied.counts.items() if topic.startswith(f"{alias}.")) > TEXT_LINES
