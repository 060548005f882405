"""Why a key or value is no JSON object of its schema: which field, what it has, and which type the schema has.

Spark only says that it can't read the whole. It alone decides; what it has refused is looked at here once more. So it names
what is surely wrong, and else nothing. The text has names and types of the schema, and nothing of what the record holds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from mirror_connect.spark_jobs.compute.records_table import setting_of
from mirror_connect.spark_jobs.compute.schema_fields import FieldType, fields_of

_BITS: Final = {
    **dict.fromkeys(("TINYINT", "BYTE"), 8),
    **dict.fromkeys(("SMALLINT", "SHORT"), 16),
    **dict.fromkeys(("INT", "INTEGER"), 32),
    **dict.fromkeys(("BIGINT", "LONG"), 64),
}
_FRACTIONS: Final = ("FLOAT", "REAL", "DOUBLE")
_DECIMALS: Final = ("DECIMAL", "DEC", "NUMERIC")
_TEXTS: Final = ("STRING", "CHAR", "CHARACTER", "VARCHAR")
_TIMES: Final = ("TIMESTAMP", "TIMESTAMP_LTZ")
_ANY: Final = "VARIANT"
_LARGEST_FLOAT: Final = 3.5e38
# The seconds of the years 1 to 9999.
_SECONDS: Final = range(-62_135_596_800, 253_402_300_800)
_TOO_LARGE: Final = "a number that is too large"
# Python makes no number of more than 4300 digits, which is JSON all the same. So many are too large for each type.
_MOST_DIGITS: Final = 400
_Misfit = tuple[str, str, FieldType]


def fault_line(column: str, content: bytes | None, schema: str) -> str:
    """What is wrong with the content of `key` or `value`, which Spark can't read by this schema (DDL)."""
    line = f"{column} is no JSON object of {setting_of(column)}"
    reason = _reason(content or b"", schema)
    return line if reason is None else f"{line}: {reason}"


def _reason(content: bytes, schema: str) -> str | None:
    try:
        text = content.decode().strip()
        found, end = json.JSONDecoder(parse_constant=_no_number, parse_int=_whole).raw_decode(text)
    except UnicodeDecodeError:
        return "it is not UTF-8"
    except (ValueError, RecursionError):
        return "it is no JSON" if content.strip() else "it is empty"
    if not isinstance(found, dict):
        return "it is no JSON" if text[end:] else f"it is {_what(found)}"
    return "something follows the object" if text[end:] else _reason_of_field(found, schema)


def _no_number(text: str) -> None:
    """Of NaN and Infinity."""
    raise ValueError(text)


def _whole(digits: str) -> int:
    return int(digits[:_MOST_DIGITS])


def _reason_of_field(found: Any, schema: str) -> str | None:
    misfits = list(_misfits(found, FieldType("", "STRUCT", fields_of(schema)), ""))
    sure = [each for each in misfits if each[1]]
    # Texts that Spark may or may not read, such as dates. If there is only one, it is this one.
    blamed = sure or (misfits if len(misfits) == 1 else [])
    if not blamed:
        return None
    path, what, of_type = blamed[0]
    if not what:
        return f"its field {path} is a text that Spark does not read as {_named(of_type)}"
    return f"its field {path} is {what}, where the schema has {_named(of_type)}"


def _named(of_type: FieldType) -> str:
    return of_type.kind if of_type.fields or of_type.inner else of_type.text


def _misfits(value: Any, of_type: FieldType, path: str) -> Iterator[_Misfit]:
    """Path, what is there (empty: it may fit), and the type that the schema has."""
    if value is None or of_type.kind == _ANY:
        return
    kind = of_type.kind
    if kind == "STRUCT" and isinstance(value, dict):
        for name, inner in of_type.fields:
            yield from _misfits(value.get(name), inner, f"{path}.{name}" if path else name)
    elif kind == "ARRAY" and of_type.inner and isinstance(value, list):
        for each in value:
            yield from _misfits(each, of_type.inner, f"{path}[]")
    elif kind == "MAP" and of_type.inner and isinstance(value, dict):
        # The keys of a map are the record's.
        for each in value.values():
            yield from _misfits(each, of_type.inner, f"{path}[]")
    elif (what := _wrong(value, kind)) is not None:
        yield path, what, of_type


def _wrong(value: Any, kind: str) -> str | None:
    """What a value is in place of this type; empty if it may be one; None if it is one."""
    what = _what(value)
    if kind in _TEXTS:
        return what if isinstance(value, dict | list) else None
    if isinstance(value, bool):
        return None if kind == "BOOLEAN" else what
    if isinstance(value, dict | list) or kind in ("STRUCT", "ARRAY", "MAP", "BOOLEAN"):
        return what
    if kind in _BITS:
        return _wrong_integer(value, _BITS[kind])
    if kind in _FRACTIONS:
        return what if isinstance(value, str) else _wrong_fraction(value, kind)
    return _wrong_other(value, kind)


def _wrong_other(value: Any, kind: str) -> str | None:
    if kind in _TIMES and isinstance(value, int):
        return None if value in _SECONDS else _TOO_LARGE
    return _what(value) if _surely_wrong(value, kind) else ""


def _surely_wrong(value: Any, kind: str) -> bool:
    if isinstance(value, str):
        return kind in _DECIMALS and not _is_decimal(value)
    return kind in ("DATE", "BINARY")


def _wrong_integer(value: Any, bits: int) -> str | None:
    if not isinstance(value, int):
        return _what(value)
    return None if -(1 << bits - 1) <= value < 1 << bits - 1 else _TOO_LARGE


def _wrong_fraction(value: float, kind: str) -> str | None:
    largest = sys.float_info.max if kind == "DOUBLE" else _LARGEST_FLOAT
    return _TOO_LARGE if abs(value) > largest else None


def _is_decimal(text: str) -> bool:
    try:
        return Decimal(text.replace(",", "")).is_finite()
    except InvalidOperation:
        return False


def _what(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, str):
        return "a text"
    if isinstance(value, int):
        return "a whole number"
    if isinstance(value, float):
        return "a number with a fraction"
    return "a list" if isinstance(value, list) else "an object"
