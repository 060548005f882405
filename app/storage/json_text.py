"""JSON as Kafka's JsonConverter (schemas off) writes it into the internal topics: byte for byte.

Compact, UTF-8, non-ASCII raw, and only what JSON forces is escaped; control characters without a short form get upper
case hex (`\\u001F`), where Python's json module writes lower case. FORMATS.md §1.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

_ESCAPED: Final = re.compile(r'["\\\x00-\x1f]')
_SHORT: Final = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def encode(value: Any) -> bytes:
    """The bytes of a JSON value: dict (with text keys, in its own order), list, str, bool, int, float or None."""
    return _text(value).encode()


def decode(data: bytes | None) -> Any:
    """The JSON value of `data`, or None where it is None, no UTF-8 or no JSON: readers skip what they can't read."""
    if data is None:
        return None
    try:
        return json.loads(data)
    except ValueError:
        return None


def decode_object(data: bytes | None) -> dict[str, Any] | None:
    """The JSON object in `data`, None for anything else."""
    value = decode(data)
    return value if isinstance(value, dict) else None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return '"' + _ESCAPED.sub(_escape, value) + '"'
    if isinstance(value, dict):
        return "{" + ",".join(f"{_text(str(name))}:{_text(member)}" for name, member in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_text, value)) + "]"
    return json.dumps(value)


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    return _SHORT.get(character) or f"\\u{ord(character):04X}"
