"""The line about a process that a signal ended."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.ended_process import ended_line, read_ended_line, signal_named


def test_who_reads_the_line_gets_what_was_written() -> None:
    assert read_ended_line(ended_line(123, 9)) == (123, 9)


@pytest.mark.parametrize("line", ["", "ERROR Executor: Python worker exited", f"{ended_line(1, 2)} or so"])
def test_other_lines_are_none_of_these(line: str) -> None:
    assert read_ended_line(line) is None


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (9, "signal 9 (SIGKILL), as the kernel does it when memory is short"),
        (11, "signal 11 (SIGSEGV)"),
        (63, "signal 63"),
    ],
)
def test_a_signal_has_its_name(number: int, name: str) -> None:
    assert signal_named(number) == name
