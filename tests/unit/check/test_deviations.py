"""Rows of the tables of settings: which row is a setting's, and what a row says."""

from __future__ import annotations

import pytest

from mirror_connect.check.connector_deviations import OF_CHECKPOINT, OF_HEARTBEAT, OF_SOURCE
from mirror_connect.check.deviations import below_a_second, markdown_table, ours, row_of, yes
from mirror_connect.check.worker_deviations import OF_WORKERS

ROWS = (yes("a.*"), ours("a.b.*", note="see [there](x.md#y): `c`"), yes("a.b.c", note="n"))


@pytest.mark.parametrize(
    ("name", "row"), [("a.x", 0), ("a.b.x", 1), ("a.b.c", 2), ("a.b", 0), ("a", None), ("ab", None)]
)
def test_a_setting_has_the_row_that_names_it_or_the_longest_prefix(name: str, row: int | None) -> None:
    assert row_of(name, ROWS) is (None if row is None else ROWS[row])


def test_a_row_is_a_line_of_a_table_and_a_sentence() -> None:
    assert markdown_table(ROWS).splitlines()[2:4] == [
        "| `a.*` | yes | |",
        "| `a.b.*` | ours | see [there](x.md#y): `c` |",
    ]
    assert ROWS[1].text == "See there (docs/x.md): c."


@pytest.mark.parametrize(("value", "below"), [("0", True), ("-1", True), ("1", False), ("soon", False)])
def test_intervals_below_a_second(value: str, below: bool) -> None:
    assert below_a_second(value) is below


@pytest.mark.parametrize("rows", [OF_WORKERS, OF_SOURCE, OF_CHECKPOINT, OF_HEARTBEAT])
def test_no_setting_has_two_rows_that_differ(rows: tuple[object, ...]) -> None:
    names = [name for row in rows for name in row.names]  # type: ignore[attr-defined]
    twice = {name for name in names if names.count(name) > 1}
    assert twice <= {"socket.connection.setup.timeout.ms"}  # once for librdkafka, once for the others
