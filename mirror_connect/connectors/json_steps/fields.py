"""Transformations of the fields of a JSON object: mask, replace, insert, extract, hoist, flatten, make a key of.

What they make is what Kafka's classes make of data without schemas. Objects keep the order of their fields. with_schemas.py
does it for data with schemas, where `replace_nulls` has a null of a field that a step takes become the field's default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from mirror_connect.connectors.config.java_maps import in_hash_order
from mirror_connect.connectors.json_steps.java_numbers import decimal_double, decimal_long
from mirror_connect.connectors.record_errors import StepError
from mirror_connect.connectors.record_steps import JsonChange

# Of the names that Flatten makes, in characters. A record of 1 MB can have long names for gigabytes.
MOST_OF_NAMES: Final = 32 << 20
TOO_LONG_NAMES: Final = f"it becomes too large: its names would have more than {MOST_OF_NAMES} characters"


def kind_of(value: object) -> str:
    """What a value is in JSON, for texts of errors."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a text"
    return "a list" if isinstance(value, list) else "an object" if isinstance(value, dict) else "a timestamp"


def needs_object(value: Any) -> dict[str, Any]:
    """The value, which has to be an object."""
    if not isinstance(value, dict):
        raise StepError(f"it needs a JSON object, and found {kind_of(value)}")
    return value


@dataclass(frozen=True, slots=True)
class MaskField(JsonChange):
    """Replaces fields by a value that tells nothing. Fields that are not there become null, as with Kafka's."""

    fields: tuple[str, ...]
    replacement: str | None = None
    replace_nulls: bool = True

    def apply(self, value: Any, timestamp: int) -> Any:
        """See JsonChange."""
        changed = dict(needs_object(value))
        for name in self.fields:
            changed[name] = self._masked(name, changed.get(name))
        return changed

    def _masked(self, name: str, value: Any) -> Any:
        if value is None:
            return None
        if self.replacement is not None:
            return self._replaced(name, value, self.replacement)
        if isinstance(value, bool):
            return False
        for kind in (int, float, str, list, dict):
            if isinstance(value, kind):
                return kind()
        # Java masks a java.util.Date by the beginning of 1970, which JSON can't hold.
        return type(value)(0)

    def _replaced(self, name: str, value: Any, replacement: str) -> Any:
        if isinstance(value, str):
            return replacement
        number: int | float | None
        if isinstance(value, int) and not isinstance(value, bool):
            number = decimal_long(replacement)
        elif isinstance(value, float):
            number = decimal_double(replacement)
        else:
            raise StepError(f"field {name} is {kind_of(value)}, which takes no replacement")
        if number is None:
            raise StepError(f"field {name} is a number, and the replacement is none")
        return number


@dataclass(frozen=True, slots=True)
class ReplaceField(JsonChange):
    """Leaves fields out, or renames them."""

    exclude: frozenset[str]
    include: frozenset[str]
    renames: Mapping[str, str] = field(hash=False)
    replace_nulls: bool = True

    def apply(self, value: Any, timestamp: int) -> Any:
        """See JsonChange."""
        if value is None:
            return None
        before = needs_object(value)
        exclude, include = self.exclude, self.include
        kept = {
            name: member for name, member in before.items() if name not in exclude and (not include or name in include)
        }
        if self.renames and not self.renames.keys().isdisjoint(kept):
            names = [self.renames.get(name, name) for name in kept]
            if len(set(names)) < len(names):
                # Two get one name. Kafka keeps the one that comes last in a HashMap.
                left = dict.fromkeys(before)
                ordered = [name for name in in_hash_order(left) if name in kept]
                return {self.renames.get(name, name): kept[name] for name in ordered}
            return dict(zip(names, kept.values(), strict=True))
        return value if len(kept) == len(before) else kept


@dataclass(frozen=True, slots=True)
class InsertField(JsonChange):
    """Adds fields. `topic`, `partition`, `timestamp`: their names, None without one. `static`: name and value.

    `place`: the remote topic and the partition. `required`: of "topic", "partition", "timestamp" and "static" those whose
    fields a schema has as required.
    """

    topic: str | None = None
    partition: str | None = None
    timestamp: str | None = None
    static: tuple[str, str] | None = None
    place: tuple[str, int] = ("", -1)
    required: frozenset[str] = frozenset()
    replace_nulls: bool = True

    def placed(self, topic: str, partition: int) -> InsertField:
        """See JsonChange."""
        return replace(self, place=(topic, partition))

    def apply(self, value: Any, timestamp: int) -> Any:
        """See JsonChange."""
        if value is None:
            return None
        changed = dict(needs_object(value))
        if self.topic is not None:
            changed[self.topic] = self.place[0]
        if self.partition is not None:
            changed[self.partition] = self.place[1]
        if self.timestamp is not None:
            changed[self.timestamp] = timestamp
        if self.static is not None:
            changed[self.static[0]] = self.static[1]
        return changed


@dataclass(frozen=True, slots=True)
class ExtractField(JsonChange):
    """Takes the field at a path in place of the whole; null if it is not there."""

    path: tuple[str, ...]
    replace_nulls: bool = True

    def apply(self, value: Any, timestamp: int) -> Any:
        """See JsonChange."""
        for name in self.path:
            if value is None:
                return None
            value = needs_object(value).get(name)
        return value


@dataclass(frozen=True, slots=True)
class HoistField(JsonChange):
    """Makes an object with one field, which holds the whole."""

    field: str

    def apply(self, value: Any, timestamp: int) -> Any:
        """See JsonChange."""
        return {self.field: value}


@dataclass(frozen=True, slots=True)
class Flatten(JsonChange):
    """Puts the fields of nested objects into the outer one, with the names of both. Lists stay as they are."""

    delimiter: str = "."

    def apply(self, value: Any, timestamp: int) -> Any:
        """See JsonChange."""
        if value is None:
            return None
        fields = needs_object(value)
        if not any(isinstance(member, dict) for member in fields.values()):
            return value
        pairs: list[tuple[str, Any]] = []
        self._add(fields, "", pairs, MOST_OF_NAMES)
        flat = dict(pairs)
        if len(flat) < len(pairs):
            # Two get one name. Kafka keeps the one that comes last in its HashMaps.
            pairs.clear()
            self._add(in_hash_order(fields), "", pairs, MOST_OF_NAMES)
            flat = dict(pairs)
        return flat

    def _add(self, fields: dict[str, Any], prefix: str, pairs: list[tuple[str, Any]], left: int) -> int:
        """`left`: how many characters the names may still have, and what remains of that. StepError."""
        for own, member in fields.items():
            name = f"{prefix}{self.delimiter}{own}" if prefix else own
            left -= len(name)
            if left < 0:
                raise StepError(TOO_LONG_NAMES)
            if isinstance(member, dict):
                left = self._add(member, name, pairs, left)
            else:
                pairs.append((name, member))
        return left


@dataclass(frozen=True, slots=True)
class ValueToKey(JsonChange):
    """Makes a key of fields of the value; null where one is not there."""

    fields: tuple[str, ...]
    replace_nulls: bool = True

    def apply(self, value: Any, timestamp: int) -> Any:
        """See JsonChange: the value is the record's value, the result its key."""
        fields = needs_object(value)
        return {name: fields.get(name) for name in self.fields}
