"""What changes the records of a partition on their way: the steps of a chain of transformations, for one remote topic.

A `Step` needs no more than the bytes of a record: kafka_io/records/record_transforms.py applies it. A `JsonStep` looks into
a key or value that is JSON: kafka_io/records/json_transforms.py applies it, and the steps beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final


class Action(IntEnum):
    """What a step does with a record. The numbers are those of _compiled.c."""

    FILTER = 0
    DROP_HEADERS = 1
    INSERT_HEADER = 2


class Condition(IntEnum):
    """Which records a step takes. The numbers are those of _compiled.c."""

    ALWAYS = 0
    IS_TOMBSTONE = 1
    HAS_HEADER = 2


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `headers`: names, in UTF-8, of those to drop, or the one to insert with `value`.

    `negated`: it takes the records that the condition does not name. `has`: the header that HAS_HEADER looks for.
    """

    action: Action
    condition: Condition = Condition.ALWAYS
    negated: bool = False
    has: bytes = b""
    headers: tuple[bytes, ...] = ()
    value: bytes = b""


class JsonChange:
    """What a transformation makes of a parsed JSON value. It never changes that value in place."""

    __slots__ = ()

    def apply(self, value: Any, timestamp: int) -> Any:
        """The new value; the same object if nothing changes. `timestamp`: of the record. StepError."""
        raise NotImplementedError

    def placed(self, topic: str, partition: int) -> JsonChange:
        """The same for records that go to this remote topic, by its name at this place of the chain."""
        return self


class Part(IntEnum):
    """What a JSON step changes. KEY_FROM_VALUE: it makes the key of the value."""

    KEY = 0
    VALUE = 1
    KEY_FROM_VALUE = 2


@dataclass(frozen=True, slots=True)
class JsonForm:
    """How a JsonConverter reads and writes keys or values. `schemas`: as envelopes of schema and payload.

    `numeric_decimals`: it writes decimals as numbers. `replace_nulls`: nulls become the defaults of schemas.
    """

    schemas: bool = False
    numeric_decimals: bool = False
    replace_nulls: bool = True


PLAIN_JSON: Final = JsonForm()


@dataclass(frozen=True, slots=True)
class JsonStep:
    """A step that looks into JSON. `alias`: of its transformation. `condition`, `negated`, `has`: as in Step.

    `key`, `value`: the forms of those that it reads or makes.
    """

    alias: str
    part: Part
    change: JsonChange
    condition: Condition = Condition.ALWAYS
    negated: bool = False
    has: bytes = b""
    key: JsonForm = PLAIN_JSON
    value: JsonForm = PLAIN_JSON

    def placed(self, topic: str, partition: int) -> JsonStep:
        """See JsonChange."""
        return replace(self, change=self.change.placed(topic, partition))


Steps = tuple[Step | JsonStep, ...]
