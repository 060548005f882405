"""Payloads of Kafka's JsonConverter: from parsed JSON to values of a schema, and from those to JSON texts.

What is not of its schema's type is refused. Kafka's converter makes something else of it without a word: 0 of a text.
"""

from __future__ import annotations

import base64
import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

from mirror_connect.connectors.json_steps.connect_schema import (
    BITS,
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    Schema,
    Type,
)
from mirror_connect.connectors.json_steps.java_calendar import DAY_MS
from mirror_connect.connectors.json_steps.java_numbers import nearest_float32, wrapped
from mirror_connect.connectors.json_steps.timestamps import Instant
from mirror_connect.connectors.record_errors import StepError

# Parsed JSON, whose numbers with a point or exponent are Decimal, to a value.
Reader = Callable[[Any], Any]
Writer = Callable[[Any], str]
_quoted: Final[Callable[[str], str]] = json.encoder.encode_basestring
# Digits before the point; a longer number is no integer of 64 bits.
_MOST_DIGITS: Final = 20
# More of them take Python too long, which refuses them.
_MOST_DECIMAL_DIGITS: Final = sys.int_info.default_max_str_digits
_TOO_MANY_DIGITS: Final = f"has a decimal of more than {_MOST_DECIMAL_DIGITS} digits"
# Of what is written within one value. A null of 4 bytes may become a default of a megabyte, as often as an array has it.
MOST_WRITTEN: Final = 32 << 20
_NESTED: Final = frozenset({Type.STRUCT, Type.ARRAY, Type.MAP})
_WRONG: Final = "has a payload that is not what its schema says: {} is wanted"


def reader_of(schema: Schema, *, replace_nulls: bool) -> Reader:
    """What reads payloads of a schema. `replace_nulls`: whether a null becomes the default. The reader raises StepError."""
    made: Reader | None = schema.made.get((reader_of, replace_nulls))
    if made is None:
        made = _nullable(schema, _reader(schema, replace_nulls), replace_nulls)
        schema.made[reader_of, replace_nulls] = made
    return made


def default_of(schema: Schema, node: Any, *, replace_nulls: bool) -> Any:
    """The default value that a schema without one gets of JSON."""
    if node is None:
        if schema.optional:
            return None
        raise StepError("has a schema with null as the default of what is required")
    if schema.type is Type.STRUCT:
        # Kafka's SchemaBuilder takes no default of a struct.
        raise StepError("has a schema with a default for a struct, which Kafka's converter can't read")
    return _reader(schema, replace_nulls)(node)


def _nullable(schema: Schema, convert: Reader, replace_nulls: bool) -> Reader:
    default, optional = schema.default, schema.optional
    if default is not None and replace_nulls:
        return lambda node: default if node is None else convert(node)
    if optional:
        return lambda node: None if node is None else convert(node)

    def required(node: Any) -> Any:
        if node is None:
            raise StepError("has a payload with null for what is required")
        return convert(node)

    return required


def _reader(schema: Schema, replace_nulls: bool) -> Reader:
    kind = schema.type
    if schema.logical is not None:
        return _decimals(schema) if schema.logical == DECIMAL else _DATES[schema.logical]
    if kind in BITS:
        return _integers(BITS[kind])
    if kind is Type.STRUCT:
        return _structs(schema, replace_nulls)
    if kind is Type.MAP:
        return _maps(schema, replace_nulls)
    if kind is Type.ARRAY:
        assert schema.items is not None
        element = reader_of(schema.items, replace_nulls=replace_nulls)
        return lambda node: [element(each) for each in _checked(node, list, "a list")]
    return _SIMPLE[kind]


def _structs(schema: Schema, replace_nulls: bool) -> Reader:
    members = [(name, reader_of(each, replace_nulls=replace_nulls)) for name, each in schema.fields.items()]

    def read(node: Any) -> dict[str, Any]:
        if type(node) is not dict:
            raise StepError(_WRONG.format("an object"))
        # What the schema does not have is left out, as by Kafka's converter.
        found = node.get
        return {name: member(found(name)) for name, member in members}

    return read


def _maps(schema: Schema, replace_nulls: bool) -> Reader:
    assert schema.keys is not None
    assert schema.items is not None
    keys, items = (reader_of(each, replace_nulls=replace_nulls) for each in (schema.keys, schema.items))
    if schema.keys.type is Type.STRING:
        return lambda node: {name: items(each) for name, each in _checked(node, dict, "an object").items()}
    as_text = None if schema.keys.type is Type.BYTES else writer_of(schema.keys, numeric=True, replace_nulls=False)

    def read(node: Any) -> list[tuple[Any, Any]]:
        found: dict[Any, tuple[Any, Any]] = {}
        for pair in _checked(node, list, "a list of pairs"):
            if type(pair) is not list or len(pair) != 2:
                raise StepError(_WRONG.format("a list of pairs"))
            key, value = keys(pair[0]), items(pair[1])
            # The later of two with one key stays. Arrays of bytes are never one in Java.
            found[len(found) if as_text is None or key is None else as_text(key)] = (key, value)
        return list(found.values())

    return read


def _checked(node: Any, kind: type, what: str) -> Any:
    if type(node) is not kind:
        raise StepError(_WRONG.format(what))
    return node


def _integers(bits: int) -> Reader:
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1

    def read(node: Any) -> int:
        if type(node) is Decimal and (
            not node or (node.adjusted() < _MOST_DIGITS and node == node.to_integral_value())
        ):
            node = int(node)
        if type(node) is not int or not least <= node <= most:
            raise StepError(_WRONG.format(f"an int{bits}"))
        return node

    return read


def _float64(node: Any) -> float:
    if type(node) is int or type(node) is Decimal:
        try:
            number = float(node)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise StepError(_WRONG.format("a double"))


def _float32(node: Any) -> float:
    number = nearest_float32(_float64(node))
    if math.isfinite(number):
        return number
    raise StepError(_WRONG.format("a float"))


def _bytes(node: Any) -> bytes:
    try:
        return base64.b64decode(_checked(node, str, "Base64"), validate=True)
    except ValueError:
        raise StepError(_WRONG.format("Base64")) from None


def _date(node: Any) -> Instant:
    return Instant(_of_bits(node, 32, "a date as a number of days") * DAY_MS)


def _time(node: Any) -> Instant:
    number = _of_bits(node, 32, "a time as a number of milliseconds")
    if not 0 <= number <= DAY_MS:
        raise StepError(_WRONG.format("a time below 86400000 milliseconds"))
    return Instant(number)


def _timestamp(node: Any) -> Instant:
    return Instant(_of_bits(node, 64, "a timestamp as a number of milliseconds"))


def _of_bits(node: Any, bits: int, what: str) -> int:
    if type(node) is int and -(1 << bits - 1) <= node < 1 << bits - 1:
        return node
    raise StepError(_WRONG.format(what))


_DATES: Final[Mapping[str, Reader]] = {DATE: _date, TIME: _time, TIMESTAMP: _timestamp}
_SIMPLE: Final[Mapping[Type, Reader]] = {
    Type.FLOAT32: _float32,
    Type.FLOAT64: _float64,
    Type.BOOLEAN: lambda node: _checked(node, bool, "a boolean"),
    Type.STRING: lambda node: _checked(node, str, "a string"),
    Type.BYTES: _bytes,
}


def _scale(schema: Schema) -> int:
    text = (schema.parameters or {}).get("scale", "")
    try:
        return _of_bits(int(text), 32, "a scale")
    except (ValueError, StepError):
        raise StepError("has a schema with a Decimal without a scale") from None


def _decimals(schema: Schema) -> Reader:
    def read(node: Any) -> Decimal:
        if type(node) is int:
            return Decimal(node)
        if type(node) is Decimal:
            # Java's has no -0.
            return node if node else node.copy_abs()
        raw = _bytes(node)
        if not raw:
            raise StepError(_WRONG.format("a decimal"))
        try:
            return Decimal(f"{int.from_bytes(raw, 'big', signed=True)}E{-_scale(schema)}")
        except ValueError:
            raise StepError(_TOO_MANY_DIGITS) from None

    return read


def writer_of(schema: Schema, *, numeric: bool, replace_nulls: bool) -> Writer:
    """What writes values of a schema as JSON. `numeric`: decimals as numbers. `replace_nulls`: as in `reader_of`."""
    made: Writer | None = schema.made.get((writer_of, numeric, replace_nulls))
    if made is None:
        made = _with_nulls(schema, _writer(schema, numeric, replace_nulls), replace_nulls)
        schema.made[writer_of, numeric, replace_nulls] = made
    return made


def _with_nulls(schema: Schema, write: Writer, replace_nulls: bool) -> Writer:
    null: str | None = "null" if schema.optional else None
    if schema.default is not None and replace_nulls:
        null = write(schema.default)

    def written(value: Any) -> str:
        if value is not None:
            return write(value)
        if null is None:
            raise StepError("has null for what is required and has no default")
        return null

    return written


def _writer(schema: Schema, numeric: bool, replace_nulls: bool) -> Writer:
    kind = schema.type
    if schema.logical is not None:
        if schema.logical == DECIMAL:
            return str if numeric else _base64_decimals(schema)
        return _DATE_TEXTS[schema.logical]
    if kind is Type.STRUCT:
        members = [
            (f"{_quoted(name)}:", name, writer_of(each, numeric=numeric, replace_nulls=replace_nulls))
            for name, each in schema.fields.items()
        ]
        if any(each.type in _NESTED for each in schema.fields.values()):
            return lambda value: f"{{{_joined(begin + write(value[name]) for begin, name, write in members)}}}"
        return lambda value: f"{{{','.join([begin + write(value[name]) for begin, name, write in members])}}}"
    if kind in (Type.ARRAY, Type.MAP):
        return _container_writer(schema, numeric, replace_nulls)
    return _TEXTS.get(kind, str)


def _container_writer(schema: Schema, numeric: bool, replace_nulls: bool) -> Writer:
    assert schema.items is not None
    items = writer_of(schema.items, numeric=numeric, replace_nulls=replace_nulls)
    if schema.type is Type.ARRAY:
        return lambda value: f"[{_joined(map(items, value))}]"
    assert schema.keys is not None
    if schema.keys.type is Type.STRING:
        return lambda value: f"{{{_joined(f'{_quoted(name)}:{items(each)}' for name, each in value.items())}}}"
    keys = writer_of(schema.keys, numeric=numeric, replace_nulls=replace_nulls)
    return lambda value: f"[{_joined(f'[{keys(key)},{items(each)}]' for key, each in value)}]"


def _joined(texts: Iterable[str]) -> str:
    """All of them with commas between. StepError as soon as they are too large, before the rest is made."""
    made, size = [], 0
    for each in texts:
        size += len(each)
        if size > MOST_WRITTEN:
            raise StepError(f"becomes too large: it has more than {MOST_WRITTEN} characters")
        made.append(each)
    return ",".join(made)


def _float_text(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    # As Kafka's converter writes them, since JSON has none.
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _base64(raw: bytes) -> str:
    return f'"{base64.b64encode(raw).decode()}"'


def _base64_decimals(schema: Schema) -> Writer:
    def written(value: Decimal) -> str:
        sign, digits, exponent = value.as_tuple()
        if exponent != -_scale(schema):
            raise StepError("has a decimal whose scale is not that of its schema")
        if len(digits) > _MOST_DECIMAL_DIGITS:
            raise StepError(_TOO_MANY_DIGITS)
        unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
        bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
        return _base64(unscaled.to_bytes(bits // 8 + 1, "big", signed=True))

    return written


def _date_text(value: Instant) -> str:
    if value.ms % DAY_MS:
        raise StepError("has a Date with a time of the day")
    return str(wrapped(value.ms // DAY_MS, 32))


def _time_text(value: Instant) -> str:
    if not 0 <= value.ms <= DAY_MS:
        raise StepError("has a Time that is more than a day")
    return str(value.ms)


_DATE_TEXTS: Final[Mapping[str, Writer]] = {
    DATE: _date_text,
    TIME: _time_text,
    TIMESTAMP: lambda value: str(value.ms),
}
_TEXTS: Final[Mapping[Type, Writer]] = {
    Type.BOOLEAN: lambda value: "true" if value else "false",
    Type.FLOAT32: _float_text,
    Type.FLOAT64: _float_text,
    Type.STRING: _quoted,
    Type.BYTES: _base64,
}
