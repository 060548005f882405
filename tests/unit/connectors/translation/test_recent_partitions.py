from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.translation.recent_partitions import RecentPartitions

A, B, C = (TopicPartition(name, 0) for name in "abc")


def test_what_was_put_last_is_known() -> None:
    known = RecentPartitions[int](3)
    known.put(A, 1)
    known.put(A, 2)
    assert (known.get(A), known.get(B), len(known), known.crowded) == (2, None, 1, False)


def test_beyond_the_limit_the_partition_with_the_oldest_record_is_dropped() -> None:
    known = RecentPartitions[int](2)
    known.put(A, 1)
    known.put(B, 1)
    # A new record makes it the most recent one.
    known.put(A, 2)
    known.put(C, 1)
    assert (list(known), known.get(B), known.crowded) == ([A, C], None, True)
