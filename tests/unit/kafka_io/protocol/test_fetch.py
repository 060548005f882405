"""Fetch as bytes: aiokafka's structs where it has the version, else written-out bytes."""

from __future__ import annotations

import struct

import pytest
from aiokafka.protocol.fetch import FetchRequest_v11, FetchResponse_v4, FetchResponse_v11

from mirror_connect.kafka_io.protocol.codec import WireError
from mirror_connect.kafka_io.protocol.fetch import Fetch, FetchPartition, ForgottenPartition
from tests.fakes.request_bytes import decoded, encoded

FETCH = Fetch(
    [FetchPartition("a", 0, 17, 1000, 3), FetchPartition("b", 1, 5, 2000), FetchPartition("a", 2, 0, 1000, 4)],
    500,
    1,
    1 << 24,
    read_committed=True,
    session_id=77,
    session_epoch=9,
    forgotten=[ForgottenPartition("a", 5), ForgottenPartition("c", 1), ForgottenPartition("a", 6)],
    rack="eu-1",
)


def test_fetch_is_written_as_aiokafka_writes_it() -> None:
    topics = [("a", [(0, 3, 17, -1, 1000), (2, 4, 0, -1, 1000)]), ("b", [(1, -1, 5, -1, 2000)])]
    theirs = FetchRequest_v11(-1, 500, 1, 1 << 24, 1, 77, 9, topics, [("a", [5, 6]), ("c", [1])], "eu-1").encode()
    assert encoded(FETCH, 11) == theirs


def test_fetched_records_are_slices_of_the_frame() -> None:
    body = FetchResponse_v11(12, 0, 77, [("a", [(0, 0, 100, 90, 5, [(8, 40)], -1, b"records")])]).encode()
    answer = decoded(FETCH, 11, body)
    part = answer.partitions[0]
    assert part[:8] == ("a", 0, 0, 100, 90, 5, ((8, 40),), -1)
    assert part.records.obj is body
    assert part.records == b"records"


def test_fetch_answer_keeps_throttle_and_session() -> None:
    answer = decoded(FETCH, 11, FetchResponse_v11(12, 71, 77, []).encode())
    assert (answer.throttle_ms, answer.error, answer.session_id) == (12, 71, 77)


def test_fetch_answer_names_the_preferred_replica() -> None:
    body = FetchResponse_v11(0, 0, 0, [("a", [(0, 0, 100, 90, 5, None, 2, b"")])]).encode()
    assert decoded(FETCH, 11, body).partitions[0].preferred_replica == 2


def test_fetch_answer_of_an_old_broker_has_no_session_and_no_log_start() -> None:
    answer = decoded(FETCH, 4, FetchResponse_v4(0, [("a", [(0, 0, 100, 90, None, b"xy")])]).encode())
    assert (answer.session_id, answer.partitions[0].log_start, answer.partitions[0].records) == (0, -1, b"xy")


A_ID, B_ID, C_ID = b"a" * 16, b"b" * 16, b"c" * 16
BY_ID = Fetch(
    [FetchPartition("a", 0, 17, 1000, 3, A_ID), FetchPartition("b", 1, 5, 2000, 4, B_ID)],
    500,
    1,
    1 << 24,
    session_id=77,
    session_epoch=9,
    forgotten=[ForgottenPartition("b", 1, C_ID)],
    rack="eu",
    names={A_ID: "a", B_ID: "b"},
)


def compact_fetch(*topics: bytes, forgotten: bytes) -> bytes:
    def wanted(partition: int, epoch: int, offset: int, size: int) -> bytes:
        return b"\x02" + struct.pack(">iiqiqi", partition, epoch, offset, -1, -1, size) + b"\0"

    head = struct.pack(">iiiibii", -1, 500, 1, 1 << 24, 0, 77, 9)
    parts = topics[0] + wanted(0, 3, 17, 1000) + b"\0" + topics[1] + wanted(1, 4, 5, 2000) + b"\0"
    return head + b"\x03" + parts + forgotten + b"\x03eu" + b"\0"


def test_fetch_by_topic_id_is_written_as_the_protocol_guide_has_it() -> None:
    forgotten = b"\x02" + C_ID + b"\x02" + struct.pack(">i", 1) + b"\0"
    assert encoded(BY_ID, 13) == compact_fetch(A_ID, B_ID, forgotten=forgotten)


def test_a_broker_without_fetch_by_id_gets_names_and_drops_no_partition_that_is_fetched() -> None:
    assert encoded(BY_ID, 12) == compact_fetch(b"\x02a", b"\x02b", forgotten=b"\x01")


ABORTED = b"\x02" + struct.pack(">qq", 8, 40) + b"\0"


def compact_answer(topic: bytes, aborted: bytes = ABORTED) -> bytes:
    # The tagged field after the records is that of a new leader (CurrentLeader).
    records = struct.pack(">i", 2) + b"\x08records" + b"\x01\x01\x02xy"
    partition = struct.pack(">ihqqq", 0, 0, 100, 90, 5) + aborted + records
    return struct.pack(">ihi", 12, 0, 77) + b"\x02" + topic + b"\x02" + partition + b"\0\0"


@pytest.mark.parametrize(("version", "topic", "name"), [(13, A_ID, "a"), (12, b"\x02a", "a"), (13, C_ID, "")])
def test_a_compact_fetch_answer_names_topics_as_they_were_asked_for(version: int, topic: bytes, name: str) -> None:
    answer = decoded(BY_ID, version, compact_answer(topic))
    assert answer[:3] == (12, 0, 77)
    assert answer.partitions[0] == (name, 0, 0, 100, 90, 5, ((8, 40),), 2, b"records", None)


@pytest.mark.parametrize("aborted", [b"\0", b"\x01"], ids=["null", "empty"])
def test_a_compact_fetch_answer_without_aborted_transactions(aborted: bytes) -> None:
    answer = decoded(BY_ID, 13, compact_answer(A_ID, aborted))
    assert answer.partitions[0] == ("a", 0, 0, 100, 90, 5, (), 2, b"records", None)


def test_a_fetch_has_the_epoch_of_the_last_record_read_from_version_12_on() -> None:
    told, not_told = (Fetch([FetchPartition("a", 0, 17, 1000, 3, A_ID, epoch)], 500, 1, 9) for epoch in (2, -1))
    assert encoded(told, 12) == encoded(not_told, 12).replace(
        struct.pack(">iqi", 3, 17, -1), struct.pack(">iqi", 3, 17, 2)
    )
    assert encoded(told, 11) == encoded(not_told, 11)


def test_a_log_that_diverges_from_what_was_read_is_reported_with_an_epoch_and_its_end() -> None:
    # DivergingEpoch (tag 0) as the protocol guide has it, in front of a CurrentLeader (tag 1).
    tagged = b"\x02" + b"\x00\x0d" + struct.pack(">iq", 2, 120) + b"\0" + b"\x01\x02xy"
    body = compact_answer(A_ID, b"\x01").replace(b"\x08records\x01\x01\x02xy", b"\x01" + tagged)
    (found,) = decoded(BY_ID, 13, body).partitions
    assert (found.records, found.diverging) == (b"", (2, 120))


@pytest.mark.parametrize("cut", [3, 9, 12, 30, 60, -2])
def test_a_compact_fetch_answer_that_ends_early_is_refused(cut: int) -> None:
    with pytest.raises(WireError):
        decoded(BY_ID, 13, compact_answer(A_ID)[:cut])


@pytest.mark.parametrize("cut", [3, 9, 30, -3])
def test_an_answer_that_ends_early_is_refused(cut: int) -> None:
    body = FetchResponse_v11(12, 0, 77, [("a", [(0, 0, 100, 90, 5, [(8, 40)], -1, b"records")])]).encode()
    with pytest.raises(WireError):
        decoded(FETCH, 11, body[:cut])
