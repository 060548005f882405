"""What is to be copied, added up, and the time that it takes."""

from __future__ import annotations

import pytest

from mirror_connect.app.planning.amounts import Amounts, PartitionAmount, of_topic, total
from mirror_connect.connectors.partitions import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
KNOWN = PartitionAmount(10, 1000, 2.0, 200.0)


def test_partitions_are_added_up() -> None:
    found = total(Amounts({A: KNOWN, B: KNOWN}, 3.0), None)
    assert (found.records, found.bytes, found.records_per_s, found.bytes_per_s) == (20, 2000, 4.0, 400.0)


def test_one_unknown_partition_makes_the_sum_unknown_and_other_topics_stay_known() -> None:
    found = Amounts({A: KNOWN, B: PartitionAmount(10, None, 2.0, None)}, 3.0, "no right")
    assert (total(found, 1e6).bytes, total(found, 1e6).seconds) == (None, None)
    assert total(found, 1e6).line == "bytes are unknown: no right"
    assert (of_topic(found, "a"), of_topic(found, "b")) == ((10, 1000), (10, None))


@pytest.mark.parametrize(
    ("speed", "seconds"),
    [
        pytest.param(700.0, 2.0, id="faster_than_the_source_grows"),
        pytest.param(200.0, None, id="as_fast_as_it_grows"),
        pytest.param(None, None, id="unknown_speed"),
    ],
)
def test_the_time_counts_what_comes_meanwhile(speed: float | None, seconds: float | None) -> None:
    found = total(Amounts({A: KNOWN}, 3.0), speed)
    assert (found.seconds, found.line is None) == (seconds, seconds is not None)


def test_nothing_to_copy_takes_no_time_at_any_speed() -> None:
    assert total(Amounts({A: PartitionAmount(0, 0, 0.0, 0.0)}, 3.0), None).seconds == 0.0
