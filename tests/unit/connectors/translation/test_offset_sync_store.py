import json
from typing import Any

import pytest

from mirror_connect.connectors.records.offset_syncs import OffsetSync
from mirror_connect.connectors.translation.offset_sync_store import TOO_OLD, OffsetSyncStore
from tests.paths import FIXTURES

LINES = (FIXTURES / "offset-sync-store-vectors.jsonl").read_text().splitlines()
VECTORS = [json.loads(line) for line in LINES]


def store_of(vector: dict[str, Any]) -> OffsetSyncStore:
    store = OffsetSyncStore(must_read_to_end=vector["init_must_read_to_end"])
    for upstream, downstream in vector["syncs_before_read_to_end"]:
        store.insert(OffsetSync("t", 0, upstream, downstream))
    store.read_to_end()
    for upstream, downstream in vector["syncs_after"]:
        store.insert(OffsetSync("t", 0, upstream, downstream))
    return store


@pytest.mark.kafka_test("OffsetSyncStoreTest.testOffsetTranslation")
@pytest.mark.kafka_test("OffsetSyncStoreTest.testPastOffsetTranslation")
@pytest.mark.kafka_test("OffsetSyncStoreTest.testPastOffsetTranslationWithoutInitializationReadToEnd")
@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_positions_are_translated_as_by_kafka(vector: dict[str, Any]) -> None:
    store = store_of(vector)
    assert [[u, store.translate("t", 0, u)] for u, _ in vector["translations"]] == vector["translations"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_the_syncs_kept_are_those_kafka_keeps(vector: dict[str, Any]) -> None:
    kept = [[slot, sync.upstream, sync.downstream] for slot, sync in store_of(vector).kept("t", 0)]
    assert kept == (vector["store"] or [])


@pytest.mark.kafka_test("OffsetSyncStoreTest.testNoTranslationIfStoreNotStarted")
def test_nothing_is_translated_before_the_topic_has_been_read() -> None:
    store = OffsetSyncStore()
    store.insert(OffsetSync("t", 0, 5, 7))
    assert store.translate("t", 0, 5) is None


@pytest.mark.kafka_test("OffsetSyncStoreTest.testNoTranslationIfNoOffsetSync")
def test_a_partition_without_a_sync_has_no_translation() -> None:
    store = OffsetSyncStore()
    store.insert(OffsetSync("t", 0, 5, 7))
    store.read_to_end()
    assert (store.translate("t", 1, 5), store.translate("u", 0, 5)) == (None, None)


def test_a_position_below_every_sync_is_too_old() -> None:
    store = OffsetSyncStore()
    store.insert(OffsetSync("t", 0, 5, 7))
    store.read_to_end()
    assert store.translate("t", 0, 4) == TOO_OLD


# Steps below 2**n: an insert that moves up to n slots drops no more than that.
@pytest.mark.parametrize(
    ("steps", "most"),
    [
        pytest.param(
            [1] * 3000,
            2,
            id="one_by_one",
            marks=pytest.mark.kafka_test("OffsetSyncStoreTest.testConsistentlySpacedSyncs"),
        ),
        pytest.param(
            [101] * 3000,
            2,
            id="each_101",
            marks=pytest.mark.kafka_test("OffsetSyncStoreTest.testConsistentlySpacedSyncs"),
        ),
        pytest.param(
            [1 + 7919 * i % 997 for i in range(3000)],
            10,
            id="uneven",
            marks=pytest.mark.kafka_test("OffsetSyncStoreTest.testRandomlySpacedSyncs"),
        ),
        pytest.param(
            [100 + 100 * (7919 * i % 997 % 2) for i in range(3000)],
            2,
            id="some_missed",
            marks=pytest.mark.kafka_test("OffsetSyncStoreTest.testDroppedSyncsSpacing"),
        ),
    ],
)
def test_an_insert_drops_few_syncs(steps: list[int], most: int) -> None:
    store = OffsetSyncStore()
    upstream, before, dropped = 0, 0, []
    for step in steps:
        upstream += step
        store.insert(OffsetSync("t", 0, upstream, upstream))
        now = len(store.kept("t", 0))
        dropped.append(before + 1 - now)
        before = now
    assert max(dropped) <= most
