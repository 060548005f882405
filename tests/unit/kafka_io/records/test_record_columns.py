"""Columns of records and back: against a plain reading of aiokafka's, pyarrow's own arrays, and compiled against Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from mirror_connect.kafka_io.records import compiled, varint
from mirror_connect.kafka_io.records.compression import compress
from mirror_connect.kafka_io.records.record_batch import CorruptBatchError, ProducerBatch
from mirror_connect.kafka_io.records.record_columns import (
    HEADERS,
    KEY,
    TIMESTAMP,
    VALUE,
    BytesColumn,
    Changes,
    HeadersColumn,
    KeepColumn,
    TimesColumn,
    read_columns,
    with_columns,
)
from mirror_connect.kafka_io.records.record_rewrite import rewrite
from mirror_connect.kafka_io.records.record_transforms import MOST_HEADERS, MOST_TRANSFORMED
from tests.fakes.encoded_batches import Plain, encode, some_records
from tests.fakes.rewritten_batches import encoded_record, offsets_of, only, records_of

ALL = (TIMESTAMP, KEY, VALUE, HEADERS)
HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
without_c = pytest.mark.parametrize("by", ["C", "Python"])


@pytest.fixture(autouse=True)
def _by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "by" in request.fixturenames and request.getfixturevalue("by") == "Python":
        monkeypatch.setattr(compiled, "functions", None)


def uncompressed(records: Sequence[Plain], from_offset: int = 0) -> ProducerBatch:
    (batch,) = rewrite(only(encode(records)), from_offset)
    return batch


def buffer(given: Any) -> pa.Buffer | None:
    return None if given is None else pa.py_buffer(given)


def as_array(column: BytesColumn, rows: int, kind: Any = None) -> Any:
    return pa.Array.from_buffers(
        kind or pa.binary(), rows, [buffer(column.validity), buffer(column.offsets), buffer(column.data)]
    )


def parts(array: Any) -> tuple[Any, ...]:
    return tuple(None if each is None else memoryview(each) for each in array.buffers())


def bytes_column(array: Any) -> BytesColumn:
    validity, offsets, data = parts(array)
    return BytesColumn(validity, offsets, b"" if data is None else data, array.offset)


def headers_column(array: Any) -> HeadersColumn:
    validity, offsets = parts(array)[:2]
    names, contents = (bytes_column(array.values.field(each)) for each in range(2))
    return HeadersColumn(validity, offsets, names, contents, array.offset)


def changes_of(sliced: int, keep: list[bool] | None, columns: dict[str, list[Any]]) -> Changes:
    """The columns as arrays, which begin in the middle of what lies before them."""

    def made(values: list[Any], kind: Any) -> Any:
        return pa.array([*values[:sliced], *values], kind)[min(sliced, len(values)) :]

    stamps = made(columns[TIMESTAMP], pa.int64()) if TIMESTAMP in columns else None
    bits = None if keep is None else made(keep, pa.bool_())
    return Changes(
        None if bits is None else KeepColumn(parts(bits)[1], bits.offset),
        None if stamps is None else TimesColumn(parts(stamps)[0], parts(stamps)[1], stamps.offset),
        bytes_column(made(columns[KEY], pa.binary())) if KEY in columns else None,
        bytes_column(made(columns[VALUE], pa.binary())) if VALUE in columns else None,
        headers_column(made(columns[HEADERS], HEADERS_TYPE)) if HEADERS in columns else None,
    )


@without_c
@given(some.integers(0, 1 << 30), some.integers(1, 30), some.booleans())
@settings(max_examples=50)
def test_columns_hold_what_a_consumer_reads(by: str, seed: int, count: int, gaps: bool) -> None:
    records = some_records(seed, count, first=70, gaps=gaps, size=20)
    found = read_columns(uncompressed(records), ALL)
    assert found.timestamps is not None
    assert found.keys is not None
    assert found.values is not None
    assert found.headers is not None
    times = pa.Array.from_buffers(pa.int64(), count, [None, buffer(found.timestamps.values)])
    assert times.to_pylist() == [each.timestamp * 1000 for each in records]
    assert as_array(found.keys, count).to_pylist() == [each.key for each in records]
    assert as_array(found.values, count).to_pylist() == [each.value for each in records]
    size = sum(len(each.headers) for each in records)
    names = as_array(found.headers.names, size, pa.string())
    structs = pa.StructArray.from_arrays([names, as_array(found.headers.contents, size)], ["key", "value"])
    lists = pa.Array.from_buffers(HEADERS_TYPE, count, [None, buffer(found.headers.offsets)], children=[structs])
    lists.validate(full=True)
    assert [[(each["key"], each["value"]) for each in row] for row in lists.to_pylist()] == [
        list(each.headers) for each in records
    ]


@without_c
@given(some.data())
@settings(max_examples=100)
def test_changed_columns_are_in_the_records_and_the_rest_stays(by: str, draw: some.DataObject) -> None:
    seed, count = draw.draw(some.integers(0, 1 << 30)), draw.draw(some.integers(1, 20))
    records = some_records(seed, count, first=70, gaps=draw.draw(some.booleans()), size=20)
    chance = random.Random(seed)
    fields = [None, b"", b"changed", chance.randbytes(200)]
    keep = draw.draw(some.none() | some.lists(some.booleans(), min_size=count, max_size=count))
    choices: dict[str, list[Any]] = {
        TIMESTAMP: [chance.choice([None, each.timestamp * 1000 + chance.randint(-9_000_000, 9)]) for each in records],
        KEY: chance.choices(fields, k=count),
        VALUE: chance.choices(fields, k=count),
        HEADERS: chance.choices([None, [], [("größe", b"1"), ("", None)]], k=count),
    }
    columns = {each: choices[each] for each in draw.draw(some.sets(some.sampled_from(ALL)))}
    batch = uncompressed(records)
    made = with_columns(batch, changes_of(draw.draw(some.integers(0, 9)), keep, columns), 3)
    wanted = []
    for row, each in enumerate(records):
        if keep is None or keep[row]:
            micros = columns[TIMESTAMP][row] if TIMESTAMP in columns else None
            wanted.append(
                Plain(
                    each.offset,
                    each.timestamp if micros is None else micros // 1000,
                    columns[KEY][row] if KEY in columns else each.key,
                    columns[VALUE][row] if VALUE in columns else each.value,
                    tuple(columns[HEADERS][row] or ()) if HEADERS in columns else each.headers,
                )
            )
    if not wanted:
        assert made is None
        return
    assert made is not None
    assert [each.content for each in records_of(made)] == [each.content for each in wanted]
    assert offsets_of(made) == [each.offset for each in wanted]
    assert (made.first_offset, made.last_offset, made.codec) == (batch.first_offset, batch.last_offset, 3)
    assert (made.base_timestamp, made.max_timestamp) == (wanted[0].timestamp, max(each.timestamp for each in wanted))


@pytest.mark.skipif(compiled.functions is None, reason="no C compiler was there at setup")
@given(some.data())
@settings(max_examples=200)
def test_compiled_and_python_give_the_same_bytes_and_errors(draw: some.DataObject) -> None:
    """Also of bytes that a broken or malicious producer may have written, and of columns that do not fit."""
    count = draw.draw(some.integers(1, 8))
    batch = uncompressed(some_records(draw.draw(some.integers(0, 1 << 30)), count, size=5))
    content = bytearray(batch.records)
    for _ in range(draw.draw(some.integers(0, 3))):
        at = draw.draw(some.integers(0, len(content) - 1))
        content[at : at + draw.draw(some.integers(0, 2))] = draw.draw(some.binary(max_size=12))
        if not content:
            break
    batch.records = bytes(content)
    batch.count = draw.draw(some.sampled_from([count, count, count + 1, 0, -5, (1 << 31) - 1]))
    batch.base_timestamp = draw.draw(some.sampled_from([0, 1 << 60, -(1 << 63), (1 << 63) - 1]))
    wants = tuple(draw.draw(some.sets(some.sampled_from(ALL))))
    raw = some.binary(max_size=50)
    fields = some.none() | some.builds(BytesColumn, some.none() | raw, raw, raw, some.integers(0, 40))
    whole = fields.filter(bool)
    changes = Changes(
        draw.draw(some.none() | some.builds(KeepColumn, raw, some.integers(0, 40))),
        draw.draw(some.none() | some.builds(TimesColumn, some.none() | raw, raw, some.integers(0, 40))),
        draw.draw(fields),
        draw.draw(fields),
        draw.draw(some.none() | some.builds(HeadersColumn, some.none() | raw, raw, whole, whole, some.integers(0, 40))),
    )

    def outcomes() -> list[object]:
        found: list[object] = []
        try:
            found.append(read_columns(batch, wants))
        except CorruptBatchError as error:
            found.append(str(error))
        try:
            found.append(shown(with_columns(batch, changes, 0)))
        except (CorruptBatchError, ValueError) as error:
            found.append(str(error))
        return found

    with pytest.MonkeyPatch.context() as patch:
        fast = outcomes()
        patch.setattr(compiled, "functions", None)
        assert fast == outcomes()


def shown(batch: ProducerBatch | None) -> object:
    return None if batch is None else (batch.records, batch.count, batch.base_timestamp, batch.max_timestamp)


@without_c
def test_a_batch_that_would_take_the_memory_is_refused(by: str) -> None:
    headers = varint.encode(MOST_HEADERS + 1) + b"\x00\x01" * (MOST_HEADERS + 1)
    many = ProducerBatch(encoded_record(rest=b"\x01\x01" + headers), 1, 9, 9, 0, 0, 0)
    with pytest.raises(CorruptBatchError, match=f"more than {MOST_HEADERS} headers"):
        read_columns(many, (HEADERS,))
    # Headers that nobody asked for are not read.
    assert read_columns(many, (KEY,)).keys is not None
    rows = 9
    batch = ProducerBatch(encoded_record() * rows, rows, 0, rows - 1, 0, 0, 0)
    enormous = pa.array([bytes(MOST_TRANSFORMED // 8)], pa.binary())
    offsets = pa.array([0, len(enormous[0].as_py())] * rows, pa.int32())
    with pytest.raises((CorruptBatchError, ValueError)):
        with_columns(batch, Changes(values=BytesColumn(None, parts(offsets)[1], parts(enormous)[2])), 0)


def test_a_codec_is_applied_to_what_is_left() -> None:
    batch = uncompressed(some_records(1, 5))
    made = with_columns(batch, Changes(), 4)
    assert made is not None
    assert made.records == compress(4, batch.records)
