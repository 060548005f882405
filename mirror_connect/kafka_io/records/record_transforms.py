"""Applies transformations to the records of a batch: some are dropped, others get or lose headers.

Keys and values are never parsed. The records that stay keep their deltas, so offsets have gaps where a record was dropped:
record_rewrite.rewrite closes them. _compiled.c does the same where it can. This code is its twin, and names what is wrong
with a record.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, cast

from mirror_connect.connectors.record_steps import Action, Condition, Step, Steps
from mirror_connect.kafka_io.records import compiled, varint
from mirror_connect.kafka_io.records.record_batch import CorruptBatchError

# Steps that need no more than bytes.
ByteSteps = tuple[Step, ...]
# The least bytes of a record besides its key, value and headers: attributes, two deltas, and a length.
FEWEST_BYTES: Final = 4
# _compiled.c has the same limits. What a batch decompresses to is limited by the second one, too.
MOST_HEADERS: Final = 100_000
MOST_TRANSFORMED: Final = 256 << 20
TOO_LARGE: Final = f"it has a record of more than {MOST_HEADERS} headers, or becomes more than {MOST_TRANSFORMED} bytes"
# A header's name, and name and value as they are in a record.
Header = tuple[bytes, bytes]


def transform(data: bytes, count: int, steps: ByteSteps, base_offset: int) -> tuple[bytes, int]:
    """The decompressed records `data` of a batch after these steps, and how many they are.

    CorruptBatchError with `base_offset` for records whose headers can't be read.
    """
    try:
        if compiled.functions is not None:
            found = compiled.functions.transform(data, count, _as_tuples(steps))
            if found is not None:
                return found
        return _transform(data, count, steps, base_offset)
    except OverflowError:
        # Any producer may send such a batch. It must not take the memory of all tasks.
        raise CorruptBatchError(
            base_offset,
            TOO_LARGE,
        ) from None


def _transform(data: bytes, count: int, steps: ByteSteps, base_offset: int) -> tuple[bytes, int]:
    parts: list[bytes] = []
    kept = size = at = 0
    try:
        for _ in range(count):
            length, body = varint.decode(data, at)
            following = body + length
            if length < FEWEST_BYTES or following > len(data):
                raise ValueError("a record in it has an impossible length")
            rest_at = varint.decode(data, varint.decode(data, body + 1)[1])[1]
            before = data[rest_at:following]
            rest = transformed(before, steps)
            if rest is before:
                parts.append(data[at:following])
            elif rest is not None:
                parts += (varint.encoded(rest_at - body + len(rest)), data[body:rest_at], rest)
            kept += rest is not None
            size += 0 if rest is None else following - at + len(rest) - len(before)
            if size > MOST_TRANSFORMED:
                raise OverflowError
            at = following
    except IndexError:
        raise CorruptBatchError(base_offset, "a record in it is cut off") from None
    except ValueError as error:
        raise CorruptBatchError(base_offset, str(error)) from None
    if at != len(data):
        raise CorruptBatchError(base_offset, "there are more bytes in it than records")
    return b"".join(parts), kept


def transformed(rest: bytes, steps: ByteSteps) -> bytes | None:
    """A record's bytes behind its deltas after these steps, or None if they drop it; the same object if nothing changes.

    ValueError or IndexError if they can't be read.
    """
    value_at = behind(rest, 0)
    headers_at = behind(rest, value_at)
    tombstone = varint.decode(rest, value_at)[0] < 0
    headers = headers_of(rest, headers_at)
    changed = False
    for step in steps:
        if _takes(step, headers, tombstone=tombstone) == step.negated:
            continue
        if step.action is Action.FILTER:
            return None
        if step.action is Action.DROP_HEADERS:
            left = [each for each in headers if each[0] not in step.headers]
            changed = changed or len(left) < len(headers)
            headers = left
        else:
            headers = [*headers, inserted(step)]
            changed = True
    if not changed:
        return rest
    return b"".join((rest[:headers_at], varint.encoded(len(headers)), *(whole for _, whole in headers)))


def only_bytes(steps: Steps) -> ByteSteps:
    """The steps of a chain in which none looks into JSON."""
    return cast("ByteSteps", steps)  # the caller has looked


@lru_cache(maxsize=1000)
def _as_tuples(steps: ByteSteps) -> tuple[tuple[int, int, bool, bytes, tuple[bytes, ...], bytes], ...]:
    return tuple(
        (
            each.action,
            each.condition,
            each.negated,
            each.has,
            each.headers,
            inserted(each)[1] if each.action is Action.INSERT_HEADER else b"",
        )
        for each in steps
    )


def inserted(step: Step) -> Header:
    """The header that a step inserts."""
    (name,) = step.headers
    return name, b"".join((varint.encoded(len(name)), name, varint.encoded(len(step.value)), step.value))


def _takes(step: Step, headers: list[Header], *, tombstone: bool) -> bool:
    if step.condition is Condition.IS_TOMBSTONE:
        return tombstone
    return step.condition is Condition.ALWAYS or any(name == step.has for name, _ in headers)


def behind(rest: bytes, at: int) -> int:
    """The place behind a key or value, which may be null."""
    length, at = varint.decode(rest, at)
    end = at + max(length, 0)
    if end > len(rest):
        raise ValueError("a key or value in it is longer than its record")
    return end


def headers_of(rest: bytes, at: int) -> list[Header]:
    """The headers that begin there, up to the end of the record. ValueError, IndexError or OverflowError."""
    count, at = varint.decode(rest, at)
    if not 0 <= count <= len(rest):
        raise ValueError(f"a record in it has {count} headers")
    found: list[Header] = []
    for _ in range(count):
        length, name_at = varint.decode(rest, at)
        end = name_at + length
        if length < 0 or end > len(rest):
            raise ValueError("a header in it has no name")
        following = behind(rest, end)
        if len(found) == MOST_HEADERS:
            raise OverflowError
        found.append((rest[name_at:end], rest[at:following]))
        at = following
    if at != len(rest):
        raise ValueError("a record in it has bytes behind its headers")
    return found
