"""Schemas in JSON, as Kafka's JsonConverter reads and writes them."""

from __future__ import annotations

import json
from sys import getsizeof
from typing import Any, Final

from mirror_connect.connectors.json_steps.connect_schema import LOGICAL, Fields, Schema, Type
from mirror_connect.connectors.json_steps.java_numbers import wrapped
from mirror_connect.connectors.json_steps.kept_schemas import KEPT
from mirror_connect.connectors.json_steps.payload import default_of, writer_of
from mirror_connect.connectors.record_errors import StepError

_TYPES: Final = {each.value: each for each in Type}
_NO_TYPE: Final = "has a schema without a type that Connect has"
_quoted: Final = json.encoder.encode_basestring


def schema_of(node: Any, *, replace_nulls: bool) -> Schema:
    """The schema in parsed JSON. `replace_nulls`: whether nulls in its defaults become defaults themselves. StepError."""
    if type(node) is not dict or type(node.get("type")) is not str or node["type"] not in _TYPES:
        raise StepError(_NO_TYPE)
    kind = _TYPES[node["type"]]
    parts: dict[str, Any] = {}
    if kind in (Type.ARRAY, Type.MAP):
        parts["items"] = schema_of(node.get("items" if kind is Type.ARRAY else "values"), replace_nulls=replace_nulls)
    if kind is Type.MAP:
        parts["keys"] = schema_of(node.get("keys"), replace_nulls=replace_nulls)
    if kind is Type.STRUCT:
        parts["fields"] = _fields(node.get("fields"), replace_nulls=replace_nulls)
    name, version, doc = node.get("name"), node.get("version"), node.get("doc")
    bare = Schema(
        kind,
        node.get("optional") is True,
        name if type(name) is str else None,
        wrapped(version, 32) if type(version) is int else None,
        doc if type(doc) is str else None,
        _parameters(node.get("parameters")),
        **parts,
    )
    if bare.logical is not None and kind is not LOGICAL[bare.logical]:
        raise StepError("has a schema with a logical type of another type than Kafka's")
    if bare.keys is not None and bare.keys.logical is not None and bare.keys.type is Type.STRING:
        raise StepError("has a schema with a map whose texts are of a logical type")
    if "default" not in node:
        return bare
    default = default_of(bare, node["default"], replace_nulls=replace_nulls)
    return Schema(
        kind,
        bare.optional,
        bare.name,
        bare.version,
        bare.doc,
        bare.parameters,
        default,
        bare.keys,
        bare.items,
        bare.fields,
    )


def _fields(nodes: Any, *, replace_nulls: bool) -> Fields:
    if type(nodes) is not list:
        raise StepError("has a schema with a struct without a list of fields")
    found = Fields()
    for node in nodes:
        name = node.get("field") if type(node) is dict else None
        if type(name) is not str:
            raise StepError("has a schema with a field without a name")
        found.add(name, schema_of(node, replace_nulls=replace_nulls))
    return found


def _parameters(node: Any) -> dict[str, str] | None:
    if type(node) is not dict or not node:
        return None
    if not all(type(each) is str for each in node.values()):
        raise StepError("has a schema with parameters that are no texts")
    return node


def schema_text(schema: Schema, *, numeric: bool, replace_nulls: bool) -> str:
    """The schema in JSON. `numeric`: decimals among its defaults are numbers."""
    key = (schema_text, numeric, replace_nulls)
    made: str | None = schema.made.get(key)
    if made is None:
        made = f"{{{_members(schema, numeric, replace_nulls)}}}"
        schema.made[key] = made
        KEPT.grow(getsizeof(made))
    return made


def _members(schema: Schema, numeric: bool, replace_nulls: bool) -> str:
    """What stands in the braces, in Kafka's order."""
    found = [f'"type":"{schema.type.value}"']
    if schema.keys is not None:
        found.append(f'"keys":{{{_members(schema.keys, numeric, replace_nulls)}}}')
    if schema.items is not None:
        name = "values" if schema.type is Type.MAP else "items"
        found.append(f'"{name}":{{{_members(schema.items, numeric, replace_nulls)}}}')
    if schema.type is Type.STRUCT:
        fields = (
            f'{{{_members(each, numeric, replace_nulls)},"field":{_quoted(name)}}}'
            for name, each in schema.fields.items()
        )
        found.append(f'"fields":[{",".join(fields)}]')
    found.append(f'"optional":{"true" if schema.optional else "false"}')
    if schema.name is not None:
        found.append(f'"name":{_quoted(schema.name)}')
    if schema.version is not None:
        found.append(f'"version":{schema.version}')
    if schema.doc is not None:
        found.append(f'"doc":{_quoted(schema.doc)}')
    if schema.parameters is not None:
        pairs = (f"{_quoted(name)}:{_quoted(text)}" for name, text in schema.parameters.items())
        found.append(f'"parameters":{{{",".join(pairs)}}}')
    if schema.default is not None:
        write = writer_of(schema, numeric=numeric, replace_nulls=replace_nulls)
        found.append(f'"default":{write(schema.default)}')
    return ",".join(found)
