"""The pieces of a fetch that the caller gets: their bytes, the positions after them, and the memory that they count for."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch
from mirror_connect.kafka_io.consumer.fetch_budget import FetchBudget
from mirror_connect.kafka_io.consumer.fetch_handover import FetchHandover
from mirror_connect.kafka_io.consumer.fetch_state import PartitionFetchState
from mirror_connect.kafka_io.protocol.fetch import FetchedPartition
from tests.fakes.fetched_copy import A0, B0
from tests.fakes.source_cluster import batch

LIMIT = 1_000
FRAME = 300


class Handover:
    """A handover with what it gave: `came` the fetches, `dirty` the partitions, `rooms` how often room became free."""

    def __init__(self) -> None:
        self.budget = FetchBudget(LIMIT, LIMIT, LIMIT)
        self.came: list[CompletedFetch] = []
        self.dirty: list[TopicPartition] = []
        self.rooms = 0
        self._handover = FetchHandover(
            self.budget, self.came.append, lambda state: self.dirty.append(state.key), self._room
        )

    def give(self, *brought: tuple[PartitionFetchState, bytes]) -> list[CompletedFetch]:
        pieces = [(state, fetched(state.key, records)) for state, records in brought]
        self._handover.give(pieces, FRAME)
        return self.came

    def _room(self) -> None:
        self.rooms += 1


@pytest.fixture
def handover() -> Handover:
    return Handover()


def fetched(partition: TopicPartition, records: bytes) -> FetchedPartition:
    return FetchedPartition(*partition, 0, 500, 400, 3, ((7, 9),), -1, memoryview(records))


def state_at(position: int, partition: TopicPartition = A0) -> PartitionFetchState:
    return PartitionFetchState(partition, position, b"t" * 16, 4)


def test_a_piece_has_the_offsets_that_the_broker_sent_and_the_epochs_of_its_batches(handover: Handover) -> None:
    (piece,) = handover.give((state_at(15), batch(10, 10, epoch=5) + batch(20, 10, epoch=6)))
    assert (piece.partition, piece.fetch_offset, piece.next_offset) == (A0, 15, 30)
    assert (piece.high_watermark, piece.last_stable_offset, piece.log_start, piece.aborted) == (500, 400, 3, ((7, 9),))
    assert (piece.topic_id, list(piece.epochs), piece.epoch_before) == (b"t" * 16, [(10, 5), (20, 6)], 4)


def test_the_next_fetch_begins_after_the_piece_with_its_epoch(handover: Handover) -> None:
    state = state_at(10)
    handover.give((state, batch(10, 10, epoch=6)))
    assert (state.position, state.last_epoch, handover.dirty) == (20, 6, [A0])


def test_a_batch_that_is_cut_off_is_left_out(handover: Handover) -> None:
    (piece,) = handover.give((state_at(0), batch(0, 10) + batch(10, 10)[:60]))
    assert (bytes(piece.buffer), piece.next_offset) == (batch(0, 10), 10)


def test_without_one_whole_batch_all_bytes_come_and_the_position_stays(handover: Handover) -> None:
    state = state_at(12)
    (piece,) = handover.give((state, batch(12, 10)[:60]))
    assert (bytes(piece.buffer), state.position) == (batch(12, 10)[:60], 12)


def test_epochs_that_prove_nothing_are_not_passed_on(handover: Handover) -> None:
    state = state_at(0)
    state.does_without_epochs()
    (piece,) = handover.give((state, batch(0, 10, epoch=5)))
    assert (list(piece.epochs), state.last_epoch) == ([], -1)


def test_a_frame_counts_as_a_whole_until_its_last_piece_is_released(handover: Handover) -> None:
    first, second = handover.give((state_at(0), batch(0, 10)), (state_at(0, B0), batch(0, 10)))
    used = [handover.budget.used]
    for piece in (first, second):
        piece.release()
        used.append(handover.budget.used)
    assert used == [FRAME, FRAME, 0]


def test_pieces_are_copied_and_count_alone_when_the_buffer_is_half_full(handover: Handover) -> None:
    handover.budget.take(LIMIT // 2 + 1)
    before = handover.budget.used
    small, large = handover.give((state_at(0), batch(0, 10)), (state_at(0, B0), batch(0, 10, size=150)))
    assert handover.budget.used == before + 250
    small.release()
    assert handover.budget.used == before + 150
    large.release()
    assert handover.budget.used == before


def test_a_copied_piece_does_not_keep_the_frame_alive(handover: Handover) -> None:
    handover.budget.take(LIMIT // 2 + 1)
    records = batch(0, 10)
    pieces = handover.give((state_at(0), records), (state_at(0, B0), records))
    assert [piece.buffer.obj is records for piece in pieces] == [False, False]


def test_one_piece_alone_is_not_copied_as_it_fills_its_frame(handover: Handover) -> None:
    handover.budget.take(LIMIT // 2 + 1)
    records = batch(0, 10)
    (piece,) = handover.give((state_at(0), records))
    assert piece.buffer.obj is records


def test_a_partition_is_loaded_from_its_first_piece_until_its_last_release(handover: Handover) -> None:
    state = state_at(0)
    handover.give((state, batch(0, 10)))
    first, second = handover.give((state, batch(10, 10)))
    loaded = [(handover.budget.loaded_partitions, state.unreleased, state.released)]
    for piece in (first, second):
        piece.release()
        loaded.append((handover.budget.loaded_partitions, state.unreleased, state.released))
    assert loaded == [(1, 200, 0), (1, 100, 100), (0, 0, 200)]


def test_each_release_is_reported_once(handover: Handover) -> None:
    (piece,) = handover.give((state_at(0), batch(0, 10)))
    piece.release()
    piece.release()
    assert handover.rooms == 1
