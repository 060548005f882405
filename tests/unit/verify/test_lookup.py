"""The target's next records are found in the source: by timestamp, among the last ones, or at the beginning."""

from __future__ import annotations

from typing import cast

import pytest

from mirror_connect.verify.comparison import Comparison
from mirror_connect.verify.lookup import Lookup
from mirror_connect.verify.meeting import by_content
from mirror_connect.verify.missing_ranges import MissingRanges
from mirror_connect.verify.records import Record


def records(letters: str, first: int = 0) -> list[Record]:
    """A record for each letter; equal letters are equal records."""
    return [(first + at, 1000 + ord(letter), (None, letter.encode(), ())) for at, letter in enumerate(letters)]


class Source:
    """A log of letters, read ten at a time; `times`: whether its records are found by their timestamps."""

    def __init__(self, letters: str, *, times: bool = True) -> None:
        self.records = records(letters)
        self.times = times
        self.reads: list[int] = []

    @property
    def log(self) -> Source:
        return self

    async def offset_at(self, timestamp: int) -> int | None:
        return next((each[0] for each in self.records if self.times and each[1] >= timestamp), None)

    async def records_at(self, offset: int) -> list[Record]:
        self.reads.append(offset)
        return [each for each in self.records if each[0] >= offset][:10]


class Compared:
    def __init__(self, source: Source, *, start: int = 0, done_to: int | None = None) -> None:
        self.source = source
        self.start = start
        self.done_to = len(source.records) if done_to is None else done_to
        self.timestamps = True
        self.missing = MissingRanges()

    def content(self, record: Record) -> object:
        return by_content(record)


def lookup(compared: Compared) -> Lookup:
    return Lookup(cast("Comparison", compared))


async def test_records_are_found_by_their_timestamp_with_one_look() -> None:
    source = Source("abcdefghijklmnop")
    assert await lookup(Compared(source)).find(records("ijkl", 70), 4) == 8
    assert source.reads == [8]


async def test_records_whose_time_leads_nowhere_are_found_in_what_came_last() -> None:
    source = Source("abcdefghijklmnop", times=False)
    assert await lookup(Compared(source)).find(records("ijkl", 70), 4) == 8


async def test_nothing_in_front_of_the_start_is_found() -> None:
    source = Source("abcdabcd")
    assert await lookup(Compared(source, start=2)).find(records("abcd", 70), 4) == 4


async def test_records_of_the_beginning_are_found_there() -> None:
    source = Source("abcd" + "x" * 3000, times=False)
    assert await lookup(Compared(source)).find(records("abcd", 70), 4) == 0


async def test_records_that_the_source_lacks_are_not_found() -> None:
    assert await lookup(Compared(Source("abcdefgh"))).find(records("zyxw", 70), 4) is None


async def test_after_many_misses_fewer_lookups_are_made() -> None:
    source = Source("abcd", times=False)
    found = lookup(Compared(source))
    made = []
    for _ in range(70):
        before = len(source.reads)
        await found.find(records("zyxw"), 4)
        made.append(len(source.reads) > before)
    # All of the first 32, the next one as it is a power of two, and then the one after 64 misses.
    assert [at for at, each in enumerate(made) if each] == [*range(33), 64]


@pytest.mark.parametrize(
    ("wanted", "least", "there", "place"),
    [
        pytest.param("abcd", 4, "xabcdx", 101, id="all_of_them"),
        pytest.param("abcd", 4, "abcxxabcd", 105, id="not_where_fewer_agree"),
        pytest.param("abcd", 2, "abxxabcx", 104, id="where_most_agree"),
        pytest.param("abcd", 4, "xxabc", 102, id="up_to_the_end_of_what_there_is"),
        pytest.param("abcd", 4, "abcxxx", None, id="too_few"),
        pytest.param("abcd", 1, "dcb", None, id="the_first_one_is_not_there"),
    ],
)
def test_the_place_is_where_most_records_agree(wanted: str, least: int, there: str, place: int | None) -> None:
    found = lookup(Compared(Source("")))
    assert found.offset_of(records(wanted), least, records(there, 100)) == place
