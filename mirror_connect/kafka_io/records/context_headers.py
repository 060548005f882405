"""The headers that say why a record is in a dead letter topic, behind the record's own: those of Kafka Connect's sinks.

A record may come from such a topic itself. A header that it has already stays as it is, as with Kafka's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mirror_connect.kafka_io.records import varint
from mirror_connect.kafka_io.records.record_transforms import behind, headers_of

PREFIX: Final = "__connect.errors."
TOPIC: Final = f"{PREFIX}topic"
PARTITION: Final = f"{PREFIX}partition"
OFFSET: Final = f"{PREFIX}offset"
CONNECTOR: Final = f"{PREFIX}connector.name"
TASK: Final = f"{PREFIX}task.id"
STAGE: Final = f"{PREFIX}stage"
CLASS: Final = f"{PREFIX}class.name"
EXCEPTION: Final = f"{PREFIX}exception.class.name"
MESSAGE: Final = f"{PREFIX}exception.message"
STACK_TRACE: Final = f"{PREFIX}exception.stacktrace"
_PREFIX: Final = PREFIX.encode()


def header(name: str, value: str) -> bytes:
    """A header as it is in a record."""
    title, content = name.encode(), value.encode(errors="replace")
    return b"".join((varint.encoded(len(title)), title, varint.encoded(len(content)), content))


def with_headers(rest: bytes, added: Sequence[bytes]) -> bytes:
    """A record's bytes behind its deltas, with these headers behind its own. `added`: of `header`.

    ValueError, IndexError or OverflowError if the record's headers can't be read.
    """
    at = behind(rest, behind(rest, 0))
    if _PREFIX in rest:
        there = {name for name, _ in headers_of(rest, at)}
        added = [each for each in added if _name(each) not in there]
    count, first = varint.decode(rest, at)
    if count < 0:
        raise ValueError("a record has no number of headers")
    return b"".join((rest[:at], varint.encoded(count + len(added)), rest[first:], *added))


def _name(each: bytes) -> bytes:
    length, at = varint.decode(each, 0)
    return each[at : at + length]
