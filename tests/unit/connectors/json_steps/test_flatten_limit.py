"""Flatten repeats outer names in all inner ones. That is bounded: a record of 1 MB could become gigabytes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from mirror_connect.connectors.json_steps.connect_schema import Schema, Type, plain
from mirror_connect.connectors.json_steps.fields import MOST_OF_NAMES, Flatten
from mirror_connect.connectors.json_steps.with_schemas import changed
from mirror_connect.connectors.record_errors import StepError

MIB = 1 << 20


def nested(levels: int, name: str, leaves: int) -> dict[str, Any]:
    value: dict[str, Any] = {str(number): number for number in range(leaves)}
    for _ in range(levels):
        value = {name: value}
    return value


def schema_of(value: Any) -> Schema:
    if not isinstance(value, dict):
        return plain(Type.INT32, optional=True)
    return Schema(Type.STRUCT, fields={name: schema_of(each) for name, each in value.items()})


def without_schema(value: Any) -> Any:
    return Flatten().apply(value, 0)


def with_schema(value: Any) -> Any:
    return changed(Flatten(), schema_of(value), value, 0)[1]


@pytest.mark.parametrize("flatten", [without_schema, with_schema])
@pytest.mark.parametrize(
    ("levels", "length", "leaves"),
    [
        pytest.param(100, 1000, 1000, id="many_leaves"),
        pytest.param(400, 1000, 1, id="all_outer_names_at_once"),
    ],
)
def test_a_record_that_would_become_too_large_fails_before_it_is(
    flatten: Callable[[Any], Any], levels: int, length: int, leaves: int
) -> None:
    value = nested(levels, "x" * length, leaves)
    tracemalloc.start()
    try:
        with pytest.raises(StepError, match=f"more than {MOST_OF_NAMES} characters"):
            flatten(value)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 45 * MIB


@pytest.mark.parametrize("flatten", [without_schema, with_schema])
def test_long_names_below_the_limit_stay_whole(flatten: Callable[[Any], Any]) -> None:
    found = flatten(nested(100, "x" * 1000, 100))
    prefix = ".".join(["x" * 1000] * 100)
    assert list(found) == [f"{prefix}.{number}" for number in range(100)]
    assert list(found.values()) == list(range(100))


def test_the_paths_of_nested_structs_count_where_names_are_short() -> None:
    deep: dict[str, Any] = {f"{number}": {"y": 1} for number in range(11_000)}
    for _ in range(400):
        deep = {"": deep}
    schema = schema_of(deep)
    # The names have 60,000 characters; the paths of 11,000 structs are 35 MB.
    with pytest.raises(StepError, match="too large"):
        changed(Flatten(""), schema, deep, 0)
