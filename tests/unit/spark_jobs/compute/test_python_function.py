"""What a user's function makes of records: all that it may return, and one line for all that it may not."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from mirror_connect.spark_jobs.compute.python_function import PADS, SCHEMA, PythonFunction
from tests.fakes import record_functions

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
TIME = pa.timestamp("us", "UTC")


def rows(count: int = 3, values: list[bytes | None] | None = None) -> Any:
    """As the task makes them (arrow_rows.Rows)."""
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    return pa.RecordBatch.from_arrays(
        [
            pa.array(range(count), pa.int64()),
            pa.array(["orders"] * count),
            pa.array(range(100, 100 + count), pa.int64()),
            pa.array([1000 * number for number in range(count)], pa.int64()).cast(TIME),
            pa.array([b"k"] * count, pa.binary()),
            pa.array([b"v"] * count if values is None else values, pa.binary()),
            pa.array([[{"key": "h", "value": None}]] * count, header),
            pa.nulls(count, pa.binary()),
        ],
        ["__row", "topic", "offset", "timestamp", "key", "value", "headers", "__pad"],
    )


def made(function: Any, given: Any = None) -> list[dict[str, Any]]:
    given = rows() if given is None else given
    found = list(PythonFunction("f:f", function).rows(given))
    for each in found:
        assert each.schema == SCHEMA
        each.validate(full=True)
    whole = [row for each in found for row in each.to_pylist()]
    assert [row["__row"] for row in whole] == given.column("__row").to_pylist()
    return whole


@pytest.mark.parametrize(
    "returned",
    [
        pytest.param(lambda _: {}, id="nothing_in_it"),
        pytest.param(lambda records: records, id="the_same_batch"),
        pytest.param(lambda records: pa.Table.from_batches([records]), id="the_same_table"),
        pytest.param(lambda records: {"value": [b"v"] * len(records), "keep": [True] * 3}, id="equal_values"),
    ],
)
def test_what_is_equal_is_no_change(returned: Any) -> None:
    assert [(row["__changed"], row["__keep"], row["__error"], row["value"]) for row in made(returned)] == [
        (0, True, None, None)
    ] * 3


@pytest.mark.parametrize(
    ("name", "column", "became"),
    [
        ("value", ["a", b"b", None], [b"a", b"b", None]),
        ("value", pa.array(["ä", None, "c"], pa.large_string()), ["ä".encode(), None, b"c"]),
        ("value", pa.array(["a", "b", "a"]).dictionary_encode(), [b"a", b"b", b"a"]),
        ("value", pa.nulls(3), [None] * 3),
        ("key", pa.chunked_array([[b"a"], [b"b", None]]), [b"a", b"b", None]),
        ("headers", [[("x", b"y")], [], None], [[{"key": "x", "value": b"y"}], [], None]),
        (
            "headers",
            pa.array([[{"key": "x", "value": "y"}]] * 3),
            [[{"key": "x", "value": b"y"}]] * 3,
        ),
        (
            "timestamp",
            pa.array([1, 2, 3], pa.timestamp("s")),
            [EPOCH + datetime.timedelta(seconds=each) for each in (1, 2, 3)],
        ),
        (
            "timestamp",
            pa.array([1_000_999] * 3, pa.timestamp("ns", "Europe/Berlin")),
            [EPOCH + datetime.timedelta(microseconds=1000)] * 3,
        ),
    ],
)
def test_columns_of_all_fitting_types_are_taken(name: str, column: Any, became: list[Any]) -> None:
    found = made(lambda _: {name: column})
    assert [row[name] for row in found] == became
    assert {row["__changed"] for row in found} == {1 << ("key", "value", "headers", "timestamp").index(name)}


def test_a_tombstone_stays_one_and_a_null_is_not_kept() -> None:
    given = rows(3, [None, b"v", None])
    found = made(lambda _: {"value": [b"x"] * 3, "keep": pa.array([True, None, False])}, given)
    assert [(row["value"], row["__keep"]) for row in found] == [(None, True), (b"x", False), (None, False)]


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        (None, "returned nothing: it must return a mapping of columns by their names, a RecordBatch or a Table of pyarrow"),
        ({"value": [b"x"]}, "returned 1 of value for 3 records: it must return one for each"),
        ({"keep": [True] * 4}, "returned 4 of keep for 3 records: it must return one for each"),
        ({"value": b"abc"}, "returned a bytes as value: it must be an array of pyarrow, or a list"),
        ({"value": [1, 2, 3]}, "returned a list as value that is none of binary, or string, which is written as UTF-8"),
        (
            {"key": pa.array([1, 2, 3])},
            "returned key of type int64: it must be binary, or string, which is written as UTF-8",
        ),
        ({"keep": pa.array([1, 0, 1])}, "returned keep of type int64: it must be bool"),
        ({"error": pa.array([1, 0, 1])}, "returned error of type int64: it must be string"),
        ({"timestamp": pa.array([1, 2, 3])}, "returned timestamp of type int64: it must be timestamp"),
        (
            {"headers": pa.array(["x"] * 3)},
            "returned headers of type string: it must be list<struct<key: string, value: binary>>",
        ),
        ({"topic": ["x"] * 3}, "returned another topic, which can't be changed"),
        ({"valeu": ["x"] * 3}, "returned a column 'valeu': there are key, value, headers, timestamp, keep, error"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_function_is_one_line_and_no_record_is_kept(returned: Any, text: str) -> None:
    found = made(lambda _: returned)
    assert {(row["__keep"], row["__error"], row["__changed"]) for row in found} == {(False, f"f:f {text}", -1)}


def test_records_that_fail_alone_are_found_and_their_texts_are_not_shown() -> None:
    found = made(record_functions.bad_at_tens, rows(20))
    failed = {row["__row"]: row["__error"] for row in found if row["__error"]}
    line = "f:f raised KeyError (line {} of record_functions.py)"
    place = failed[0].partition("(line ")[2].partition(" ")[0]
    assert failed == {0: line.format(place), 10: line.format(place), 7: "no customer", 17: "no customer"}
    assert [row["__keep"] for row in found] == [row["__row"] not in failed for row in found]
    assert {row["value"] for row in found if row["__keep"]} == {b"x"}


@pytest.mark.parametrize(
    "fails",
    [
        pytest.param(lambda records: records["no such"], id="pyarrow"),
        pytest.param(lambda _: json.loads("{"), id="json"),
    ],
)
def test_the_line_that_is_named_is_the_users_and_not_a_librarys(fails: Callable[[Any], Any]) -> None:
    (failed,) = {row["__error"] for row in made(fails)}
    line = fails.__code__.co_firstlineno
    assert failed.endswith(f"(line {line} of test_python_function.py)")


def test_a_record_may_have_no_time_before_1970_and_no_header_without_a_key() -> None:
    times = pa.array([None, -1, 5], pa.int64()).cast(TIME)
    assert [row["__error"] for row in made(lambda _: {"timestamp": times})] == [
        *["it was given no time, or one before 1970"] * 2,
        None,
    ]
    found = made(lambda _: {"headers": [[(None, b"x")], None, [("a", None)]]})
    assert [row["__error"] for row in found] == ["it was given a header without a key", None, None]


def test_without_a_function_all_rows_say_why() -> None:
    function = PythonFunction("f:f", None, "can't be used: there is none")
    assert [row["__error"] for each in function.rows(rows(2)) for row in each.to_pylist()] == [
        "f:f can't be used: there is none"
    ] * 2


def test_rows_without_numbers_push_the_others_on() -> None:
    pads = pa.RecordBatch.from_arrays([pa.nulls(2, pa.int64()), pa.array([b"x", b""], pa.binary())], ["__row", "__pad"])
    assert list(PythonFunction("f:f", None, "none").rows(pads)) == [PADS]
