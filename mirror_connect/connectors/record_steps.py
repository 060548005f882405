"""What changes the records of a partition on their way: the steps of a chain of transformations, for one remote topic.

They need no more than the bytes of a record. kafka_io/records/record_transforms.py applies them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


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


Steps = tuple[Step, ...]
