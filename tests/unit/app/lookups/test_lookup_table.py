"""The content of lookups: files and records as tables, and what is wrong with them."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from mirror_connect.app.lookups import lookup_table
from mirror_connect.app.lookups.loaded_lookup import BadLookupError
from mirror_connect.app.lookups.lookup_table import (
    TopicRow,
    one_row_a_key,
    stream_of,
    table_of_file,
    table_of_records,
)
from mirror_connect.connectors.mirror.lookups import Format, columns_of

ALL = columns_of("s STRING, b BOOLEAN, t TINYINT, i INT, l BIGINT, d DOUBLE, c DECIMAL(6,2), day DATE, at TIMESTAMP")
CSV = (
    "other,at,day,c,d,l,i,t,b,s\r\n"
    'x,2026-11-26T12:00:00.5Z,2026-11-26,12.5,1e3,-9000000000,7,-8,true,"a,""b""\nc"\r\n'
    ",,,,,,,,,\r\n"
)
JSON = (
    '{"s": "a,\\"b\\"\\nc", "b": true, "t": -8, "i": 7, "l": -9000000000, "d": 1e3, "c": 12.5, "day": "2026-11-26", '
    '"at": "2026-11-26T12:00:00.5Z", "other": [1, {"x": null}]}\n'
    "\n"
    '{"s": null}\n'
)


def good(table: Any) -> None:
    first, second = table.to_pylist()
    assert {name: str(value) for name, value in first.items()} == {
        "s": 'a,"b"\nc',
        "b": "True",
        "t": "-8",
        "i": "7",
        "l": "-9000000000",
        "d": "1000.0",
        "c": "12.50",
        "day": "2026-11-26",
        "at": "2026-11-26 12:00:00.500000+00:00",
    }
    assert set(second.values()) == {None}


def test_files_of_each_kind_have_the_same_table() -> None:
    good(table_of_file(CSV.encode(), Format.CSV, ALL))
    good(table_of_file(b"\xef\xbb\xbf" + CSV.encode(), Format.CSV, ALL))
    good(table_of_file(JSON.encode(), Format.JSON_LINES, ALL))
    table = table_of_file(JSON.encode(), Format.JSON_LINES, ALL)
    out = io.BytesIO()
    other = table.set_column(2, "t", table.column("t").cast(pa.int64())).append_column("more", pa.array([1, 2]))
    pyarrow.parquet.write_table(other, out)
    good(table_of_file(out.getvalue(), Format.PARQUET, ALL))


def test_times_without_an_offset_are_in_utc_and_a_quoted_nothing_is_an_empty_text() -> None:
    columns = columns_of("at TIMESTAMP, s STRING")
    [row] = table_of_file(b'at,s\n2026-01-01 00:00:00,""\n', Format.CSV, columns).to_pylist()
    assert (str(row["at"]), row["s"]) == ("2026-01-01 00:00:00+00:00", "")


def test_a_file_without_rows_is_a_table_without_rows() -> None:
    columns = columns_of("id INT")
    assert len(table_of_file(b"", Format.JSON_LINES, columns)) == 0
    assert len(table_of_file(b"id\n", Format.CSV, columns)) == 0


@pytest.mark.parametrize(
    ("content", "kind", "line"),
    [
        (b"", Format.CSV, "no column id"),
        (b"ID,n\n1,2\n", Format.CSV, "no column id"),
        (b"id,id\n1,2\n", Format.CSV, "two columns id"),
        (b"id,n\n1\n", Format.CSV, "2 fields"),
        (b"id,n\n4711,secret\nx4711,y\n", Format.CSV, "column id has a value that is no INT"),
        (b"id,n\n99999999999,y\n", Format.CSV, "column id"),
        (b"id,n\n1,\xff\n", Format.CSV, "UTF-8"),
        (b'{"id": 1}\n{"id": 1', Format.JSON_LINES, "line 2"),
        (b'{"id": 1}\n\n{"id": "secret"}', Format.JSON_LINES, "line 3"),
        (b'{"id": 1}{"id": 2}\n{"id": 3}', Format.JSON_LINES, "line 1"),
        (b"[1]\n", Format.JSON_LINES, "line 1"),
        (b'{"id": 1.5}\n', Format.JSON_LINES, "line 1"),
        (b"id,n\n", Format.PARQUET, "no Parquet file"),
    ],
)
def test_what_is_wrong_is_named_by_its_place(content: bytes, kind: Format, line: str) -> None:
    with pytest.raises(BadLookupError) as wrong:
        table_of_file(content, kind, columns_of("id INT, n STRING"))
    assert line in str(wrong.value)
    assert "secret" not in str(wrong.value)
    assert "4711" not in str(wrong.value)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b'id,n\nk,"x\nl,2\nm,3\n', 2),
        (b'id,n\nk,"x\n\ny"\nl,"""\nm,3\n', 5),
        (b'id,n\r\nk,1\r\n"l,2\r\n', 3),
        (b'id,n\rk,1\rl,"', 3),
        (b'"id,n\nk,1\n', 1),
    ],
)
def test_a_quote_that_is_not_closed_is_named_by_its_line(content: bytes, line: int) -> None:
    with pytest.raises(BadLookupError, match=f"line {line} has a quote"):
        table_of_file(content, Format.CSV, columns_of("id STRING, n STRING"))


def test_quotes_that_are_closed_and_those_within_a_field_are_taken() -> None:
    content = b'id,n\na"b,"c,""d\n"\n"","e""\n,""f"\n\'"\',g"\n'
    found = table_of_file(content, Format.CSV, columns_of("id STRING, n STRING"))
    assert [tuple(each.values()) for each in found.to_pylist()] == [
        ('a"b', 'c,"d\n'),
        ("", 'e"\n,"f'),
        ("'\"'", 'g"'),
    ]


def test_a_line_may_end_as_on_an_old_mac_and_a_name_has_a_longest() -> None:
    columns = columns_of("id STRING, n INT")
    assert table_of_file(b"id,n\rk,1\rl,2\r", Format.CSV, columns).to_pylist() == [
        {"id": "k", "n": 1},
        {"id": "l", "n": 2},
    ]
    with pytest.raises(BadLookupError, match="more than 131072 characters"):
        table_of_file(b"id,n," + b"x" * 131_073 + b"\nk,1,2\n", Format.CSV, columns)


def test_a_parquet_file_must_have_the_columns() -> None:
    out = io.BytesIO()
    pyarrow.parquet.write_table(pa.table({"n": [1]}), out)
    with pytest.raises(BadLookupError, match="no column id"):
        table_of_file(out.getvalue(), Format.PARQUET, columns_of("id INT, n STRING"))


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(lambda rows: pa.array(["x" * (1 << 16)] * rows), id="text"),
        pytest.param(
            lambda rows: pa.array([b"x" * (1 << 16)] * rows, pa.binary(1 << 16)), id="bytes of a fixed length"
        ),
        pytest.param(lambda rows: pa.array([["x" * (1 << 16)]] * rows), id="lists"),
    ],
)
def test_a_parquet_file_that_has_one_value_in_many_rows_is_not_written_out(made: Callable[[int], Any]) -> None:
    out = io.BytesIO()
    pyarrow.parquet.write_table(pa.table({"id": made(4_000)}), out)
    assert len(out.getvalue()) < 1 << 20
    usual = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(pool)
    try:
        with pytest.raises(BadLookupError, match=r"it has \d+ MiB, and 32 MiB at most|no STRING"):
            table_of_file(out.getvalue(), Format.PARQUET, columns_of("id STRING"))
    finally:
        pa.set_memory_pool(usual)
    assert pool.max_memory() < 8 << 20


def test_what_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = columns_of("id INT")
    content = b"id\n" + b"1\n" * 100
    monkeypatch.setattr(lookup_table, "MOST_ROWS", 99)
    with pytest.raises(BadLookupError, match="100 rows"):
        table_of_file(content, Format.CSV, columns)
    monkeypatch.undo()
    monkeypatch.setattr(lookup_table, "MOST_BYTES", 100)
    with pytest.raises(BadLookupError, match="at most"):
        table_of_file(content, Format.CSV, columns)


def row(offset: int, key: bytes, value: bytes, timestamp: int = 0, partition: int = 0) -> TopicRow:
    return TopicRow(timestamp, partition, offset, key, value)


def test_records_are_rows_in_the_order_of_their_times_with_their_keys() -> None:
    found = table_of_records(
        [row(3, b"c", b' {"n":\n 3}\r\n', 30), row(1, b"\xff", b"{}", 20, 1), row(2, "ü".encode(), b'{"n": 2}', 10)],
        columns_of("n INT"),
    )
    assert found.to_pylist() == [{"n": 2, "key": "ü"}, {"n": None, "key": None}, {"n": 3, "key": "c"}]
    assert table_of_records([], columns_of("n INT")).to_pylist() == []
    own = table_of_records([row(1, b"a", b'{"Key": 1}')], columns_of("Key INT"))
    assert own.to_pylist() == [{"Key": 1}]


@pytest.mark.parametrize(
    "value", [b"", b"null", b"[1]", b'{"n": "x"}', b'{"n": 1', b'{"n": 1}{"n": 2}', b'{"n":"\xff"}']
)
def test_a_record_that_is_no_row_is_named_by_its_place(value: bytes) -> None:
    with pytest.raises(BadLookupError, match=r"record at 4-17 is .*: write a right value with its key, or a tombstone"):
        table_of_records([row(1, b"a", b"{}"), row(17, b"b", value, 5, 4)], columns_of("n INT"))


def test_of_rows_with_the_same_key_the_last_one_stays_or_none_is_taken() -> None:
    table = pa.table({"a": ["x", "y", "x", None, "x", None], "b": [1, 1, 2, 1, 1, 1], "n": range(6)})
    assert one_row_a_key(table, ["a"], last_wins=True).column("n").to_pylist() == [1, 4]
    assert one_row_a_key(table, ["a", "b"], last_wins=True).column("n").to_pylist() == [1, 2, 4]
    with pytest.raises(BadLookupError, match="2 rows have the same a and b, the first is row 1: "):
        one_row_a_key(table, ["a", "b"], last_wins=False)
    # Rows without a key are left out, and count as the rows that they are.
    table = pa.table({"a": [None, "x", None, "alice@example.org", "y", "alice@example.org"]})
    with pytest.raises(BadLookupError) as caught:
        one_row_a_key(table, ["a"], last_wins=False)
    assert str(caught.value).startswith("2 rows have the same a, the first is row 4: ")
    assert "alice" not in str(caught.value)
    table = pa.table({"a": ["x", "y", "x", None, "x", None], "b": [1, 1, 2, 1, 1, 1], "n": range(6)})
    assert one_row_a_key(table, ["n"], last_wins=False) == table


def test_a_stream_is_read_as_the_table() -> None:
    table = table_of_file(JSON.encode(), Format.JSON_LINES, ALL)
    with pa.ipc.open_stream(stream_of(table)) as stream:
        assert stream.read_all() == table
