"""Kafka's Cast: numbers, texts, true and false of a JSON value become others, with the limits and roundings of Java."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mirror_connect.connectors.config.values import DOUBLE, java_text, parse
from mirror_connect.connectors.json_steps.fields import kind_of, needs_object
from mirror_connect.connectors.json_steps.java_numbers import (
    integer_of,
    nearest_float32,
    parsed_integer,
    wrapped,
)
from mirror_connect.connectors.record_errors import StepError
from mirror_connect.connectors.record_steps import JsonChange

_BITS: Final = {"INT8": 8, "INT16": 16, "INT32": 32, "INT64": 64}


@dataclass(frozen=True, slots=True)
class Cast(JsonChange):
    """`types`: field → type; None → type for the whole value. A field that is not there becomes null, as with Kafka's."""

    types: Mapping[str | None, str] = field(hash=False)
    replace_nulls: bool = True

    def apply(self, value: Any, timestamp: int) -> Any:
        """See JsonChange."""
        if value is None:
            return None
        whole = self.types.get(None)
        if whole is not None:
            return _cast(value, whole, "it")
        changed = dict(needs_object(value))
        for name, kind in self.types.items():
            assert name is not None
            changed[name] = _cast(changed.get(name), kind, f"field {name}")
        return changed


def _cast(value: Any, kind: str, what: str) -> Any:
    if value is None:
        return None
    if not isinstance(value, bool | int | float | str):
        raise StepError(f"{what} is {kind_of(value)}, which can't be cast")
    if isinstance(value, int) and not isinstance(value, bool):
        # Java has no larger one. As a double it could be too large.
        value = wrapped(value, 64)
    made = cast_scalar(value, kind, what)
    # JSON has no such numbers: Kafka's JsonConverter writes their names as texts.
    return java_text(made) if isinstance(made, float) and not math.isfinite(made) else made


def cast_scalar(value: bool | float | str, kind: str, what: str) -> bool | float | str:
    """A value as another type. StepError with `what`, which names it."""
    if kind == "STRING":
        return java_text(value)
    if kind == "BOOLEAN":
        if isinstance(value, str):
            return value.lower() == "true"
        # Java looks at the whole part alone.
        return (integer_of(value, 64) if isinstance(value, float) else value) != 0
    made = _float(value, kind) if kind.startswith("FLOAT") else _integer(value, _BITS[kind])
    if made is None:
        raise StepError(f"{what} is a text that is no {kind.lower()}")
    return made


def _integer(value: bool | float | str, bits: int) -> int | None:
    if isinstance(value, str):
        return parsed_integer(value, bits)
    if isinstance(value, float):
        return integer_of(value, bits)
    return wrapped(int(value), bits)


def _float(value: bool | float | str, kind: str) -> float | None:
    if isinstance(value, str):
        number = parse(value, DOUBLE)[1]
        if number is None:
            return None
        made = float(number)
    else:
        made = float(value)
    return nearest_float32(made) if kind == "FLOAT32" else made
