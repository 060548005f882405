"""However many schemas come, and however large they are, what is kept of them is bounded."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from mirror_connect.connectors.json_steps.configured import json_change
from mirror_connect.connectors.json_steps.connect_schema import Schema, Type, plain
from mirror_connect.connectors.json_steps.kept_schemas import KEPT, KeptSchemas, Known, size_of
from mirror_connect.connectors.json_steps.with_schemas import changed
from mirror_connect.connectors.record_steps import JsonForm
from mirror_connect.kafka_io.records.json_envelope import read, written

MOST = 100_000
FORM = JsonForm(schemas=True)
MIB = 1 << 20


def kept(schemas: KeptSchemas, texts: list[str]) -> list[str]:
    return [each for each in texts if schemas.find(each, replace_nulls=False) is not None]


def test_schemas_are_dropped_when_they_become_too_large_together() -> None:
    schemas = KeptSchemas(MOST, MOST)
    texts = [f"{number:05}" * 2000 for number in range(30)]
    for text in texts:
        assert schemas.keep(text, plain(Type.STRING, optional=True), replace_nulls=False)
        assert sum(map(len, kept(schemas, texts))) <= schemas.size <= MOST
    assert texts[-1] in kept(schemas, texts)
    assert len(kept(schemas, texts)) < 10


def test_one_that_is_too_large_by_itself_does_not_drop_the_others() -> None:
    schemas = KeptSchemas(MOST, MOST // 4)
    assert schemas.keep("small", plain(Type.STRING, optional=True), replace_nulls=True)
    for large in (
        Schema(Type.STRING, doc="x" * MOST),
        Schema(Type.STRING, parameters={"scale": "x" * MOST}),
        Schema(Type.STRUCT, fields={str(number): plain(Type.INT8, optional=True) for number in range(50)}),
    ):
        assert not schemas.keep("large", large, replace_nulls=True)
        assert schemas.find("large", replace_nulls=True) is None
    assert schemas.find("small", replace_nulls=True) is not None
    assert schemas.find("small", replace_nulls=False) is None


def test_the_newest_beginnings_are_few_and_counted() -> None:
    schemas = KeptSchemas(MOST, MOST)
    schema = plain(Type.STRING, optional=True)
    for number in range(1000):
        schemas.keep_begin(Known(b"%05d" % number * 1000, schema), replace_nulls=True)
    assert [each.begin[:5] for each in schemas.newest[True]] == [b"%05d" % each for each in range(999, 991, -1)]
    assert schemas.size == 8 * 5000
    schemas.grow(MOST)
    assert schemas.newest[True] == ()


def test_what_is_made_for_a_schema_counts() -> None:
    schema = Schema(Type.STRUCT, fields={"a": plain(Type.INT8, optional=True)})
    mask = json_change("MaskField", {"fields": "a"}, "")
    KEPT.grow(KEPT.most + 1)  # nothing is kept
    KEPT.size = 0
    made, value = changed(mask, schema, {"a": 1}, 0)
    assert KEPT.size == size_of(schema)
    text = written(made, value, FORM)
    assert text is not None
    assert KEPT.size > size_of(schema) + len(text) // 2
    before = KEPT.size
    changed(mask, schema, {"a": 1}, 0)
    written(made, value, FORM)
    assert before == KEPT.size


@pytest.mark.parametrize("many_fields", [False, True])
def test_a_new_large_schema_with_each_record_takes_no_more_memory(
    monkeypatch: pytest.MonkeyPatch, *, many_fields: bool
) -> None:
    monkeypatch.setattr(KEPT, "most", 2 * MIB)
    KEPT.grow(KEPT.most + 1)  # nothing is kept
    KEPT.size = 0
    count = 10 if many_fields else 40
    tracemalloc.start()
    try:
        for number in range(count):
            fields = [
                {"type": "int8", "optional": True, "field": f"f{number}-{each}"}
                for each in range(400 if many_fields else 1)
            ]
            schema = {"type": "struct", "doc": f"{number}" + ("" if many_fields else "x" * 100_000), "fields": fields}
            assert read(json.dumps({"schema": schema, "payload": {}}).encode(), FORM)[1]
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 3 * MIB
