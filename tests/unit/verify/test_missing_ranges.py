import pytest

from mirror_connect.verify import missing_ranges
from mirror_connect.verify.missing_ranges import MissingRanges


def ranges(*offsets: int) -> MissingRanges:
    made = MissingRanges()
    for offset in offsets:
        made.add(offset, offset - 1)
    return made


def held(found: MissingRanges, to: int = 20) -> list[int]:
    return [offset for offset in range(to) if offset in found]


def test_offsets_that_follow_each_other_are_one_range() -> None:
    found = ranges(3, 4, 5, 9)
    assert (held(found), found.first) == ([3, 4, 5, 9], 3)


def test_what_lies_between_two_missing_records_and_is_none_belongs_to_their_range() -> None:
    found = MissingRanges()
    found.add(3, 2)
    # Offset 4 is a transaction's marker.
    found.add(5, 3)
    assert held(found) == [3, 4, 5]


@pytest.mark.parametrize(
    ("first", "last", "left"),
    [
        pytest.param(3, 6, [], id="whole"),
        pytest.param(4, 5, [3, 6], id="from_the_middle"),
        pytest.param(0, 4, [5, 6], id="from_the_beginning"),
        pytest.param(6, 9, [3, 4, 5], id="from_the_end"),
        pytest.param(7, 9, [3, 4, 5, 6], id="nothing"),
    ],
)
def test_what_is_found_is_missing_no_more(first: int, last: int, left: list[int]) -> None:
    found = ranges(3, 4, 5, 6)
    found.take(first, last)
    assert held(found) == left


def test_whether_any_of_some_offsets_is_missing() -> None:
    found = ranges(3, 4, 9)
    assert [found.any(*span) for span in ((0, 2), (0, 3), (4, 8), (5, 8), (5, 9), (10, 20))] == [
        False, True, True, False, True, False,
    ]  # fmt: skip


def test_from_where_there_is_no_room_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_ranges, "MOST", 2)
    found = MissingRanges()
    assert [found.add(offset, offset - 1) for offset in (2, 5, 8, 11)] == [True, True, False, False]
    assert (held(found), found.full_from) == ([2, 5], 8)
