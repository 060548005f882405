import itertools
from dataclasses import replace

import pytest

from benchmarks import payload
from benchmarks.feeder import frames
from benchmarks.payload import Batch, batches, values
from benchmarks.plan import PROFILES, Profile
from mirror_connect.kafka_io.records.compression import decompress
from mirror_connect.kafka_io.records.record_batch import BatchView, verify
from tests.fakes.encoded_batches import decode

BY_NAME = {profile.name: profile for profile in PROFILES}
NOW = 1_700_000_000_000


@pytest.fixture(autouse=True)
def small_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload, "POOL_BYTES", 400_000)
    monkeypatch.setattr(payload, "SINGLES", 8)


def view(batch: Batch) -> BatchView:
    return BatchView(memoryview(batch.data))


def test_values_are_text_of_the_wanted_size() -> None:
    assert {len(value) for value in itertools.islice(values(100), 50)} == {100}


def test_values_go_on_where_the_last_one_ended() -> None:
    assert b"".join(itertools.islice(values(10), 20)) == next(values(200))


@pytest.mark.parametrize("profile", [BY_NAME["1k"], BY_NAME["100b"]], ids=lambda profile: profile.name)
def test_batches_are_of_the_wanted_size_on_average(profile: Profile) -> None:
    sizes = [len(batch.data) for batch in batches(profile, NOW)]
    assert 0.6 * profile.batch_bytes < sum(sizes) / len(sizes) < 1.5 * profile.batch_bytes


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_every_batch_has_a_right_crc(profile: Profile) -> None:
    # One that is to be compacted is made whole otherwise, in ten seconds.
    fewer = replace(profile, records=20_000) if profile.compacted else profile
    for batch in batches(fewer, NOW):
        verify(view(batch))


def test_a_batch_holds_as_many_bytes_uncompressed_as_it_says() -> None:
    batch = batches(BY_NAME["1k"], NOW)[0]
    assert len(decompress(view(batch).codec, view(batch).records)) == batch.raw_bytes


def test_single_records_are_a_batch_each() -> None:
    assert {view(batch).count for batch in batches(BY_NAME["single"], NOW)} == {1}


def test_every_other_record_of_each_batch_is_to_be_filtered() -> None:
    for batch in batches(BY_NAME["filter"], NOW):
        marks = [[name for name, _ in record.headers] for record in decode(batch.data)]
        assert marks == [[], ["internal"]] * (batch.records // 2)


def test_batches_carry_no_producer_so_they_may_be_sent_twice() -> None:
    assert view(batches(replace(BY_NAME["single"], record_bytes=10), NOW)[0]).producer_id == -1


def test_a_frame_tells_the_records_of_all_its_batches() -> None:
    pool = [Batch(b"x", 3, 1)] * 8
    assert [frame.records for frame in frames("t", {"b:1": range(4)}, pool)] == [12, 12]


def test_where_partitions_are_more_than_batches_all_get_as_many_in_requests_of_usual_size() -> None:
    found = frames("t", {"b:1": range(40)}, [Batch(b"x", 3, 1)] * 8)
    assert [frame.records for frame in found] == [48, 48, 24]


def test_each_leader_gets_the_batches_of_its_partitions_and_all_partitions_as_many() -> None:
    found = frames("t", {"a:1": [0, 3], "b:2": [1]}, [Batch(b"x", 5, 1)] * 6)
    assert [(frame.address, frame.records) for frame in found] == [("a:1", 10), ("b:2", 5)] * 2


def test_a_frame_begins_with_its_size() -> None:
    frame = frames("t", {"b:1": range(2)}, [Batch(b"abc", 1, 1), Batch(b"de", 1, 1)])[0]
    assert int.from_bytes(frame.data[:4], "big") == len(frame.data) - 4


def test_of_a_topic_that_is_to_be_compacted_every_other_key_is_there_once() -> None:
    pool = batches(replace(BY_NAME["gaps"], records=2_000), NOW)
    keys = [record.key for batch in pool for record in decode(batch.data)]
    assert keys[::2] == [b"again"] * ((len(keys) + 1) // 2)
    assert len(set(keys[1::2])) == len(keys) // 2 > 500
