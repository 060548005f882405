"""The nine types of settings: texts to values and back, as Kafka's ConfigDef does it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from mirror_connect.connectors.user_code.known_classes import CLASS_ALIASES, KNOWN_CLASSES

Type = Literal["STRING", "BOOLEAN", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD"]
STRING: Final = "STRING"
BOOLEAN: Final = "BOOLEAN"
INT: Final = "INT"
SHORT: Final = "SHORT"
LONG: Final = "LONG"
DOUBLE: Final = "DOUBLE"
LIST: Final = "LIST"
CLASS: Final = "CLASS"
PASSWORD: Final = "PASSWORD"

_BITS: Final = {INT: 32, SHORT: 16, LONG: 64}
_INTEGER: Final = re.compile(r"[+-]?\d+")
# Possessive: otherwise a hundred thousand digits before a letter would be tried at every split.
_DECIMAL: Final = re.compile(r"[+-]?(\d++\.?+\d*+|\.\d++)([eE][+-]?\d++)?[fFdD]?", re.ASCII)
_HEXADECIMAL: Final = re.compile(
    r"[+-]?0[xX]([\da-fA-F]++\.?+[\da-fA-F]*+|\.[\da-fA-F]++)[pP][+-]?\d++[fFdD]?", re.ASCII
)
_JAVA_SPACE: Final = " \t\n\x0b\f\r"
_JAVA_TRIM: Final = "".join(map(chr, range(0x21)))  # String.trim() cuts everything up to the space


class Secret:
    """A secret value: `repr`, `str` and every format of it give `[hidden]`; `reveal()` returns the value."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself, only for clients."""
        return self._value

    def __repr__(self) -> str:
        return "[hidden]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


def trim(text: str) -> str:
    """Java's String.trim(): removes control characters, too, but no other Unicode spaces."""
    return text.strip(_JAVA_TRIM)


def parse(text: str | None, kind: Type) -> tuple[str | None, Any]:
    """(problem, value) of a setting's text: the problem as Kafka words it, or None. A null is no problem here."""
    if text is None:
        return None, None
    trimmed = trim(text)
    problem: str | None = None
    value: Any = trimmed
    if kind == PASSWORD:
        value = Secret(trimmed)
    elif kind == BOOLEAN:
        value = {"true": True, "false": False}.get(trimmed.lower())
        problem = "Expected value to be either true or false"
    elif kind in _BITS:
        value = _integer(trimmed, _BITS[kind])
        problem = f"Not a number of type {kind}"
    elif kind == DOUBLE:
        value = _double(trimmed)
        problem = f"Not a number of type {kind}"
    elif kind == LIST:
        # Java splits at `\s*,\s*`, which takes quadratic time for many blanks.
        value = [entry.strip(_JAVA_SPACE) for entry in trimmed.split(",")] if trimmed else []
    elif kind == CLASS:
        value = CLASS_ALIASES.get(trimmed, trimmed)
        if value not in KNOWN_CLASSES:
            # There is no class path here: a Java class without a counterpart can't be found.
            return f"Class {trimmed} could not be found.", None
    return (problem, None) if value is None else (None, value)


def _integer(text: str, bits: int) -> int | None:
    digits = text.lstrip("+-").lstrip("0") or "0"
    # Python reads no number of more than 4300 digits, leading zeros included.
    if not _INTEGER.fullmatch(text) or len(digits) > bits:
        return None
    value = -int(digits) if text.startswith("-") else int(digits)
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None


def _double(text: str) -> float | None:
    if text.lstrip("+-") in {"NaN", "Infinity"} and len(text) - len(text.lstrip("+-")) <= 1:
        return float(text.replace("Infinity", "inf"))
    if _DECIMAL.fullmatch(text):
        return float(text.rstrip("fFdD"))
    if _HEXADECIMAL.fullmatch(text):
        mantissa, exponent = re.split("[pP]", text)
        try:
            return float.fromhex(f"{mantissa}p{exponent.rstrip('fFdD')}")
        except OverflowError:
            return float("-inf" if text.startswith("-") else "inf")
    return None


def java_text(value: object) -> str:
    """A value as Java's string concatenation writes it: `null`, `true`, `[a, b]`, `{a=b}`, `1.0E8`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _java_double(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(java_text, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{java_text(name)}={java_text(member)}' for name, member in value.items())}}}"
    return str(value)


def wire_text(value: object, kind: Type) -> str | None:
    """A value as REST returns it (ConfigDef.convertToString): lists joined by commas, passwords hidden, None as null."""
    if value is None:
        return None
    if kind == LIST and isinstance(value, list | tuple):
        return ",".join(map(java_text, value))
    return java_text(value)


def _java_double(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        # Never an exponent in this range for Java; repr() of Python has one only below 1e-4.
        return repr(value)
    sign, digits, exponent = re.fullmatch(r"(-?)([\d.]+)(?:e([+-]\d+))?", repr(value)).groups()  # type: ignore[union-attr]
    whole, _, fraction = digits.partition(".")
    power = int(exponent or 0)
    significant = (whole + fraction).lstrip("0")
    power += len(whole) - 1 if whole.strip("0") else -(len(fraction) - len(fraction.lstrip("0")) + 1)
    rest = significant[1:].rstrip("0") or "0"
    return f"{sign}{significant[0]}.{rest}E{power}"
