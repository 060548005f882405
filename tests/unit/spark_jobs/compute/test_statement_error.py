"""Where in a statement an error is, as one line says it."""

from __future__ import annotations

from mirror_connect.spark_jobs.compute.statement_error import StatementError


def test_an_error_has_the_place_of_its_character() -> None:
    assert StatementError("it is wrong", 9).line("SELECT\n  x") == "it is wrong (line 2, column 3)"


def test_an_error_without_a_place_is_its_problem_alone() -> None:
    assert StatementError("it is wrong").line("SELECT x") == "it is wrong"
