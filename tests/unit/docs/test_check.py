"""docs/check.md shows what the command prints."""

from __future__ import annotations

from docs.generate_check_example import PAGE, renewed


def test_the_example_is_what_the_command_prints() -> None:
    page = PAGE.read_text("utf-8")
    assert renewed(page) == page, "run: make docs"
