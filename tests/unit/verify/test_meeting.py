import pytest

from mirror_connect.verify.meeting import by_bytes, by_content, explain, meet
from mirror_connect.verify.records import Record


def records(letters: str, first: int = 0) -> list[Record]:
    """A record for each letter; equal letters are equal records."""
    return [(first + at, 1000 + ord(letter), (None, letter.encode(), ())) for at, letter in enumerate(letters)]


@pytest.mark.parametrize(
    ("source", "target", "place"),
    [
        pytest.param("abcdef", "cdef", (2, 0), id="missing"),
        pytest.param("abcdef", "xyabcdef", (0, 2), id="foreign"),
        pytest.param("abcdef", "xbcdef", (1, 1), id="changed"),
        pytest.param("abcdef", "uvwxyz", None, id="nothing_in_common"),
        # One equal record alone is no meeting.
        pytest.param("abcdef", "xxcxxx", None, id="one_by_chance"),
    ],
)
def test_logs_meet_where_several_records_agree(source: str, target: str, place: tuple[int, int] | None) -> None:
    assert meet(records(source), records(target), by_content, last=False) == place


def test_at_the_end_of_both_logs_fewer_records_have_to_agree() -> None:
    source, target = records("abc"), records("xc")
    assert (meet(source, target, by_content, last=False), meet(source, target, by_content, last=True)) == (None, (2, 1))


@pytest.mark.parametrize(
    ("source", "target", "found"),
    [
        pytest.param("abc", "ac", {"in_place": [(0, 0), (2, 1)], "source_only": [1]}, id="missing"),
        pytest.param("ac", "abc", {"in_place": [(0, 0), (1, 2)], "target_only": [1]}, id="foreign"),
        pytest.param("abc", "abbc", {"in_place": [(0, 0), (1, 1), (2, 3)], "doubled": [(1, 2)]}, id="doubled"),
        pytest.param("abc", "axc", {"in_place": [(0, 0), (2, 2)], "changed": [(1, 1)]}, id="changed"),
    ],
)
def test_a_gap_is_explained_by_the_fewest_faults(source: str, target: str, found: dict[str, object]) -> None:
    gap = explain(records(source), records(target), by_content, whole=True)
    empty = {name: [] for name in ("in_place", "reordered", "doubled", "changed", "source_only", "target_only")}
    assert {name: getattr(gap, name) for name in empty} == {**empty, **found}


def test_of_two_that_changed_places_one_has_moved() -> None:
    gap = explain(records("ab"), records("ba"), by_content, whole=True)
    assert (len(gap.in_place), len(gap.reordered), gap.source_only, gap.target_only) == (1, 1, [], [])


def test_the_brokers_timestamps_are_left_out_by_bytes() -> None:
    one, other = records("a")[0], (0, 7, (None, b"a", ()))
    assert (by_bytes(one) == by_bytes(other), by_content(one) == by_content(other)) == (True, False)
