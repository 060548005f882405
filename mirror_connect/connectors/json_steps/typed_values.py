"""What Cast, MaskField and TimestampConverter make of one value whose type a schema gives."""

from __future__ import annotations

import base64
import struct
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from mirror_connect.connectors.config.values import java_text
from mirror_connect.connectors.json_steps.cast import cast_scalar
from mirror_connect.connectors.json_steps.connect_schema import BITS, DATE, Schema, Type
from mirror_connect.connectors.json_steps.java_calendar import DAY_MS
from mirror_connect.connectors.json_steps.java_date_format import JavaDateFormat
from mirror_connect.connectors.json_steps.java_numbers import decimal_double, decimal_long, nearest_float32, wrapped
from mirror_connect.connectors.json_steps.timestamps import Instant
from mirror_connect.connectors.record_errors import StepError

# How Kafka writes dates as texts: before 2 January 1970 as times, at midnight as dates.
_TIME: Final = JavaDateFormat.of("HH:mm:ss.SSS'Z'")
_DATE: Final = JavaDateFormat.of("yyyy-MM-dd")
_TIMESTAMP: Final = JavaDateFormat.of("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
_MOST_DIGITS: Final = 400


def cast_value(schema: Schema, value: Any, kind: Type, what: str) -> Any:
    """A value of a schema as another type. StepError."""
    if value is None:
        return None
    if schema.type in (Type.ARRAY, Type.MAP, Type.STRUCT):
        raise StepError(f"{what} is {_named(schema)}, which can't be cast")
    if isinstance(value, Instant):
        value = _text_of(value) if kind is Type.STRING else _number_of(schema, value)
    elif isinstance(value, Decimal):
        value = str(value) if kind is Type.STRING else _shortened(value, kind)
    elif isinstance(value, bytes):
        if kind is not Type.STRING:
            raise StepError(f"{what} is bytes, which can be cast to a string alone")
        return base64.b64encode(value).decode()
    elif schema.type is Type.FLOAT32 and kind is not Type.STRING:
        # Its shortest decimal is not what it is.
        (value,) = struct.unpack("f", struct.pack("f", value))
    return cast_scalar(value, kind.name, what)


def _text_of(value: Instant) -> str:
    form = _TIME if value.ms < DAY_MS else _TIMESTAMP if value.ms % DAY_MS else _DATE
    return form.text_of(value.ms)


def _number_of(schema: Schema, value: Instant) -> int:
    if schema.logical == DATE:
        return wrapped(value.ms // DAY_MS, 32)
    return value.ms


def _shortened(value: Decimal, kind: Type) -> int | float:
    """A decimal as a number that is cast further: for an integer what is before the point, its lower 64 bits."""
    if kind in (Type.FLOAT32, Type.FLOAT64):
        return float(value)
    return decimal_long(str(value)) or 0


def masked(schema: Schema, value: Any, replacement: str | None, what: str) -> Any:
    """What MaskField makes of a value. StepError."""
    if value is None:
        return None
    kind = schema.type
    if replacement is None:
        if isinstance(value, Decimal):
            return Decimal(0)
        if isinstance(value, Instant):
            return Instant(0)
        if kind in (Type.BYTES, Type.STRUCT):
            raise StepError(f"{what} is {_named(schema)}, which can't be masked")
        # False, 0, an empty text, list or object.
        return type(value)()
    if isinstance(value, Instant) or kind in (Type.BOOLEAN, Type.ARRAY, Type.MAP, Type.STRUCT):
        raise StepError(f"{what} is {_named(schema)}, which takes no replacement")
    number: int | float | Decimal | None
    if isinstance(value, Decimal):
        number = _decimal(replacement)
    elif kind is Type.STRING:
        return replacement
    elif kind in BITS:
        long = decimal_long(replacement)
        number = None if long is None else wrapped(long, BITS[kind])
    elif kind is Type.BYTES:
        raise StepError(f"{what} is bytes, which takes no replacement")
    else:
        number = decimal_double(replacement)
        number = number if number is None or kind is Type.FLOAT64 else nearest_float32(number)
    if number is None:
        raise StepError(f"{what} is a number, and the replacement is none")
    return number


def _decimal(text: str) -> Decimal | None:
    if decimal_double(text) is None or len(text) > _MOST_DIGITS:
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number else number.copy_abs()


def _named(schema: Schema) -> str:
    if schema.logical is not None:
        return f"a {schema.logical.rpartition('.')[2]}"
    return f"of type {java_text(schema.type.value)}"
