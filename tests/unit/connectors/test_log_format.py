"""The log can't be forged: one record is one line with any arguments."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as some

from mirror_connect.connectors.log_format import LineFormatter, one_line

FORMAT = LineFormatter("[then] %(levelname)s %(message)s (%(name)s)")


def formatted(text: str, error: BaseException | None = None) -> str:
    trace = (type(error), error, error.__traceback__) if error else None
    return FORMAT.format(logging.LogRecord("n", logging.INFO, "f", 1, "Connector %s", (text,), trace))


def test_a_line_feed_in_a_name_writes_no_line() -> None:
    assert formatted("a\n[then] ERROR forged (n)") == "[then] INFO Connector a\\n[then] ERROR forged (n) (n)"


@pytest.mark.parametrize(
    ("char", "shown"),
    [
        *(("\r", "\\r"), ("\x1b[2J", "\\x1b[2J"), ("\x85", "\\x85")),
        *(("\u2028", "\\u2028"), ("\u202e", "\\u202e"), ("\x00", "\\x00")),
    ],
)
def test_characters_that_move_the_cursor_are_shown(char: str, shown: str) -> None:
    assert one_line(f"a{char}b") == f"a{shown}b"


def test_text_of_any_language_stays() -> None:
    assert one_line("naïve Привет 日本 😀 [x]") == "naïve Привет 日本 😀 [x]"


@given(some.text())
def test_no_text_makes_more_than_one_line(text: str) -> None:
    assert len(formatted(text).splitlines()) == 1


def test_no_line_of_a_trace_looks_like_a_record() -> None:
    try:
        raise ValueError("bad\n[then] ERROR forged (n)\r\x1b[2J")
    except ValueError as error:
        lines = formatted("x", error).split("\n")
    assert [line for line in lines if line.startswith("[then]")] == ["[then] INFO Connector x (n)"]
    assert lines[-1] == "    [then] ERROR forged (n)\\r\\x1b[2J"


def test_a_trace_that_was_cleaned_before_is_the_one_that_is_shown() -> None:
    record = logging.LogRecord("n", logging.INFO, "f", 1, "x", (), (ValueError, ValueError("secret"), None))
    record.exc_text = "ValueError: [hidden]"
    assert FORMAT.format(record) == "[then] INFO x (n)\n    ValueError: [hidden]"
