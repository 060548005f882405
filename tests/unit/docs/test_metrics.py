"""docs/metrics.md lists all series."""

from __future__ import annotations

from docs.generate_metrics import PAGE, renewed


def test_the_tables_of_series_are_made_from_those_that_declare_them() -> None:
    text = PAGE.read_text("utf-8")
    assert renewed(text) == text, "run: make docs"
