"""JSON objects with something behind them, as `{"id": 1}{"id": 2}`. A parser that reads one value does not see the rest.

The name is that of Jackson, Spark's parser: trailing tokens.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Final

from mirror_connect.kafka_io.records import compiled
from mirror_connect.kafka_io.records.record_columns import BytesColumn

_SPACE: Final = b" \t\n\r"
_STRING_OR_BRACKET: Final = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[{\]}]', re.DOTALL)


def trailing_tokens(column: BytesColumn, rows: int) -> Sequence[int]:
    """The numbers of the rows that begin with an object and have more than space behind it. The column begins at its row 0.

    Whether the object itself is JSON is not looked at. ValueError if the column has fewer rows.
    """
    if compiled.functions is not None:
        return compiled.functions.trailing_tokens(column.offsets, column.data, rows)
    if len(column.offsets) < 4 * (rows + 1):
        raise ValueError("the column has fewer rows")
    offsets = struct.unpack_from(f"<{rows + 1}i", column.offsets)
    return tuple(
        row for row in range(rows) if _goes_on_behind_object(bytes(column.data[offsets[row] : offsets[row + 1]]))
    )


def _goes_on_behind_object(text: bytes) -> bool:
    if not text.lstrip(_SPACE).startswith(b"{"):
        return False
    depth = 0
    for found in _STRING_OR_BRACKET.finditer(text):
        token = found.group()
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                return bool(text[found.end() :].strip(_SPACE))
    return False
