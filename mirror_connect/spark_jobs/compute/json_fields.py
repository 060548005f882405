"""What Spark's parser takes for the field of a schema, and is none of its type. Columns of booleans, null for false.

For STRING it takes the text of an object or an array, and so all fields in it. A number that is too large becomes infinite.
A plain number is a time in seconds, also one that is in milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import ArrayType, DataType, MapType

    Check = Callable[[Column, DataType], Column]

# Those that SQL has. Others come of numbers in milliseconds, or of digits that are no date.
_FIRST_TIME: Final = "0001-01-01 00:00:00"
_LAST_TIME: Final = "9999-12-31 23:59:59.999999"
_INFINITE: Final = float("inf")
# By Spark's names.
_STRINGS: Final = frozenset(("string",))
_FRACTIONS: Final = frozenset(("float", "double"))
_TIMES: Final = frozenset(("date", "timestamp", "timestamp_ntz"))


def out_of_range(column: Column, kind: DataType) -> Column | None:
    """Whether a field is infinite or a time outside of the years 1 to 9999; None if the type has no such field."""
    return _any_field(column, kind, _FRACTIONS | _TIMES, _out_of_range)


def may_hold_more(column: Column, kind: DataType) -> Column | None:
    """Whether a STRING field begins as an object or an array does. It may be a string with such a text."""
    return _any_field(column, kind, _STRINGS, _may_hold_more)


def holds_more(column: Column, kind: DataType) -> Column | None:
    """Whether a STRING field was an object or an array. `column`: the same JSON, read as `with_variants` of the type."""
    return _any_field(column, kind, _STRINGS, _holds_more)


def with_variants(kind: DataType) -> DataType:
    """The type with VARIANT in place of each STRING. A VARIANT knows what it was in the JSON, and costs more."""
    from pyspark.sql import types as t  # noqa: PLC0415 — with a session only

    if isinstance(kind, t.StringType):
        return t.VariantType()
    if isinstance(kind, t.StructType):
        return t.StructType([t.StructField(each.name, with_variants(each.dataType)) for each in kind.fields])
    if isinstance(kind, t.ArrayType):
        return t.ArrayType(with_variants(kind.elementType))
    if isinstance(kind, t.MapType):
        return t.MapType(kind.keyType, with_variants(kind.valueType))
    return kind


def _out_of_range(column: Column, kind: DataType) -> Column:
    from pyspark.sql import functions as f  # noqa: PLC0415 — with a session only

    if kind.typeName() in _FRACTIONS:
        return f.abs(column) == f.lit(_INFINITE)
    return (column < f.lit(_FIRST_TIME).cast(kind)) | (column > f.lit(_LAST_TIME).cast(kind))


def _may_hold_more(column: Column, _: DataType) -> Column:
    return column.startswith("{") | column.startswith("[")


def _holds_more(column: Column, _: DataType) -> Column:
    from pyspark.sql import functions as f  # noqa: PLC0415 — with a session only

    found = f.schema_of_variant(column)
    return found.startswith("OBJECT") | found.startswith("ARRAY")


def _any_field(column: Column, kind: DataType, types: Collection[str], check: Check) -> Column | None:
    """Whether the check is true of a field of one of these types, however deep; None if there is no such field."""
    from pyspark.sql import functions as f  # noqa: PLC0415 — with a session only
    from pyspark.sql import types as t  # noqa: PLC0415

    if isinstance(kind, t.StructType):
        return _any(
            _any_field(column.getField(each.name), each.dataType, types, check)
            for each in kind.fields
            if _has(each.dataType, types)
        )
    if not _has(kind, types):
        return None
    if isinstance(kind, t.ArrayType | t.MapType):
        inner = _inner(kind)
        values = column if isinstance(kind, t.ArrayType) else f.map_values(column)
        return f.exists(values, lambda each: f.coalesce(_any_field(each, inner, types, check), f.lit(False)))
    return check(column, kind)


def _has(kind: DataType, types: Collection[str]) -> bool:
    """Whether a type has a field of one of these types. Without the JVM, as it is asked at each level."""
    from pyspark.sql import types as t  # noqa: PLC0415 — with a session only

    if isinstance(kind, t.StructType):
        return any(_has(each.dataType, types) for each in kind.fields)
    return _has(_inner(kind), types) if isinstance(kind, t.ArrayType | t.MapType) else kind.typeName() in types


def _inner(kind: ArrayType | MapType) -> DataType:
    from pyspark.sql.types import ArrayType  # noqa: PLC0415 — with a session only

    return kind.elementType if isinstance(kind, ArrayType) else kind.valueType


def _any(columns: Iterable[Column | None]) -> Column | None:
    """As deep as it must be: Spark goes through it by recursion."""
    found = [each for each in columns if each is not None]
    while len(found) > 1:
        found = [a if b is None else a | b for a, b in zip(found[::2], [*found[1::2], None], strict=False)]
    return found[0] if found else None
