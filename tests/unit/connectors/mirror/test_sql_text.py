"""Spark SQL's text in pieces. Whether Spark divides it in the same way is in tests/spark/statement/test_sql_text.py."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from mirror_connect.connectors.mirror.sql_text import Kind, outside, pieces, place_of
from tests.fakes.sql_texts import sql_texts

MANY = settings(max_examples=2000)
OUTSIDE = ("SELECT", "key", "case", "1E+3", "1.5", "(", ")", "[", "]", "<", ">", ",", ".", "*/", "/*+", "a://b--c")
HIDDEN = (
    *("'('", "'\\'('", "''", '"["', '"\\"["', "r'\\'", "R'('", 'r"\\"', "`(`", "`--`", "$$ ( $$", "$t$ $$ [ $t$"),
    *("/* ( */", "/* /* ( */ ( */", "/*/* */*/", "-- (\n", "-- ( \\\n (\n", "--'\n", "/*'*/", "'/*'", "'--'"),
)


@MANY
@given(sql_texts)
def test_the_pieces_of_any_text_are_the_text(text: str) -> None:
    found = list(pieces(text))
    assert "".join(piece.text for piece in found) == text
    assert all(piece.text for piece in found)
    assert all(text.startswith(piece.text, piece.begin) for piece in found)
    assert [piece.begin for piece in found] == sorted({piece.begin for piece in found})


@MANY
@given(some.lists(some.tuples(some.sampled_from(OUTSIDE), some.sampled_from(HIDDEN)), max_size=12))
def test_what_is_outside_of_quotes_and_comments_is_found_and_nothing_else(parts: list[tuple[str, str]]) -> None:
    text = " ".join(f"{shown} {hidden}" for shown, hidden in parts)
    assert [piece.text for piece in outside(text)] == [shown for shown, _ in parts]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param("a'b", ["a", "'", "b"], id="a_quote_that_is_not_closed_hides_nothing"),
        pytest.param("'a\\' (", ["'", "a", "\\", "'", "("], id="nor_does_one_whose_end_is_escaped"),
        pytest.param("'a''(' (", ["("], id="a_quote_within_a_text"),
        pytest.param("`a``(` (", ["("], id="a_quote_within_a_name"),
        pytest.param("r'\\' ( ''", ["("], id="a_raw_text_escapes_nothing"),
        pytest.param("br'\\' ( '", ["br"], id="a_name_that_ends_with_r_makes_no_raw_text"),
        pytest.param("1E+3r'\\' (", ["1E+3", "("], id="a_number_ends_in_front_of_a_raw_text"),
        pytest.param("1*/* ( */2", ["1", "*/", "*", "(", "*/", "2"], id="a_star_takes_the_slash_behind_it"),
        pytest.param("/*+ a(b) */ c", ["/*+", "a", "(", "b", ")", "*/", "c"], id="a_hint"),
        pytest.param("/* /*+ */ (", ["("], id="a_hint_within_a_comment"),
        pytest.param("/* /* */ (", [], id="a_comment_that_is_not_closed"),
        pytest.param("$t$ ( $T$ (", [], id="a_text_in_dollars_that_is_not_closed"),
        pytest.param("$1$ (", ["$", "1", "$", "("], id="no_text_in_dollars"),
        pytest.param("a://b--c/*d(", ["a://b--c/", "*", "d", "("], id="a_path_is_a_name"),
        pytest.param("s3://--(", ["s3", ":", "/", "/"], id="digits_before_a_path_make_none"),
        pytest.param("value.end 1.end 2. end", ["value", ".", "end", "1", ".", "end", "2.", "end"], id="points"),
        pytest.param("²r'('", ["²"], id="a_character_that_is_no_letter_ends_a_name"),
        pytest.param("a\u00a0b", ["a", "b"], id="another_space"),
        pytest.param("", [], id="nothing"),
    ],
)
def test_quotes_and_comments_end_where_they_end_for_spark(text: str, wanted: list[str]) -> None:
    assert [piece.text for piece in outside(text)] == wanted


def test_a_piece_has_its_kind_and_place() -> None:
    assert [tuple(each) for each in pieces("a ='b'--c")] == [
        (Kind.WORD, "a", 0),
        (Kind.SPACE, " ", 1),
        (Kind.SIGN, "=", 2),
        (Kind.QUOTED, "'b'", 3),
        (Kind.COMMENT, "--c", 6),
    ]


@pytest.mark.parametrize(
    ("text", "index", "place"),
    [
        pytest.param("SELECT x", 7, "line 1, column 8", id="first_line"),
        pytest.param("SELECT\n  x", 9, "line 2, column 3", id="second_line"),
        pytest.param("SELECT", 99, "line 1, column 7", id="behind_the_end"),
        pytest.param("", 0, "line 1, column 1", id="empty"),
    ],
)
def test_a_character_has_a_line_and_a_column(text: str, index: int, place: str) -> None:
    assert place_of(text, index) == place
