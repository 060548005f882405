import json
import random
from typing import Any

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.records.binary import UnreadableRecord
from mirror_connect.connectors.records.offset_syncs import (
    MOST_AT_ONCE,
    MOST_OF_A_BATCH,
    OffsetSync,
    OffsetSyncQueue,
    SyncRule,
    SyncsPlace,
    offset_syncs_place,
    thinned,
)
from mirror_connect.connectors.replication_policy import DefaultReplicationPolicy
from tests.paths import FIXTURES

EMISSION = [json.loads(line) for line in (FIXTURES / "offset-sync-emission-vectors.jsonl").read_text().splitlines()]
RECORDS = [
    record
    for record in map(json.loads, (FIXTURES / "worker-mm2-topics.jsonl").read_text().splitlines())
    if record["topic"].startswith("mm2-offset-syncs")
]
ORDERS = TopicPartition("orders", 0)


def pairs(syncs: list[OffsetSync]) -> list[tuple[int, int]]:
    return [(sync.upstream, sync.downstream) for sync in syncs]


def record_by_record(batches: list[tuple[int, int, int]], lag_max: int) -> tuple[list[tuple[int, int]], SyncRule]:
    rule = SyncRule(ORDERS, lag_max)
    found: list[tuple[int, int]] = []
    for upstream, downstream, count in batches:
        for i in range(count):
            found += pairs(rule.acked(upstream + i, downstream + i))
    return found, rule


@pytest.mark.kafka_test("OffsetSyncTest.testSerde")
@pytest.mark.parametrize("record", RECORDS, ids=lambda record: f"{record['topic']}-{record['offset']}")
def test_a_sync_is_written_and_read_as_kafka_wrote_it(record: dict[str, Any]) -> None:
    key, value = record["decoded"]["key"], record["decoded"]["value"]
    sync = OffsetSync(key["topic"], key["partition"], value["upstreamOffset"], value["offset"])
    written = bytes.fromhex(record["key_hex"]), bytes.fromhex(record["value_hex"])
    assert (sync.key(), sync.value(), OffsetSync.decode(*written)) == (*written, sync)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param(b"\0\1t\0\0\0\0", None, id="tombstone"),
        pytest.param(None, bytes(16), id="no_key"),
        pytest.param(b"\0\1t\0\0\0", bytes(16), id="short_key"),
        pytest.param(b"\0\1t\0\0\0\0", bytes(15), id="short_value"),
        pytest.param(b"\xff\xff\0\0\0\0", bytes(16), id="negative_length"),
        pytest.param(b"\0\1\xff\0\0\0\0", bytes(16), id="not_utf8"),
        pytest.param(OffsetSync("x" * 250, 0, 0, 0).key(), bytes(16), id="too_long_a_name"),
        pytest.param(OffsetSync("a\nb", 0, 0, 0).key(), bytes(16), id="a_line_break_in_the_name"),
        pytest.param(OffsetSync("töpic", 0, 0, 0).key(), bytes(16), id="a_letter_that_no_name_has"),
        pytest.param(OffsetSync("orders\n", 0, 0, 0).key(), bytes(16), id="a_line_break_behind_the_name"),
        pytest.param(OffsetSync("", 0, 0, 0).key(), bytes(16), id="no_name"),
        pytest.param(OffsetSync(".", 0, 0, 0).key(), bytes(16), id="dot"),
        pytest.param(OffsetSync("..", 0, 0, 0).key(), bytes(16), id="two_dots"),
        pytest.param(OffsetSync("t", -1, 0, 0).key(), bytes(16), id="negative_partition"),
        pytest.param(b"\0\1t\0\0\0\0", OffsetSync("t", 0, -1, 0).value(), id="negative_upstream"),
        pytest.param(b"\0\1t\0\0\0\0", OffsetSync("t", 0, 0, -2).value(), id="negative_downstream"),
        pytest.param(b"\0\1t\0\0\0\0", OffsetSync("t", 0, 2**63 - 1, 0).value(), id="upstream_too_high"),
        pytest.param(b"\0\1t\0\0\0\0", OffsetSync("t", 0, 0, 2**63 - 1).value(), id="downstream_too_high"),
    ],
)
def test_anything_else_is_refused_with_one_line(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(UnreadableRecord, match=r"^(key|value) of an offset sync: [^\n]+$"):
        OffsetSync.decode(key, value)


@pytest.mark.parametrize(
    "sync",
    [
        OffsetSync("a-Z_0.9" + "x" * 242, 2**31 - 1, 2**63 - 2, 2**63 - 2),
        OffsetSync("...", 0, 0, -1),
    ],
)
def test_all_that_a_topic_can_hold_is_read(sync: OffsetSync) -> None:
    assert OffsetSync.decode(sync.key(), sync.value()) == sync


@pytest.mark.kafka_test("MirrorSourceTaskTest.testOffsetSync")
@pytest.mark.kafka_test("MirrorSourceTaskTest.testZeroOffsetSync")
@pytest.mark.parametrize(
    "vector", EMISSION, ids=lambda vector: f"lag{vector['offset_lag_max']}-{vector['acked_up_down'][-1]}"
)
def test_single_records_are_synced_when_kafka_syncs_them(vector: dict[str, Any]) -> None:
    rule = SyncRule(ORDERS, vector["offset_lag_max"])
    now = [bool(rule.acked(upstream, downstream)) for upstream, downstream in vector["acked_up_down"]]
    assert [index for index, synced in enumerate(now) if synced] == vector["immediate_indexes"]


@pytest.mark.parametrize("seed", range(30))
def test_a_batch_gives_the_very_syncs_that_its_records_would_give(seed: int) -> None:
    chance = random.Random(seed)
    lag_max = chance.choice([-1, 0, 1, 7, 100])
    upstream = downstream = 0
    batches = []
    for _ in range(200):
        upstream += chance.choice([0, 0, 0, 1, 30, -5 if upstream > 5 else 0])
        downstream += chance.choice([0, 0, 0, 2, 50, -20 if downstream > 20 else 0])
        count = chance.randint(1, MOST_AT_ONCE)
        batches.append((upstream, downstream, count))
        upstream, downstream = upstream + count, downstream + count
    rule = SyncRule(ORDERS, lag_max)
    found = [pair for batch in batches for pair in pairs(rule.acked(*batch))]
    expected, alike = record_by_record(batches, lag_max)
    assert (found, rule.delayed) == (expected, alike.delayed)


def test_of_more_syncs_than_the_most_the_newest_stays() -> None:
    syncs = pairs(SyncRule(ORDERS, 0).acked(0, 0, 10_000))
    assert (len(syncs) <= MOST_AT_ONCE + 1, syncs[0], syncs[-1]) == (True, (0, 0), (9_999, 9_999))


@pytest.mark.kafka_test("OffsetSyncWriterTest.testMaybeQueueOffsetSyncs")
def test_what_need_not_be_synced_at_once_is_delayed() -> None:
    queue = OffsetSyncQueue(lag_max=100)
    queue.acked(ORDERS, 0, 0, 50)
    assert pairs(queue.take()) == [(0, 0)]


@pytest.mark.kafka_test("OffsetSyncWriterTest.testPromoteDelayedOffsetSyncs")
@pytest.mark.kafka_test("MirrorSourceTaskTest.testSendSyncEvent")
def test_a_commit_promotes_the_newest_delayed_sync_once() -> None:
    queue = OffsetSyncQueue(lag_max=100)
    queue.acked(ORDERS, 0, 0, 50)
    queue.committed()
    queue.committed()
    assert pairs(queue.take()) == [(0, 0), (49, 49)]


@pytest.mark.kafka_test("OffsetSyncWriterTest.testFirePendingOffsetSyncs")
def test_syncs_that_wait_for_a_topic_do_not_pile_up() -> None:
    queue = OffsetSyncQueue(lag_max=0)
    for offset in range(10_000):
        queue.acked(ORDERS, offset, offset)
        queue.committed()
    syncs = pairs(queue.take())
    assert (len(syncs) <= MOST_AT_ONCE, syncs[-1], syncs == sorted(syncs)) == (True, (9_999, 9_999), True)


def test_of_a_flood_of_syncs_some_of_each_batch_are_made_and_the_newest_of_all_is_kept() -> None:
    queue = OffsetSyncQueue(0)
    for number in range(50):
        queue.acked(ORDERS, number * 1000, number * 1000, 1000)
    syncs = pairs(queue.take())
    assert (len(syncs) <= MOST_AT_ONCE, syncs[-1], syncs == sorted(syncs)) == (True, (49_999, 49_999), True)


def test_a_batch_with_gaps_is_synced_at_its_ranges() -> None:
    queue = OffsetSyncQueue(100)
    queue.acked_ranges(ORDERS, [(0, 3), (4, 2), (9, 1)], 0)
    assert pairs(queue.take()) == [(0, 0), (4, 3), (9, 5)]


def test_of_many_gaps_some_are_synced_and_the_last_is() -> None:
    queue = OffsetSyncQueue(100)
    queue.acked_ranges(ORDERS, [(2 * number, 1) for number in range(1000)], 0)
    syncs = pairs(queue.take())
    assert (len(syncs) <= MOST_OF_A_BATCH, syncs[-1]) == (True, (1998, 999))
    assert all(up == 2 * down for up, down in syncs)


def test_of_syncs_that_were_not_written_the_newest_comes_again_and_first() -> None:
    queue = OffsetSyncQueue(0)
    queue.acked(ORDERS, 0, 0, 5)
    taken = queue.take()
    queue.acked(ORDERS, 5, 5, 1)
    queue.give_back(taken)
    assert pairs(queue.take()) == [(4, 4), (5, 5)]


def test_what_was_not_written_of_a_partition_given_away_is_forgotten() -> None:
    queue = OffsetSyncQueue(0)
    queue.acked(ORDERS, 0, 0, 5)
    taken = queue.take()
    queue.forget(ORDERS)
    queue.give_back(taken)
    assert queue.take() == []


def test_a_partition_that_comes_back_is_synced_at_once() -> None:
    queue = OffsetSyncQueue(lag_max=100)
    queue.acked(ORDERS, 0, 0, 50)
    queue.forget(ORDERS)
    queue.acked(ORDERS, 50, 50, 10)
    assert pairs(queue.take()) == [(50, 50)]


@pytest.mark.kafka_test("MirrorSourceConfigTest.testOffsetSyncsTopic")
@pytest.mark.parametrize(
    ("location", "place"),
    [
        ("source", SyncsPlace("source", "mm2-offset-syncs.B.internal")),
        ("target", SyncsPlace("target", "mm2-offset-syncs.A.internal")),
    ],
)
def test_the_topic_is_named_after_the_other_cluster(location: str, place: SyncsPlace) -> None:
    assert offset_syncs_place(DefaultReplicationPolicy(), location, "A", "B") == place


def test_thinning_keeps_the_last_and_even_steps() -> None:
    assert thinned(range(10), 4) == range(0, 10, 3)
