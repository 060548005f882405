"""Schemas that are remembered, since nearly every record has the one of the record before.

Any producer may send schemas of any size, and a new one with each record. So what is kept is counted, and dropped as a
whole when it becomes too much. What is in use then is made once more.
"""

from __future__ import annotations

from sys import getsizeof
from typing import Final, NamedTuple

from mirror_connect.connectors.json_steps.connect_schema import Schema

# About what a schema of one type takes, with what reads and writes its values, as measured.
_NODE_BYTES: Final = 2000
_MOST_BYTES: Final = 64 << 20
# A larger one would drop all others.
_LARGEST: Final = 16 << 20
# Beginnings of envelopes that are compared first.
_MOST_NEWEST: Final = 8


class Known(NamedTuple):
    """The text of an envelope up to its payload, and its schema."""

    begin: bytes
    schema: Schema


class KeptSchemas:
    """By whether nulls become defaults: schemas by their parsed JSON as text, and the newest beginnings of envelopes.

    `size`: about how many bytes all of it takes. It never stays above `most`. One above `largest` is not kept.
    """

    def __init__(self, most: int = _MOST_BYTES, largest: int = _LARGEST) -> None:
        self.size = 0
        self.most = most
        self.largest = largest
        self._schemas: dict[tuple[bool, str], Schema] = {}
        self.newest: dict[bool, tuple[Known, ...]] = {False: (), True: ()}

    def find(self, text: str, *, replace_nulls: bool) -> Schema | None:
        """The schema of this text."""
        return self._schemas.get((replace_nulls, text))

    def keep(self, text: str, schema: Schema, *, replace_nulls: bool) -> bool:
        """Remembers a schema. Whether it does: not if it is too large."""
        size = getsizeof(text) + size_of(schema)
        if size > self.largest:
            return False
        self.grow(size)
        self._schemas[replace_nulls, text] = schema
        return True

    def keep_begin(self, known: Known, *, replace_nulls: bool) -> None:
        """Remembers how envelopes of a schema that is kept begin."""
        self.grow(len(known.begin))
        before = self.newest[replace_nulls]
        self.newest[replace_nulls] = (known, *before[: _MOST_NEWEST - 1])
        self.size -= sum(len(each.begin) for each in before[_MOST_NEWEST - 1 :])

    def grow(self, size: int) -> None:
        """Counts what was made for a schema, and is kept with it."""
        self.size += size
        if self.size > self.most:
            self.size = min(size, self.most)
            self._schemas.clear()
            self.newest.update({False: (), True: ()})


def size_of(schema: Schema) -> int:
    """About how many bytes a schema takes, without its defaults."""
    size = _NODE_BYTES + getsizeof(schema.doc) + getsizeof(schema.name)
    for name, text in (schema.parameters or {}).items():
        size += getsizeof(name) + getsizeof(text)
    for part in (schema.keys, schema.items):
        size += 0 if part is None else size_of(part)
    # What writes a field has its name, too.
    return size + sum(2 * getsizeof(name) + size_of(each) for name, each in schema.fields.items())


# Those of this process. A transformation of any connector may meet the schema of another's.
KEPT: Final = KeptSchemas()
