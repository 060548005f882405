"""Kafka Connect's Schema: what a value that came with a schema is, and how its type is changed.

A struct is a dict by the names of its fields, in their order and with all of them. A map is a dict if its keys are texts,
and a list of pairs otherwise. Dates and times are an Instant, decimals a Decimal of the exact digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from mirror_connect.connectors.record_errors import StepError


class Type(Enum):
    """Connect's types; the value is the name in JSON."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


BITS: Final[Mapping[Type, int]] = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_PACKAGE: Final = "org.apache.kafka.connect.data."
DATE: Final = f"{_PACKAGE}Date"
TIME: Final = f"{_PACKAGE}Time"
TIMESTAMP: Final = f"{_PACKAGE}Timestamp"
DECIMAL: Final = f"{_PACKAGE}Decimal"
# Logical type → the only type that it has here.
LOGICAL: Final[Mapping[str, Type]] = {
    DATE: Type.INT32,
    TIME: Type.INT32,
    TIMESTAMP: Type.INT64,
    DECIMAL: Type.BYTES,
}


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """One schema. `keys`: of a map; `items`: of a map's values or an array's elements; `fields`: of a struct, in order.

    `parameters` is None rather than empty. `made`: what has been made for this schema, by who made it.
    """

    type: Type
    optional: bool = False
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] | None = None
    default: Any = None
    keys: Schema | None = None
    items: Schema | None = None
    fields: Mapping[str, Schema] = field(default_factory=dict)
    made: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def logical(self) -> str | None:
        """The name of its logical type."""
        return self.name if self.name in LOGICAL else None

    def retyped(self, kind: Type, **parts: Any) -> Schema:
        """A required schema of another type with this one's name, version, doc and parameters: Kafka's copySchemaBasics."""
        return Schema(kind, name=self.name, version=self.version, doc=self.doc, parameters=self.parameters, **parts)


def plain(kind: Type, *, optional: bool) -> Schema:
    """A schema that is no more than a type."""
    return Schema(kind, optional)


def logical(name: str, *, optional: bool) -> Schema:
    """The schema of a logical type that has no parameters."""
    return Schema(LOGICAL[name], optional, name, 1)


class Fields(dict[str, Schema]):
    """The fields of a new struct. Their names are unique and not empty."""

    def add(self, name: str, schema: Schema) -> None:
        """One more field. StepError."""
        if not name:
            raise StepError("a field of its schema would have an empty name")
        if name in self:
            raise StepError("two fields of its schema would have one name")
        self[name] = schema
