"""The order of entries in Java's HashMap, which JSON gets when a Kafka worker reads and writes it.

Records are looked up by their bytes, which have this order (`["mm2-source",{"cluster":"A","partition":0,"topic":"t"}]`). So
have texts of errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_LEAST_TABLE: Final = 16


def in_hash_order(value: Any) -> Any:
    """A JSON value whose objects, at every depth, have the order of a HashMap with their members."""
    if isinstance(value, Mapping):
        table = _LEAST_TABLE
        while len(value) * 4 > table * 3:
            table *= 2
        # Entries of one bucket keep the order in which they were added, also when the table grows.
        names = sorted(value, key=lambda name: _spread(name) & (table - 1))
        return {name: in_hash_order(value[name]) for name in names}
    if isinstance(value, list):
        return [in_hash_order(item) for item in value]
    return value


def _spread(text: str) -> int:
    """HashMap.hash of a String: its hashCode, with the upper half mixed into the lower."""
    code = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(data), 2):
        code = (code * 31 + (data[at] << 8 | data[at + 1])) & 0xFFFFFFFF
    return code ^ code >> 16
