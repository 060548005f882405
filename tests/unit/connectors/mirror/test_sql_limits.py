"""A text that is too long or too deep is refused in one line, with what was found. Quotes and comments count for nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from mirror_connect.connectors.mirror.sql_limits import (
    MOST_CASES,
    MOST_CHARACTERS,
    MOST_LAMBDAS,
    MOST_NESTED,
    MOST_PIECES,
    too_much,
    too_much_of_a_statement,
)
from tests.fakes.sql_texts import sql_texts

MANY = settings(max_examples=2000)
DEEP = "([" * MOST_NESTED
CASE = "CASE WHEN key IS NULL THEN "


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"SELECT '{DEEP}' AS key", id="text"),
        pytest.param(f'SELECT "{DEEP}" AS key', id="text_in_double_quotes"),
        pytest.param(f"SELECT r'{DEEP}\\' AS key", id="raw_text"),
        pytest.param(f"SELECT `{DEEP}` AS key", id="name"),
        pytest.param(f"SELECT $a${DEEP}$a$ AS key", id="text_in_dollars"),
        pytest.param(f"SELECT 1 -- {DEEP}\n", id="comment"),
        pytest.param(f"SELECT /* ' {DEEP} */ 1", id="comment_of_lines"),
        pytest.param("SELECT " + "offset < 1 OR " * 60 + "offset << 2 > 1", id="comparisons"),
        pytest.param("SELECT " + "value.array < 1 OR " * 60 + "true", id="a_field_named_array"),
        pytest.param("SELECT " + "(1) + [1] + " * 60 + "1", id="beside_each_other"),
        pytest.param("SELECT " + f"{CASE}1 END + " * 60 + "1", id="cases_beside_each_other"),
        pytest.param("SELECT " + "value.case + " * 60 + "1", id="a_field_named_case"),
        pytest.param("SELECT " + f"{CASE}.5 END + {CASE}x::ARRAY<INT> END + {CASE}'a' END + " * 20 + "1", id="ends"),
        pytest.param("SELECT " + f"{CASE}2. END + {CASE}value.end END + {CASE}[1] END + " * 20 + "1", id="more_ends"),
        pytest.param("SELECT " + "transform(a, x -> x + 1), f(x -> 1, 2), " * 60 + "1", id="lambdas_beside_each_other"),
        pytest.param("SELECT " + "(" * MOST_NESTED + ")" * MOST_NESTED, id="as_deep_as_it_may_be"),
        pytest.param("SELECT " + CASE * MOST_CASES + "1" + " END" * MOST_CASES, id="as_many_cases_as_there_may_be"),
        pytest.param("SELECT f(" + "x -> " * MOST_LAMBDAS + "1)", id="as_many_lambdas_as_there_may_be"),
        pytest.param("x" * MOST_CHARACTERS, id="as_long_as_it_may_be"),
        pytest.param("a," * (MOST_PIECES // 2) + " /* no word */ -- no sign", id="as_many_words_as_there_may_be"),
    ],
)
def test_what_is_not_nested_is_not_counted(text: str) -> None:
    assert too_much_of_a_statement(text) is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x" * 20_001, "it has 20,001 characters, and at most 20,000 are taken"),
        ("1," * 2_501, "it has 5,002 words and signs, and at most 5,000 are taken"),
        ("SELECT\n" + "(" * 73, "it has 73 brackets within each other, and at most 50 are taken (line 2, column 51)"),
        ("(1 > " * 60 + "1" + ")" * 60, "it has 60 brackets within each other"),
        ("(1 >> [" * 26, "it has 52 brackets within each other"),
        ("(ARRAY<" * 26, "it has 52 brackets within each other"),
        ("STRUCT /* a */ <b: " * 51, "it has 51 brackets within each other"),
        ("('(' " * 51, "it has 51 brackets within each other"),
        ("(/* ) */" * 51, "it has 51 brackets within each other"),
        ("(`)`" * 51, "it has 51 brackets within each other"),
        ("(/*+ ) " * 51, None),
        ("' " + "(" * 51, "it has 51 brackets within each other"),
        ("abc://--(" + "(" * 50, "it has 51 brackets within each other"),
        (f"{CASE}(" * 21, "it has 21 CASE within each other, and at most 20 are taken"),
        ("caſe when " * 21, "it has 21 CASE within each other"),
        ("CASE WHEN value.end THEN " * 21, "it has 21 CASE within each other"),
        ("CASE WHEN ')' THEN " * 21, "it has 21 CASE within each other"),
        ("CASE WHEN end THEN " * 21, "it has 21 CASE within each other"),
        ("CASE WHEN 1 + end THEN " * 21, "it has 21 CASE within each other"),
        ("CASE WHEN x COLLATE end THEN " * 21, "it has 21 CASE within each other"),
        ("CASE end WHEN 1 THEN " * 21, "it has 21 CASE within each other"),
        ("f(" + "x -> " * 21, "it has 21 -> within each other, and at most 20 are taken (line 1, column 105)"),
        ("f(x -> " * 21, "it has 21 -> within each other"),
    ],
)
def test_a_line_has_what_was_found_and_the_limit(text: str, line: str | None) -> None:
    found = too_much_of_a_statement(text)
    if line is None:
        assert found is None
    else:
        assert found is not None
        assert found.startswith(line)


def test_a_schema_may_have_many_words_and_is_not_deep_either() -> None:
    assert too_much("a INT," * 3_000) is None
    assert too_much("a STRUCT<b: " * 51) is not None
    assert too_much("x" * (MOST_CHARACTERS + 1)) is not None


@MANY
@given(some.integers(0, 60), some.sampled_from(["(", "[", "ARRAY<", "map\n<", "f("]), some.data())
def test_brackets_within_quotes_and_comments_never_count(depth: int, bracket: str, data: some.DataObject) -> None:
    hidden = data.draw(some.sampled_from([f"'{DEEP}'", f"/*{DEEP})*/", f"--{DEEP})\n", f"`{DEEP})`", "')'", '"]"']))
    found = too_much_of_a_statement(f"{bracket} {hidden} " * depth)
    assert (found is None) == (depth <= MOST_NESTED), found
    if found is not None:
        assert found.startswith(f"it has {depth} brackets within each other")


@MANY
@given(sql_texts)
def test_any_text_has_an_answer_of_one_line(text: str) -> None:
    assert too_much_of_a_statement(text) is None
    deep = too_much_of_a_statement("(" * (MOST_NESTED + 1) + text)
    assert deep is not None
    assert "\n" not in deep
