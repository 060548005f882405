"""Equal batches, and the window of records with its holes and producers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pytest

from mirror_connect.verify.records import Record
from mirror_connect.verify.side import MOST_BYTES, UNKNOWN, Producer, Side, Timed, same_batch


@dataclass(frozen=True)
class Head:
    base_offset: int = 0
    last_offset: int = 9
    count: int = 10
    magic: int = 2
    base_timestamp: int = 5
    max_timestamp: int = 6
    codec: int = 1
    log_append_time: bool = False
    records: bytes = b"records"


@pytest.mark.parametrize("change", [{}, {"base_offset": 50, "last_offset": 59}], ids=["as_it_is", "elsewhere"])
def test_a_batch_is_the_same_wherever_it_lies(change: dict[str, int]) -> None:
    assert same_batch(Head(), replace(Head(), **change))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        {"last_offset": 10},
        {"count": 9},
        {"base_timestamp": 4},
        {"max_timestamp": 7},
        {"codec": 0},
        {"log_append_time": True, "records": b"Records"},
        {"log_append_time": True, "base_timestamp": 4},
        {"records": b"Records"},
        {"magic": 1},
    ],
    ids=",".join,
)
def test_a_batch_with_another_header_or_other_bytes_is_not_the_same(change: dict[str, object]) -> None:
    assert not same_batch(Head(), replace(Head(), **change))  # type: ignore[arg-type]


@pytest.mark.parametrize("source", [False, True], ids=["producers_times_at_the_source", "append_times_on_both_sides"])
def test_times_that_the_targets_broker_set_are_not_compared(source: bool) -> None:
    assert same_batch(Head(log_append_time=source), Head(log_append_time=True, max_timestamp=7))  # type: ignore[arg-type]


def test_append_times_of_the_source_alone_are_not_those_in_the_records() -> None:
    assert not same_batch(Head(log_append_time=True), Head())  # type: ignore[arg-type]


def test_batches_of_old_formats_are_never_called_the_same() -> None:
    old = Head(magic=1)
    assert not same_batch(old, old)


class ListSide(Side):
    """Records of a list, two at a time; `holes`: before which offset so many are missing."""

    def __init__(
        self, records: list[Record], *, pending: int = 0, holes: dict[int, int] | None = None, producers: str = ""
    ) -> None:
        super().__init__(lambda *_: None, holes=pending)
        self._left = records
        self._holes = dict(holes or {})
        self._producers = [(int(begin), (int(begin), 0)) for begin in producers.split()]

    @property
    def log(self) -> Timed:
        raise NotImplementedError

    async def ready(self) -> bool:
        return self.at < len(self.window) or await self._more()

    def take_batch(self) -> None: ...

    def decode(self) -> None: ...

    async def records_at(self, offset: int) -> list[Record]:
        return []

    async def seek(self, offset: int) -> None:
        self._forget(offset)

    async def identify(self, offsets: Iterable[int]) -> None: ...

    async def _more(self) -> bool:
        taken, self._left = self._left[:2], self._left[2:]
        self.window += taken
        self._expected = self.window[-1][0] + 1 if self.window else self._expected
        return bool(taken)


def some(*offsets: int, size: int = 1) -> list[Record]:
    return [(offset, 0, b"x" * size) for offset in offsets]


async def test_no_more_records_are_given_than_wanted_or_there_are() -> None:
    side = ListSide(some(*range(5)))
    assert [each[0] for each in await side.want(3)] == [0, 1, 2]
    assert [each[0] for each in await side.want(9)] == [0, 1, 2, 3, 4]


async def test_very_large_records_end_a_window_early() -> None:
    side = ListSide(some(*range(8), size=MOST_BYTES // 4))
    assert len(await side.want(8)) == 4


async def test_the_position_is_the_first_record_that_is_not_done() -> None:
    side = ListSide(some(3, 5))
    assert side.position == 0
    await side.want(2)
    side.drop(1)
    assert (side.position, side.left) == (5, 1)
    side.drop(1)
    assert (side.position, side.left, side.window) == (6, 0, [])


async def test_holes_are_counted_up_to_the_record_behind_and_pending_ones_at_the_end() -> None:
    side = ListSide(some(3, 5, 9), pending=7, holes={3: 3, 5: 1, 9: 3})
    await side.want(3)
    assert [side.holes(count) for count in range(4)] == [3, 4, 7, 14]


async def test_holes_that_explained_something_are_used_up() -> None:
    side = ListSide(some(3, 5), pending=7, holes={3: 3, 5: 1})
    await side.want(2)
    side.use_holes(2, 6)
    assert (side.holes(0), side.holes(1), side.holes(2)) == (0, 0, 5)


async def test_holes_of_what_is_dropped_count_for_what_follows_if_they_are_kept() -> None:
    side = ListSide(some(3, 5), holes={3: 3, 5: 1})
    await side.want(2)
    side.keep_holes(1)
    side.drop(1)
    assert side.holes(0) == 4
    side.keep_holes(1)
    side.drop(1)
    assert side.holes(0) == 4


async def test_holes_of_what_is_dropped_are_forgotten_otherwise() -> None:
    side = ListSide(some(3, 5), holes={3: 3, 5: 1})
    await side.want(2)
    side.drop(1)
    assert side.holes(0) == 1


async def test_a_record_was_written_by_the_producer_that_began_last() -> None:
    side = ListSide(some(2, 3, 4, 5), producers="3 5")
    await side.want(4)
    known: list[Producer] = [side.producer(at) for at in range(4)]
    assert known == [UNKNOWN, (3, 0), (3, 0), (5, 0)]


async def test_segments_begin_where_another_producer_does_but_not_at_the_first_record() -> None:
    side = ListSide(some(3, 4, 7, 8), producers="3 5 8")
    await side.want(4)
    assert (side.segments(4), side.segments(2), side.segments(0)) == ([2, 3], [], [])


async def test_who_seeks_forgets_windows_and_holes() -> None:
    side = ListSide(some(3, 5), pending=1, holes={3: 3})
    await side.want(1)
    await side.seek(40)
    assert (side.position, side.left, side.holes(0)) == (40, 0, 0)
