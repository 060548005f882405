"""Where in a statement an error is, as one line says it."""

from __future__ import annotations

import pytest

from mirror_connect.spark_jobs.compute.statement_error import StatementError, place_of


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
    assert StatementError("it is wrong", index).line(text) == f"it is wrong ({place})"


def test_an_error_without_a_place_is_its_problem_alone() -> None:
    assert StatementError("it is wrong").line("SELECT x") == "it is wrong"
