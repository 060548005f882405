"""Rows as CSV and as a table."""

from __future__ import annotations

import base64
import csv
import io
import json
from pathlib import Path

import pytest

from mirror_connect.query.results import Column, StoredRows, csv_lines, readable_bytes, table_lines

HEADERS = {
    "type": "array",
    "elementType": {
        "type": "struct",
        "fields": [{"name": "key", "type": "string"}, {"name": "value", "type": "binary"}],
    },
}
COLUMNS = [Column("offset", "long"), Column("value", "binary"), Column("headers", HEADERS), Column("offset", "double")]


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def row(*values: object) -> str:
    return json.dumps({str(number): value for number, value in enumerate(values)})


def test_csv_has_a_header_base64_and_nothing_for_null() -> None:
    rows = [row(2**63 - 1, encoded(b"a,\xff"), [{"key": "k", "value": encoded(b"v")}], None), row(1, None, [], 0.5)]
    found = list(csv.reader(io.StringIO("\n".join(csv_lines(COLUMNS, rows)))))
    assert found == [
        ["offset", "value", "headers", "offset"],
        [str(2**63 - 1), encoded(b"a,\xff"), '[{"key":"k","value":"dg=="}]', ""],
        ["1", "", "[]", "0.5"],
    ]


def test_numbers_keep_their_digits() -> None:
    line = '{"0":12345678901234567890.12345678901234567890,"1":1E+2,"2":{"a":1.10}}'
    columns = [Column("a", "decimal"), Column("b", "double"), Column("c", "map")]
    assert list(csv_lines(columns, [line]))[1] == '12345678901234567890.12345678901234567890,1E+2,"{""a"":1.10}"'


def test_a_table_shows_bytes_as_text_where_they_are_text() -> None:
    rows = [row(5, encoded(b'{"n":1}'), [{"key": "k", "value": encoded(b"v")}], 1), row(10, None, [], None)]
    assert list(table_lines(COLUMNS, rows)) == [
        "offset  value    headers                    offset",
        '     5  {"n":1}  [{"key":"k","value":"v"}]       1',
        "    10  NULL     []                           NULL",
    ]


@pytest.mark.parametrize(
    ("data", "shown"),
    [(b"", ""), ("größe".encode(), "größe"), (b"\xff\x00", "0xff00"), (b"\x1b[2J", "0x1b5b324a"), (b"a\nb", "a\nb")],
)
def test_bytes_for_people(data: bytes, shown: str) -> None:
    assert readable_bytes(data) == shown


def test_no_value_breaks_the_table() -> None:
    rows = [json.dumps({"0": "a\nb\x1b[2J" + "x" * 500}), json.dumps({"0": "漢字"})]
    lines = list(
        table_lines(
            [
                Column("c", "string"),
            ],
            rows,
        )
    )
    assert lines[0] == "c"
    assert lines[1].startswith("a\\nb\\u001b[2Jxxx")
    assert lines[1].endswith("x…")
    assert len(lines[1]) == 120
    assert lines[2] == "漢字"


def test_stored_rows_come_in_the_order_of_their_files_each_time(tmp_path: Path) -> None:
    # Python takes the first character for the end of a line, files have only the last.
    for number, line in ((10, '{"0":"c"}\n'), (2, '{"0":"a\u2028\x85b"}\n{"0":"b"}\n'), (0, "")):
        (tmp_path / f"part-{number:05}-x-c000.txt").write_text(line, "utf-8")
    (tmp_path / "_SUCCESS").touch()
    stored = StoredRows(tmp_path)
    for _ in range(2):
        assert [json.loads(each)["0"] for each in stored] == ["a\u2028\x85b", "b", "c"]
