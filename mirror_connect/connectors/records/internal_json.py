"""The JSON of Connect's internal topics: compact UTF-8, byte for byte as Kafka's JsonConverter (Jackson) writes it.

No white space, no `\\u` for characters beyond ASCII, no escaped `/`; objects keep the order of their members.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeGuard

from mirror_connect.connectors.config.values import java_text

# Records of workers and connectors are three levels deep.
DEEPEST: Final = 100
_TOO_DEEP: Final = f"nested deeper than {DEEPEST}"
# Jackson writes control characters in upper-case hexadecimal, Python's json in lower case.
_ESCAPES: Final = {
    **{code: f"\\u{code:04X}" for code in range(0x20)},
    **{ord(char): f"\\{short}" for char, short in zip('\b\t\n\f\r"\\', 'btnfr"\\', strict=True)},
}


def encode(value: object) -> bytes:
    """A value of None, bool, int, float, str, mappings with str keys and sequences; TypeError for anything else.

    ValueError for NaN and infinities, which JSON does not have.
    """
    # A lone surrogate has no UTF-8; Java's encoder writes a question mark too.
    return _text(value).encode("utf-8", "replace")


def decode(data: bytes) -> Any:
    """The inverse; ValueError for what is no JSON in UTF-8. Integers stay integers, up to 4,300 digits.

    A number beyond a double (1e999) is refused too: it would be written again as Infinity, which is no JSON. So are half
    a surrogate pair, which has no UTF-8, and a value nested deeper than DEEPEST, which would need a deep stack.
    """
    text = data.decode("utf-8")
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if text.count("[") + text.count("{") > DEEPEST:
        _check_depth(value)
    if "\\ud" in text or "\\uD" in text:
        # UnicodeEncodeError is a ValueError.
        json.dumps(value, ensure_ascii=False).encode()
    return value


def is_integer(value: object) -> TypeGuard[int]:
    """A JSON integer: Python counts bools among its ints, JSON doesn't."""
    return isinstance(value, int) and not isinstance(value, bool)


def _text(value: object) -> str:
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPES)}"'
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no JSON")
    if value is None or isinstance(value, bool | int | float):
        return java_text(value)
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{_key(key)}:{_text(member)}' for key, member in value.items())}}}"
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return f"[{','.join(map(_text, value))}]"
    raise TypeError(f"{type(value).__name__} has no place in the JSON of internal topics")


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError("names in a JSON object are text")
    return _text(key)


def _check_depth(value: object) -> None:
    level = [value]
    for _ in range(DEEPEST):
        inner: list[object] = []
        for each in level:
            if isinstance(each, dict):
                inner += each.values()
            elif isinstance(each, list):
                inner += each
        level = [each for each in inner if isinstance(each, dict | list)]
        if not level:
            return
    raise ValueError(_TOO_DEEP)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")
