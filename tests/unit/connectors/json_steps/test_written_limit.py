"""A null of JSON may become a large default, and an array may have many of them. What is written is bounded."""

from __future__ import annotations

import tracemalloc

import pytest

from mirror_connect.connectors.json_steps.connect_schema import Schema, Type
from mirror_connect.connectors.json_steps.payload import MOST_WRITTEN, reader_of, writer_of
from mirror_connect.connectors.record_errors import StepError

MIB = 1 << 20
TEXT = Schema(Type.STRING, optional=True, default="x" * MIB)
STRUCT = Schema(Type.STRUCT, fields={"a": TEXT, "b": TEXT})


def array(items: Schema) -> Schema:
    return Schema(Type.ARRAY, items=items)


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        pytest.param(array(TEXT), [None] * 2_000, id="array"),
        pytest.param(array(array(TEXT)), [[None] * 30] * 100, id="arrays_in_an_array"),
        pytest.param(array(STRUCT), [{"a": None, "b": None}] * 1_000, id="structs"),
        pytest.param(
            Schema(Type.MAP, keys=Schema(Type.STRING), items=TEXT), {str(each): None for each in range(2_000)}, id="map"
        ),
        pytest.param(
            Schema(Type.STRUCT, fields={str(each): array(TEXT) for each in range(100)}),
            {str(each): [None] * 30 for each in range(100)},
            id="fields_with_arrays",
        ),
    ],
)
def test_a_payload_that_would_become_too_large_fails_before_it_is(schema: Schema, payload: object) -> None:
    value = reader_of(schema, replace_nulls=True)(payload)
    write = writer_of(schema, numeric=False, replace_nulls=True)
    tracemalloc.start()
    try:
        with pytest.raises(StepError, match=f"more than {MOST_WRITTEN} characters"):
            write(value)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * MOST_WRITTEN


def test_what_is_not_too_large_is_written() -> None:
    schema = array(TEXT)
    value = reader_of(schema, replace_nulls=True)([None] * 20)
    written = writer_of(schema, numeric=False, replace_nulls=True)(value)
    assert written.count("x" * MIB) == 20
