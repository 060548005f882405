"""What a partition's flow decides of each batch, and the position that follows from it."""

from __future__ import annotations

import struct

import pytest

from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.kafka_io.consumer.fetched import Fetched, SourcePartition
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.kafka_io.records.compression import GZIP, ZSTD, compress
from mirror_connect.kafka_io.records.record_batch import CorruptBatchError, NewRecord, Outgoing, stamp
from mirror_connect.kafka_io.records.record_rewrite import build
from mirror_connect.spark_jobs.copy.partition_flow import NOTHING_YET, PartitionFlow
from mirror_connect.spark_jobs.copy.positions_writer import Position
from tests.fakes.encoded_batches import HEADER, patched, with_records

LIMIT = 1_000_000


class Heard:
    """The flow's callbacks, written down."""

    def __init__(self) -> None:
        self.corrupt: list[CorruptBatchError] = []
        self.counters: dict[str, int] = {}
        self.flow: PartitionFlow | None = None
        self.others: list[tuple[int, int]] = []


def flow(
    heard: Heard,
    next_offset: int | None = None,
    *,
    leader_epoch: int = -1,
    read_committed: bool = False,
    check_crcs: bool = True,
) -> PartitionFlow:
    return PartitionFlow(
        TaskPartition("orders", 0, "A.orders"),
        next_offset,
        heard.counters,
        leader_epoch=leader_epoch,
        check_crcs=check_crcs,
        read_committed=read_committed,
        on_corrupt=lambda _flow, error: heard.corrupt.append(error),
        on_refused=lambda _flow, _error: None,
        on_written=lambda _flow: None,
        on_others=lambda _flow, offset, count: heard.others.append((offset, count)),
    )


def batch(base_offset: int, count: int, size: int = 10) -> bytes:
    """A batch as a source broker holds it."""
    content = stamp(build([NewRecord(b"k", bytes(size), 1_000 + n) for n in range(count)]), -1, -1, -1)
    return struct.pack(">q", base_offset) + content[8:]


def compressed(offset: int, size: int) -> bytes:
    """A batch of one record of so many zeros, as zstd."""
    made = build([NewRecord(None, bytes(size), 1_000)])
    made.codec, made.records = ZSTD, compress(ZSTD, made.records)
    return struct.pack(">q", offset) + stamp(made, -1, -1, -1)[8:]


def fetched(
    fetch_offset: int, next_offset: int, *parts: bytes, topic_id: bytes | None = None, epoch: int | None = None
) -> Fetched:
    buffer = memoryview(b"".join(parts))
    epochs = [] if epoch is None else [(fetch_offset, epoch)]
    return Fetched(
        SourcePartition("orders", 0), buffer, fetch_offset, next_offset, next_offset, -1, 0, (), topic_id, epochs
    )


def take(taken_from: PartitionFlow, *, slow_link: bool = False) -> Outgoing | None:
    return taken_from.take(LIMIT, slow_link=slow_link)


def test_a_batch_of_usual_size_goes_alone() -> None:
    whole = flow(Heard())
    whole.put(fetched(0, 200, batch(0, 100), batch(100, 100)))
    first, second = take(whole), take(whole)
    assert first is not None
    assert second is not None
    assert [(each.first_offset, each.count) for each in (first, second)] == [(0, 100), (100, 100)]


def test_small_neighbours_that_wait_are_merged() -> None:
    heard = Heard()
    small = flow(heard)
    small.put(fetched(0, 30, *(batch(offset, 1) for offset in range(30))))
    outgoing = take(small)
    assert outgoing is not None
    assert (outgoing.first_offset, outgoing.last_offset, outgoing.count) == (0, 29, 30)


@pytest.mark.parametrize("records", [1, 100], ids=["merged", "as_they_are"])
def test_what_is_sent_keeps_nothing_of_what_was_fetched_alive(records: int) -> None:
    frame = bytearray(batch(0, records) + batch(records, records))
    copying = flow(Heard())
    copying.put(Fetched(SourcePartition("orders", 0), memoryview(frame), 0, 2 * records, 2 * records, -1, 0, ()))
    while (outgoing := take(copying)) is not None:
        copying.acked(outgoing, -1)
    del outgoing
    frame.append(0)  # BufferError while any slice of it exists


def test_a_batch_re_encoded_in_pieces_covers_the_same_offsets_and_can_be_taken_up_between_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mirror_connect.kafka_io.records.record_rewrite.REWRITTEN_RECORDS", 100)
    whole = batch(0, 450)
    copying = flow(Heard(), 30)
    copying.put(fetched(30, 460, whole, *(batch(offset, 1) for offset in range(450, 460))))
    first, second = take(copying), take(copying)
    assert first is not None
    assert second is not None
    assert [(each.first_offset, each.last_offset, each.count) for each in (first, second)] == [
        (30, 129, 100),
        (130, 229, 100),
    ]
    copying.acked(first, 0)
    assert copying.position == 129
    copying.clear()
    assert copying.restart() == 230
    copying.put(fetched(230, 460, whole, *(batch(offset, 1) for offset in range(450, 460))))
    taken = []
    while (outgoing := take(copying)) is not None:
        taken.append((outgoing.first_offset, outgoing.last_offset))
    assert taken == [(230, 329), (330, 429), (430, 449), (450, 459)]


def test_small_batches_that_unfold_to_much_are_merged_in_parts_and_none_is_left_out() -> None:
    heard = Heard()
    copying = flow(heard)
    small = [compressed(offset, 900_000) for offset in range(40)]
    copying.put(fetched(0, 40, *small))
    taken = []
    while (outgoing := take(copying)) is not None:
        taken.append((outgoing.first_offset, outgoing.last_offset))
    assert len(taken) > 2
    assert [first for first, _ in taken] == [0, *(last + 1 for _, last in taken[:-1])]
    assert taken[-1][1] == 39
    assert heard.counters["merged"] == 40


def test_a_slow_link_merges_larger_batches_too() -> None:
    larger = flow(Heard())
    larger.put(fetched(0, 200, batch(0, 100), batch(100, 100)))
    outgoing = take(larger, slow_link=True)
    assert outgoing is not None
    assert outgoing.count == 200


def test_what_does_not_fit_into_a_merged_batch_comes_next() -> None:
    mixed = flow(Heard())
    mixed.put(fetched(0, 102, batch(0, 1), batch(1, 1), batch(2, 100)))
    assert [each.count for each in (take(mixed), take(mixed)) if each is not None] == [2, 100]


def test_the_position_waits_for_the_acknowledgement() -> None:
    waiting = flow(Heard(), 50)
    waiting.put(fetched(50, 150, batch(50, 100)))
    outgoing = take(waiting)
    assert waiting.position == 49
    assert outgoing is not None
    waiting.acked(outgoing, 0)
    assert waiting.position == 149


@pytest.mark.parametrize(
    ("bases", "others"),
    [
        pytest.param([7, 107, 207], [], id="nobody_else"),
        pytest.param([7, 132, 232], [(107, 25)], id="records_between_ours"),
        pytest.param([7, -1, 300], [], id="unknown_after_a_repetition"),
        pytest.param([107, 7, 107], [], id="a_target_that_lost_its_end"),
    ],
)
def test_records_of_others_on_the_target_are_told(bases: list[int], others: list[tuple[int, int]]) -> None:
    heard = Heard()
    copying = flow(heard)
    copying.put(fetched(0, 300, batch(0, 100), batch(100, 100), batch(200, 100)))
    for base in bases:
        outgoing = take(copying)
        assert outgoing is not None
        copying.acked(outgoing, base)
    assert heard.others == others


def test_the_position_does_not_pass_what_was_looked_at_and_not_sent() -> None:
    mixed = flow(Heard())
    mixed.put(fetched(0, 101, batch(0, 1), batch(1, 100)))
    outgoing = take(mixed)
    assert outgoing is not None
    mixed.acked(outgoing, 0)
    assert mixed.position == 0


def test_offsets_without_records_behind_the_last_batch_are_done() -> None:
    thinned = flow(Heard())
    thinned.put(fetched(0, 500, batch(0, 100)))
    outgoing = take(thinned)
    assert outgoing is not None
    thinned.acked(outgoing, 0)
    take(thinned)
    assert thinned.position == 499


def test_records_below_the_wanted_offset_are_left_out() -> None:
    middle = flow(Heard(), 70)
    middle.put(fetched(70, 100, batch(0, 100)))
    outgoing = take(middle)
    assert outgoing is not None
    assert (outgoing.first_offset, outgoing.count) == (70, 30)


def test_a_topic_that_begins_anew_is_read_from_its_beginning() -> None:
    anew = flow(Heard(), 5_000)
    anew.put(fetched(0, 100, batch(0, 100)))
    outgoing = take(anew)
    assert outgoing is not None
    assert outgoing.first_offset == 0


def corrupt(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


def test_a_corrupt_batch_stops_the_flow_in_front_of_it() -> None:
    heard = Heard()
    broken = flow(heard)
    broken.put(fetched(0, 300, batch(0, 100), corrupt(batch(100, 100)), batch(200, 100)))
    taken = [take(broken), take(broken), take(broken)]
    assert [each.count for each in taken if each is not None] == [100]
    assert [error.offset for error in heard.corrupt] == [100]
    assert broken.restart() == 100


@pytest.mark.parametrize(
    ("contents", "lost", "next_offset"),
    [
        pytest.param([corrupt(batch(100, 100)), batch(200, 100)], 100, 200, id="an_intact_batch_follows"),
        pytest.param([corrupt(batch(100, 100))], None, 100, id="nothing_follows"),
        pytest.param([corrupt(batch(100, 100)), corrupt(batch(200, 100))], None, 100, id="another_corrupt_one_follows"),
    ],
)
def test_a_corrupt_batch_is_skipped_up_to_the_next_intact_one(
    contents: list[bytes], lost: int | None, next_offset: int
) -> None:
    broken = flow(Heard(), 100)
    broken.put(fetched(100, 300, *contents))
    assert take(broken) is None
    assert (broken.skip_corrupt(), broken.restart()) == (lost, next_offset)


def test_a_corrupt_header_that_makes_a_batch_look_copied_already_does_not_lose_it() -> None:
    heard = Heard()
    broken = flow(heard)
    content = bytearray(batch(100, 100))
    content[23] ^= 0x80  # the sign of its last offset delta
    broken.put(fetched(0, 200, batch(0, 100), bytes(content)))
    taken = [take(broken), take(broken)]
    assert [each.count for each in taken if each is not None] == [100]
    assert broken.restart() == 100
    assert len(heard.corrupt) == 1


@pytest.mark.parametrize("damage", [0x01000000, 0x7FFFFF00], ids=["longer_than_what_came", "two_gigabytes"])
def test_a_batch_with_a_wrong_length_stops_the_flow_in_front_of_it(damage: int) -> None:
    heard = Heard()
    broken = flow(heard)
    content = bytearray(batch(100, 100))
    struct.pack_into(">i", content, 8, damage)
    broken.put(fetched(0, 200, batch(0, 100), bytes(content)))
    taken = [take(broken), take(broken)]
    assert [each.count for each in taken if each is not None] == [100]
    assert [error.offset for error in heard.corrupt] == [100]
    assert broken.restart() == 100


def test_small_batches_in_front_of_a_corrupt_one_are_copied() -> None:
    heard = Heard()
    broken = flow(heard)
    broken.put(fetched(0, 3, batch(0, 1), batch(1, 1), corrupt(batch(2, 1))))
    outgoing = take(broken)
    assert outgoing is not None
    assert (outgoing.count, broken.restart()) == (2, 2)


def unreadable(base_offset: int) -> bytes:
    """Its CRC is right, but its records are no records."""
    content = batch(base_offset, 1)
    return with_records(content, b"\x01" * (len(content) - HEADER.size))


def test_small_batches_around_one_that_cannot_be_read_are_merged_and_it_goes_alone_as_it_is() -> None:
    heard = Heard()
    odd = flow(heard)
    parts = [batch(offset, 1) for offset in range(10)]
    parts[4] = unreadable(4)
    odd.put(fetched(0, 10, *parts))
    taken = [take(odd) for _ in range(4)]
    assert [(each.first_offset, each.count) for each in taken if each is not None] == [(0, 4), (4, 1), (5, 5)]
    assert heard.corrupt == []
    assert heard.counters["merged"] == 9


def as_gzip(offset: int, records: bytes) -> bytes:
    return struct.pack(">q", offset) + stamp(Outgoing(records, 2, 0, 1, GZIP, 1_000, 1_000), -1, -1, -1)[8:]


def test_two_neighbours_that_cannot_be_read_go_alone_as_they_are_and_in_order() -> None:
    records = build([NewRecord(b"k", b"v", 1_000)] * 2).records
    good, too_many_bytes = compress(GZIP, records), compress(GZIP, records + b"junk")
    contents = [good, too_many_bytes, b"no gzip", good, good]
    heard = Heard()
    odd = flow(heard)
    odd.put(fetched(0, 10, *(as_gzip(2 * n, content) for n, content in enumerate(contents))))
    taken = []
    while (outgoing := take(odd)) is not None:
        taken.append(outgoing)
    assert [(each.first_offset, each.count) for each in taken] == [(0, 2), (2, 2), (4, 2), (6, 4)]
    assert [each.records for each in taken[:3]] == contents[:3]
    assert (heard.corrupt, heard.counters["merged"]) == ([], 2)


def test_a_batch_that_must_be_rewritten_and_cannot_be_read_stops_the_flow_in_front_of_it() -> None:
    heard = Heard()
    odd = flow(heard)
    odd.put(fetched(0, 9, batch(0, 2), patched(unreadable(2), last_delta=6)))
    taken = [take(odd), take(odd)]
    assert [each.count for each in taken if each is not None] == [2]
    assert [str(error) for error in heard.corrupt] == ["offset 2: a record in it has an impossible length"]
    assert odd.restart() == 2


def test_a_header_that_makes_no_sense_stops_the_flow_also_when_crcs_are_not_checked() -> None:
    heard = Heard()
    careless = flow(heard, check_crcs=False)
    careless.put(fetched(0, 300, batch(0, 100), patched(batch(100, 100), count=0, last_delta=-1), batch(200, 100)))
    taken = [take(careless), take(careless), take(careless)]
    assert [each.count for each in taken if each is not None] == [100]
    assert [error.offset for error in heard.corrupt] == [100]


def test_without_checking_crcs_a_wrong_one_passes() -> None:
    careless = flow(Heard(), check_crcs=False)
    careless.put(fetched(0, 100, corrupt(batch(0, 100))))
    outgoing = take(careless)
    assert outgoing is not None
    assert outgoing.count == 100


@pytest.mark.parametrize("stop", [True, False])
def test_what_was_fetched_is_given_back(stop: bool) -> None:
    given_back: list[int] = []
    piece = fetched(0, 100, batch(0, 100))
    piece._released = given_back.append
    released = flow(Heard())
    released.put(piece)
    if stop:
        released.clear()
    else:
        take(released)
        take(released)
    assert len(given_back) == 1


@pytest.mark.parametrize("size", [1, 100], ids=["merged", "as_they_are"])
def test_a_topic_made_again_begins_when_the_target_has_all_of_the_former_one(size: int) -> None:
    again = flow(Heard(), 0)
    again.put(fetched(0, size, batch(0, size), topic_id=b"old"))
    again.put(fetched(0, size, batch(0, size), topic_id=b"new"))
    former = take(again)
    assert former is not None
    assert (take(again), again.waiting(), again.position, again.topic_id) == (None, True, NOTHING_YET, b"old")
    again.acked(former, 0)
    assert (again.position, again.topic_id) == (size - 1, b"old")
    anew = take(again)
    assert anew is not None
    assert (anew.first_offset, anew.count) == (0, size)
    assert (again.position, again.topic_id) == (NOTHING_YET, b"new")
    again.acked(anew, size)
    assert (again.position, again.topic_id) == (size - 1, b"new")


def test_a_position_whose_topic_was_not_known_is_one_of_the_topic_that_is_read_on_from_it() -> None:
    unknown = flow(Heard(), 100)
    unknown.put(fetched(100, 200, batch(100, 100), topic_id=b"id"))
    assert take(unknown) is not None
    assert unknown.topic_id == b"id"


def test_behind_a_truncation_a_flow_goes_on_when_the_target_has_all_that_was_taken_before() -> None:
    back = flow(Heard(), 0)
    back.put(fetched(0, 200, batch(0, 100), batch(100, 100), epoch=3))
    back.put(fetched(100, 300, batch(100, 100), batch(200, 100), epoch=5))
    former = [take(back), take(back)]
    assert (take(back), back.waiting()) == (None, True)
    for number, each in enumerate(former):
        assert each is not None
        back.acked(each, 100 * number)
    assert back.moved() == Position(199, None, 3)
    again = [take(back)]
    assert back.moved() == Position(99, None, 3)
    again.append(take(back))
    for number, each in enumerate(again):
        assert each is not None
        assert each.first_offset == 100 + 100 * number
        back.acked(each, 200 + 100 * number)
        assert back.moved() == Position(199 + 100 * number, None, 5)


def test_a_position_that_is_the_same_again_behind_a_truncation_is_another_one() -> None:
    same = flow(Heard(), 100, leader_epoch=3)
    same.put(fetched(100, 200, batch(100, 100), epoch=3))
    same.put(fetched(100, 200, batch(100, 100), epoch=5))
    positions = []
    for number in range(2):
        outgoing = take(same)
        assert outgoing is not None
        same.acked(outgoing, 100 * number)
        positions.append(same.moved())
    assert positions == [Position(199, None, 3), Position(199, None, 5)]


def test_a_position_goes_with_the_epoch_of_its_own_record_and_not_with_that_of_what_follows() -> None:
    mixed = flow(Heard(), 100, leader_epoch=1)
    piece = fetched(100, 300, batch(100, 100), batch(200, 100))
    piece.epochs = [(100, 1), (200, 2)]
    mixed.put(piece)
    assert mixed.moved() == Position(99, None, 1)
    for number, epoch in enumerate((1, 2)):
        outgoing = take(mixed)
        assert outgoing is not None
        mixed.acked(outgoing, 100 * number)
        assert mixed.moved() == Position(199 + 100 * number, None, epoch)


def test_behind_offsets_that_are_gone_the_epoch_is_not_known_before_a_record_is_copied() -> None:
    gap = flow(Heard(), 100, leader_epoch=1)
    gap.put(fetched(200, 300, batch(200, 100), epoch=4))
    assert gap.moved() == Position(99, None, 1)
    outgoing = take(gap)
    assert outgoing is not None
    assert gap.moved() in (Position(199, None, -1), Position(NOTHING_YET, None, -1), None)
    gap.acked(outgoing, 0)
    assert gap.moved() == Position(299, None, 4)


def test_a_position_that_came_back_and_goes_back_has_the_epoch_that_the_fetcher_was_told() -> None:
    back = flow(Heard(), 100, leader_epoch=3)
    piece = fetched(50, 150, batch(50, 100), epoch=5)
    piece.epoch_before = 2
    back.put(piece)
    assert take(back) is not None
    assert back.moved() == Position(49, None, 2)


def test_what_is_read_again_after_a_refusal_is_asked_for_with_the_epoch_before_it() -> None:
    refused = flow(Heard(), 100, leader_epoch=1)
    piece = fetched(100, 300, batch(100, 100), batch(200, 100))
    piece.epochs = [(100, 1), (200, 2)]
    refused.put(piece)
    first = take(refused)
    assert first is not None
    assert take(refused) is not None
    refused.acked(first, 0)
    error = PartitionRefusedError("no")
    error.offset = 200
    refused.failed(error)
    assert (refused.restart(), refused.leader_epoch) == (200, 1)
