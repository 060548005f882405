"""Rows of a result as lines: JSON, CSV, or a table for people.

Spark makes JSON of each row, so that numbers, times and nested values look as in Spark. Bytes are base64 there, and in CSV.
The table shows them as text where they are text.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

JSON, CSV, TABLE, PARQUET = FORMATS = ("json", "csv", "table", "parquet")
NULL: Final = "NULL"
_BINARY: Final = "binary"
_MOST_WIDTH: Final = 120


@dataclass(frozen=True, slots=True)
class Column:
    """`kind`: Spark's type as its JSON has it: a name, or an object."""

    name: str
    kind: Any


@dataclass(frozen=True, slots=True)
class StoredRows:
    """The rows in Spark's text files of a directory, in their order."""

    directory: Path

    def __iter__(self) -> Iterator[str]:
        # Names have the number of the partition.
        for path in sorted(self.directory.glob("part-*")):
            # JSON has no such character in a row, unlike others at which Python would begin a line.
            with open(path, encoding="utf-8", newline="\n") as file:
                for line in file:
                    yield line.removesuffix("\n")


def csv_lines(columns: Sequence[Column], rows: Iterable[str]) -> Iterator[str]:
    """The header, and a line for each row, which is a JSON object in the order of the columns."""
    yield _csv([each.name for each in columns])
    for row in rows:
        yield _csv([_text(value, "") for value in _values(row)])


def table_lines(columns: Sequence[Column], rows: Iterable[str]) -> Iterator[str]:
    """The header and the rows, in columns of one width. Long values are cut off. `rows` are gone through twice."""

    def cells_of(row: str) -> list[str]:
        values = zip(_values(row), columns, strict=True)
        return [_cut(_text(readable(value, each.kind), NULL)) for value, each in values]

    heads = [_cut(each.name) for each in columns]
    widths = list(map(_width, heads))
    for row in rows:
        widths = [max(width, _width(cell)) for width, cell in zip(widths, cells_of(row), strict=True)]
    right = [each.kind in ("byte", "short", "integer", "long", "float", "double") for each in columns]
    yield _aligned(heads, widths, right)
    for row in rows:
        yield _aligned(cells_of(row), widths, right)


def readable(value: Any, kind: Any) -> Any:
    """A value whose bytes are text, or hexadecimal where they are none."""
    if value is None:
        return None
    if kind == _BINARY:
        return readable_bytes(base64.b64decode(value))
    match kind:
        case {"type": "array", "elementType": inner}:
            return [readable(each, inner) for each in value]
        case {"type": "map", "valueType": inner}:
            return {name: readable(each, inner) for name, each in value.items()}
        case {"type": "struct", "fields": fields}:
            return {each["name"]: readable(value.get(each["name"]), each["type"]) for each in fields}
    return value


def readable_bytes(data: bytes) -> str:
    """UTF-8 as text, anything else as `0x…`."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"0x{data.hex()}"
    return text if all(each.isprintable() or each in "\n\r\t" for each in text) else f"0x{data.hex()}"


def _values(row: str) -> list[Any]:
    # Numbers as Spark writes them: a decimal has digits that a float lacks.
    found = json.loads(row, parse_float=_Number, parse_int=_Number)
    return list(found.values())


class _Number(str):
    """A number, by its digits."""

    __slots__ = ()


def _text(value: Any, null: str) -> str:
    if value is None:
        return null
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else _nested(value)


def _nested(value: Any) -> str:
    if isinstance(value, _Number):
        return value
    if isinstance(value, dict):
        return (
            "{"
            + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{_nested(one)}" for name, one in value.items())
            + "}"
        )
    if isinstance(value, list):
        return "[" + ",".join(map(_nested, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _csv(values: Sequence[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="").writerow(values)
    return buffer.getvalue()


def _cut(text: str) -> str:
    # A value must neither break its line nor move the terminal's cursor.
    shown = "".join(each if each.isprintable() else _escaped(each) for each in text[: _MOST_WIDTH + 1])
    return shown if len(shown) <= _MOST_WIDTH else f"{shown[: _MOST_WIDTH - 1]}…"


def _escaped(character: str) -> str:
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character, f"\\u{ord(character):04x}")


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)


def _aligned(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    parts = []
    for cell, width, to_the_right in zip(cells, widths, right, strict=True):
        blanks = " " * (width - _width(cell))
        parts.append(blanks + cell if to_the_right else cell + blanks)
    return "  ".join(parts).rstrip()
