"""What Spark's parser takes for the field of a schema, and is none of its type. Columns of booleans, null for false.

For STRING it takes the text of an object or an array, and so all fields in it. A number that is too large becomes infinite.
A plain number is a time in seconds, also one that is in milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

    Check = Callable[[Column, DataType], Column | None]

# Those that SQL has. Others come of numbers in milliseconds, or of digits that are no date.
_FIRST_TIME: Final = "0001-01-01 00:00:00"
_LAST_TIME: Final = "9999-12-31 23:59:59.999999"
_INFINITE: Final = float("inf")


def out_of_range(column: Column, kind: DataType) -> Column | None:
    """Whether a field is infinite or a time outside of the years 1 to 9999; None if the type has no such field."""
    return _any_field(column, kind, _out_of_range)


def may_hold_more(column: Column, kind: DataType) -> Column | None:
    """Whether a STRING field begins as an object or an array does. It may be a string with such a text."""
    return _any_field(column, kind, _may_hold_more)


def holds_more(column: Column, kind: DataType) -> Column | None:
    """Whether a STRING field was an object or an array. `column`: the same JSON, read as `with_variants` of the type."""
    return _any_field(column, kind, _holds_more)


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


def _out_of_range(column: Column, kind: DataType) -> Column | None:
    from pyspark.sql import functions as f  # noqa: PLC0415 — with a session only
    from pyspark.sql import types as t  # noqa: PLC0415

    if isinstance(kind, t.FloatType | t.DoubleType):
        return f.abs(column) == f.lit(_INFINITE)
    if isinstance(kind, t.DateType | t.TimestampType | t.TimestampNTZType):
        return (column < f.lit(_FIRST_TIME).cast(kind)) | (column > f.lit(_LAST_TIME).cast(kind))
    return None


def _may_hold_more(column: Column, kind: DataType) -> Column | None:
    from pyspark.sql.types import StringType  # noqa: PLC0415 — with a session only

    return column.startswith("{") | column.startswith("[") if isinstance(kind, StringType) else None


def _holds_more(column: Column, kind: DataType) -> Column | None:
    from pyspark.sql import functions as f  # noqa: PLC0415 — with a session only
    from pyspark.sql.types import StringType  # noqa: PLC0415

    if not isinstance(kind, StringType):
        return None
    found = f.schema_of_variant(column)
    return found.startswith("OBJECT") | found.startswith("ARRAY")


def _any_field(column: Column, kind: DataType, check: Check) -> Column | None:
    """Whether the check is true of a field of single values, however deep; None if it is of none of these types."""
    from pyspark.sql import functions as f  # noqa: PLC0415 — with a session only
    from pyspark.sql import types as t  # noqa: PLC0415

    if isinstance(kind, t.StructType):
        return _any(_any_field(column.getField(each.name), each.dataType, check) for each in kind.fields)
    if isinstance(kind, t.ArrayType | t.MapType):
        inner = kind.elementType if isinstance(kind, t.ArrayType) else kind.valueType
        if _any_field(column, inner, check) is None:
            return None
        values = column if isinstance(kind, t.ArrayType) else f.map_values(column)
        return f.exists(values, lambda each: f.coalesce(_any_field(each, inner, check), f.lit(False)))
    return check(column, kind)


def _any(columns: Iterable[Column | None]) -> Column | None:
    """As deep as it must be: Spark goes through it by recursion."""
    found = [each for each in columns if each is not None]
    while len(found) > 1:
        found = [a if b is None else a | b for a, b in zip(found[::2], [*found[1::2], None], strict=False)]
    return found[0] if found else None
