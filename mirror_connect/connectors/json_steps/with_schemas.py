"""What each transformation makes of values that have a schema: another schema, and the values for it.

All that depends on the schema alone is found out once for each schema. Kafka's classes do the same with a cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from mirror_connect.connectors.config.java_maps import in_hash_order
from mirror_connect.connectors.json_steps.cast import Cast
from mirror_connect.connectors.json_steps.connect_schema import (
    DATE,
    TIME,
    TIMESTAMP,
    Fields,
    Schema,
    Type,
    logical,
    plain,
)
from mirror_connect.connectors.json_steps.fields import (
    MOST_OF_NAMES,
    TOO_LONG_NAMES,
    ExtractField,
    Flatten,
    HoistField,
    InsertField,
    MaskField,
    ReplaceField,
    ValueToKey,
)
from mirror_connect.connectors.json_steps.kept_schemas import KEPT, size_of
from mirror_connect.connectors.json_steps.timestamps import Instant, TimestampConverter
from mirror_connect.connectors.json_steps.typed_values import cast_value, masked
from mirror_connect.connectors.record_errors import StepError
from mirror_connect.connectors.record_steps import JsonChange

# A value and the record's time → the new value.
_Apply = Callable[[Any, int], Any]
_Typed = tuple[Schema, _Apply]
# Bytes of a name in a path, which is there once more in each path.
_WORD: Final = 8


def changed(change: JsonChange, schema: Schema, value: Any, timestamp: int) -> tuple[Schema, Any]:
    """The schema and value after a change; the same objects if nothing changes. StepError."""
    if value is None and isinstance(change, _PASS_NULL):
        return schema, None
    # By identity: to hash a change takes as long as to apply it.
    found = schema.made.get(id(change))
    if found is None or found[0] is not change:
        found = (change, *_TYPED[type(change)](change, schema))
        schema.made[id(change)] = found
        # A topic may have many schemas, and each partition has its own InsertField.
        KEPT.grow(size_of(found[1]))
    return found[1], found[2](value, timestamp)


def _is_struct(schema: Schema) -> None:
    if schema.type is not Type.STRUCT:
        raise StepError(f"it needs a struct, and found one of type {schema.type.value}")


def _not_null(value: Any) -> None:
    if value is None:
        raise StepError("it needs a struct, and found null")


def _defaults(schema: Schema, *, replace_nulls: bool) -> list[tuple[str, Any]]:
    """Each field, and what a null in it becomes."""
    return [(name, each.default if replace_nulls else None) for name, each in schema.fields.items()]


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _mask(change: MaskField, schema: Schema) -> _Typed:
    _is_struct(schema)
    names = set(change.fields)
    fields = [
        (name, default, schema.fields[name] if name in names else None)
        for name, default in _defaults(schema, replace_nulls=change.replace_nulls)
    ]
    replacement = change.replacement

    def apply(value: Any, _: int) -> Any:
        _not_null(value)
        found = {}
        for name, default, to_mask in fields:
            member = _or(value[name], default)
            found[name] = member if to_mask is None else masked(to_mask, member, replacement, f"field {name}")
        return found

    return schema, apply


def _replace(change: ReplaceField, schema: Schema) -> _Typed:
    _is_struct(schema)
    renames, exclude, include = change.renames, change.exclude, change.include
    fields = Fields()
    for name, each in schema.fields.items():
        if name not in exclude and (not include or name in include):
            fields.add(renames.get(name, name), each)
    # Kafka turns the renames round. Of two with one new name that is the last one of a HashMap.
    former = {new: old for old, new in in_hash_order(renames).items()}
    pairs = []
    for name, each in fields.items():
        old = former.get(name, name)
        if renames.get(old, old) != name or schema.fields.get(old) is not each:
            # Kafka looks for the value in a field that is not there, or gives the one of a field that is left out.
            raise StepError("a rename has the name of another field, or renames a field that is left out")
        pairs.append((name, old, each.default if change.replace_nulls else None))
    return schema.retyped(Type.STRUCT, fields=fields), lambda value, _: {
        name: _or(value[old], default) for name, old, default in pairs
    }


def _insert(change: InsertField, schema: Schema) -> _Typed:
    _is_struct(schema)
    fields = Fields(schema.fields)
    topic, partition = change.place
    texts = {}
    for part, name, kind, value in (
        ("topic", change.topic, Type.STRING, topic),
        ("partition", change.partition, Type.INT32, partition),
        ("timestamp", change.timestamp, Type.INT64, None),
        ("static", change.static and change.static[0], Type.STRING, change.static and change.static[1]),
    ):
        if name is None:
            continue
        optional = part not in change.required
        fields.add(
            name, logical(TIMESTAMP, optional=optional) if part == "timestamp" else plain(kind, optional=optional)
        )
        texts[name] = value
    defaults = _defaults(schema, replace_nulls=change.replace_nulls)
    time_field = change.timestamp

    def apply(value: Any, timestamp: int) -> Any:
        found = {name: _or(value[name], default) for name, default in defaults}
        found.update(texts)
        if time_field is not None:
            found[time_field] = Instant(timestamp)
        return found

    return schema.retyped(Type.STRUCT, fields=fields), apply


def _extract(change: ExtractField, schema: Schema) -> _Typed:
    found = schema
    for name in change.path:
        _is_struct(found)
        if name not in found.fields:
            raise StepError("its schema has no such field")
        found = found.fields[name]
    path, default = change.path, found.default if change.replace_nulls else None

    def apply(value: Any, _: int) -> Any:
        for name in path[:-1]:
            if value is None:
                return None
            value = value[name]
        return None if value is None else _or(value[path[-1]], default)

    return found, apply


def _hoist(change: HoistField, schema: Schema) -> _Typed:
    fields = Fields()
    fields.add(change.field, schema)
    name = change.field

    def apply(value: Any, _: int) -> Any:
        if value is None and not schema.optional:
            raise StepError("it found null, and its schema has it required")
        return {name: value}

    return Schema(Type.STRUCT, fields=fields), apply


def _flatten(change: Flatten, schema: Schema) -> _Typed:
    _is_struct(schema)
    fields, paths = Fields(), []
    left = MOST_OF_NAMES

    def add(outer: Schema, prefix: str, path: tuple[str, ...], *, optional: bool) -> None:
        nonlocal left
        for own, each in outer.fields.items():
            name = f"{prefix}{change.delimiter}{own}" if path else own
            # Each struct has its path. That is as long where all names are short.
            left -= len(name) + (len(path) * _WORD if each.type is Type.STRUCT else 0)
            if left < 0:
                raise StepError(TOO_LONG_NAMES)
            may_miss = optional or each.optional
            if each.type is Type.STRUCT:
                add(each, name, (*path, own), optional=may_miss)
            elif each.type is Type.MAP:
                raise StepError("its schema has a map, which Flatten does not take")
            else:
                fields.add(name, each.retyped(each.type, optional=may_miss, default=each.default, items=each.items))
                paths.append((name, path, own, each.default))

    add(schema, "", (), optional=schema.optional)

    def apply(value: Any, _: int) -> Any:
        found = {}
        for name, outer, own, default in paths:
            inner = value
            for step in outer:
                inner = inner and inner[step]
            # A struct that is null leaves its fields null. A null field gets its default.
            found[name] = None if inner is None else _or(inner[own], default)
        return found

    return schema.retyped(Type.STRUCT, fields=fields), apply


def _value_to_key(change: ValueToKey, schema: Schema) -> _Typed:
    _is_struct(schema)
    fields = Fields()
    for name in change.fields:
        if name not in schema.fields:
            raise StepError(f"its schema has no field {name}")
        fields.add(name, schema.fields[name])
    pairs = [(name, each.default if change.replace_nulls else None) for name, each in fields.items()]

    def apply(value: Any, _: int) -> Any:
        _not_null(value)
        return {name: _or(value[name], default) for name, default in pairs}

    return Schema(Type.STRUCT, fields=fields), apply


def _cast(change: Cast, schema: Schema) -> _Typed:
    whole = change.types.get(None)
    if whole is not None:
        kind = Type[whole]
        if schema.logical is not None:
            raise StepError(f"it is a {schema.logical.rpartition('.')[2]}, whose whole can't be cast")
        default = cast_value(schema, schema.default, kind, "the default")
        made = schema.retyped(kind, optional=schema.optional, default=default)
        return made, lambda value, _: cast_value(schema, value, kind, "it")
    _is_struct(schema)
    fields = Fields()
    casts: list[tuple[str, Any, Schema, Type | None]] = []
    for name, each in schema.fields.items():
        to = change.types.get(name)
        target = None if to is None else Type[to]
        if target is not None:
            default = cast_value(each, each.default, target, f"the default of field {name}")
            fields.add(name, Schema(target, each.optional, default=default))
        else:
            fields.add(name, each)
        casts.append((name, each.default if change.replace_nulls else None, each, target))

    def apply(value: Any, _: int) -> Any:
        found = {}
        for name, default, each, target in casts:
            member = _or(value[name], default)
            found[name] = member if target is None else cast_value(each, member, target, f"field {name}")
        return found

    return schema.retyped(Type.STRUCT, optional=schema.optional, fields=fields), apply


def _timestamps(change: TimestampConverter, schema: Schema) -> _Typed:
    if not change.field:
        _is_timestamp(schema, "it")
        return _target(change, optional=schema.optional), lambda value, _: change.converted(value, "it")
    _is_struct(schema)
    fields = Fields(
        (name, _target(change, optional=each.optional) if name == change.field else each)
        for name, each in schema.fields.items()
    )
    defaults = _defaults(schema, replace_nulls=change.replace_nulls)
    to_convert, what = change.field, f"field {change.field}"

    def apply(value: Any, _: int) -> Any:
        if value is None:
            return None
        found = {name: _or(value[name], default) for name, default in defaults}
        if to_convert in found:
            _is_timestamp(schema.fields[to_convert], what)
            found[to_convert] = change.converted(found[to_convert], what)
        return found

    return schema.retyped(Type.STRUCT, optional=schema.optional, fields=fields), apply


def _is_timestamp(schema: Schema, what: str) -> None:
    if schema.logical not in (DATE, TIME, TIMESTAMP) and schema.type not in (Type.STRING, Type.INT64):
        raise StepError(f"{what} is of type {schema.type.value}, which is no timestamp")


def _target(change: TimestampConverter, *, optional: bool) -> Schema:
    if change.target in ("string", "unix"):
        return plain(Type.STRING if change.target == "string" else Type.INT64, optional=optional)
    return logical({"Date": DATE, "Time": TIME, "Timestamp": TIMESTAMP}[change.target], optional=optional)


# Those that leave a null as it is, with its schema.
_PASS_NULL: Final = (Cast, Flatten, InsertField, ReplaceField)
_TYPED: Final[Mapping[type[JsonChange], Callable[[Any, Schema], _Typed]]] = {
    Cast: _cast,
    ExtractField: _extract,
    Flatten: _flatten,
    HoistField: _hoist,
    InsertField: _insert,
    MaskField: _mask,
    ReplaceField: _replace,
    TimestampConverter: _timestamps,
    ValueToKey: _value_to_key,
}
