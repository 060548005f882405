"""Numbers as Java has them: of a fixed width, and as texts.

JSON's integers are Java's long, and its other numbers double. Here an integer may be larger; Java cuts it to 64 bits.
"""

from __future__ import annotations

import math
import re
import struct
from typing import Final

# Possessive: otherwise a hundred thousand digits before a letter would be tried at every split.
_DECIMAL: Final = re.compile(r"[+-]?(\d++\.?+\d*+|\.\d++)([eE][+-]?\d++)?", re.ASCII)
_INTEGER: Final = re.compile(r"[+-]?(\d++)")
_LONGEST: Final = 400
_INT: Final = 32
_LONG: Final = 64


def wrapped(value: int, bits: int) -> int:
    """The lowest bits of a number, signed."""
    half = 1 << bits - 1
    return (value + half) % (1 << bits) - half


def integer_of(value: float, bits: int) -> int:
    """A double as an integer of so many bits: cut off, and at the limits of int or long where it is larger."""
    width = max(bits, _INT)
    half = 1 << width - 1
    if math.isnan(value):
        return 0
    cut = half if value >= half else -half if value <= -half else int(value)
    return wrapped(min(cut, half - 1), bits)


def parsed_integer(text: str, bits: int) -> int | None:
    """`parseInt` and its relatives; None if it is no such number."""
    found = _INTEGER.fullmatch(text)
    if found is None or len(found[1].lstrip("0")) > bits:
        return None
    value = int(found[1][-bits:]) * (-1 if text.startswith("-") else 1)
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None


def nearest_float32(value: float) -> float:
    """The shortest decimal of the float that is nearest to a double, as JSON shows it."""
    try:
        (single,) = struct.unpack("f", struct.pack("f", value))
    except OverflowError:
        return math.copysign(math.inf, value)
    for digits in range(1, 10):
        short = float(f"{single:.{digits}g}")
        if _single(short) == single:
            return short
    return float(single)


def _single(value: float) -> float | None:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return None


def decimal_long(text: str) -> int | None:
    """`new BigDecimal(text).longValue()`; None if it is no number."""
    found = _decimal(text)
    if found is None:
        return None
    sign, whole, fraction, exponent = found
    digits = whole + fraction
    places = len(whole) + exponent
    zeros = places - len(digits)
    # Each ten has a factor of two: behind so many zeros nothing is left of the lowest bits.
    if places <= 0 or zeros >= _LONG:
        return 0
    return wrapped(sign * int(digits[:places] + "0" * zeros), _LONG)


def decimal_double(text: str) -> float | None:
    """`new BigDecimal(text).doubleValue()`; None if it is no number."""
    return None if _decimal(text) is None else float(text)


def _decimal(text: str) -> tuple[int, str, str, int] | None:
    if len(text) > _LONGEST or not _DECIMAL.fullmatch(text):
        return None
    mantissa, _, exponent = text.lower().partition("e")
    if len(exponent.lstrip("+-")) > 9:
        return None
    whole, _, fraction = mantissa.lstrip("+-").partition(".")
    return (-1 if text.startswith("-") else 1), whole, fraction, int(exponent or 0)
