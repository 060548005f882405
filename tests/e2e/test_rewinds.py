"""The comparison that allows nothing but jumps back, shown to find what it is there for. No broker, no Spark."""

from __future__ import annotations

import pytest

from tests.e2e.rewinds import Rewind, rewinds


@pytest.mark.parametrize(
    ("copy", "found"),
    [
        pytest.param("abcdef", [], id="the_same"),
        pytest.param("abcdcdef", [Rewind(4, 4, 2)], id="two_repeated"),
        pytest.param("abcabcabcdef", [Rewind(3, 3, 0), Rewind(6, 3, 0)], id="from_the_start_twice"),
        pytest.param("abcdefef", [Rewind(6, 6, 4)], id="at_the_end"),
    ],
)
def test_a_copy_with_jumps_back_is_one(copy: str, found: list[Rewind]) -> None:
    assert rewinds("abcdef", copy) == found


@pytest.mark.parametrize(
    "copy",
    [
        pytest.param("abdef", id="one_is_missing"),
        pytest.param("abcde", id="the_last_is_missing"),
        pytest.param("abcdXef", id="a_foreign_one"),
        pytest.param("abdcef", id="two_have_changed_places"),
        pytest.param("abcdecf", id="jumped_back_and_then_forward"),
        pytest.param("abcdefcd", id="jumped_back_and_never_came_to_the_end_again"),
        pytest.param("", id="nothing"),
    ],
)
def test_anything_else_is_none(copy: str) -> None:
    with pytest.raises(AssertionError):
        rewinds("abcdef", copy)


def test_equal_records_hide_no_jump() -> None:
    # Read greedily, the second "aab" would be taken for the third "a" of the source.
    assert rewinds("aabaac", "aabaabaac") == [Rewind(3, 3, 0)]


def test_it_jumps_only_where_it_may() -> None:
    assert rewinds("abcd", "abcbcd", {0, 3}) == [Rewind(3, 3, 1)]
    with pytest.raises(
        AssertionError, match="record 3 of the copy, 'b', is neither next nor a jump back: 'd' was next"
    ):
        rewinds("abcd", "abcbcd", {0, 2})
