"""Which records a query reads: times, offsets and partitions, as options give them and as filters of the SQL narrow them.

A record is read if all bounds hold for it. So a bound that is too wide costs time and changes no result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, NamedTuple

from mirror_connect.query.errors import QueryError

LAST: Final = "last"
FROM: Final = "from"
UNTIL: Final = "until"
FROM_OFFSET: Final = "from.offset"
UNTIL_OFFSET: Final = "until.offset"
NAMES: Final = (LAST, FROM, UNTIL, FROM_OFFSET, UNTIL_OFFSET)

_UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*([a-z]+)")
_MILLISECONDS: Final = re.compile(r"\d{1,15}")
_OFFSET: Final = re.compile(r"\d{1,18}")
_TIMESTAMP: Final = "timestamp"
_OFFSETS: Final = "offset"
_PARTITION: Final = "partition"


class Comparison(NamedTuple):
    """`column operator value`, a filter of the SQL. `operator`: = < <= > >= or in, which has several values."""

    column: str
    operator: str
    value: object


@dataclass(frozen=True, slots=True)
class Bounds:
    """Lower bounds are inclusive, upper ones exclusive; None: no bound. Times in ms since the epoch."""

    from_ms: int | None = None
    until_ms: int | None = None
    first: int | None = None
    end: int | None = None
    partitions: frozenset[int] | None = None

    def narrowed(self, filters: Iterable[Comparison]) -> Bounds:
        """With the filters that this can use. Others are left to Spark, which applies all of them again."""
        found = self
        for each in filters:
            if each.column == _TIMESTAMP:
                found = found._by_time(each)
            elif each.column == _OFFSETS:
                found = found._by_offset(each)
            elif each.column == _PARTITION:
                found = found._by_partition(each)
        return found

    def _by_time(self, by: Comparison) -> Bounds:
        if not isinstance(by.value, datetime):
            return self
        ms = milliseconds(by.value)
        found = self
        # A timestamp of SQL has microseconds, and `ms` is rounded down.
        if by.operator in (">", ">=", "="):
            found = replace(found, from_ms=_highest(found.from_ms, ms))
        if by.operator in ("<", "<=", "="):
            found = replace(found, until_ms=_lowest(found.until_ms, ms + 1))
        return found

    def _by_offset(self, by: Comparison) -> Bounds:
        values = _numbers(by.value)
        if not values:
            return self
        found = self
        if by.operator in (">", ">=", "=", "in"):
            found = replace(found, first=_highest(found.first, min(values) + (by.operator == ">")))
        if by.operator in ("<", "<=", "=", "in"):
            found = replace(found, end=_lowest(found.end, max(values) + (by.operator != "<")))
        return found

    def _by_partition(self, by: Comparison) -> Bounds:
        values = _numbers(by.value)
        if not values or by.operator not in ("=", "in"):
            return self
        chosen = frozenset(values)
        return replace(self, partitions=chosen if self.partitions is None else self.partitions & chosen)

    def takes(self, partition: int) -> bool:
        """Whether records of this partition may be read."""
        return self.partitions is None or partition in self.partitions


def milliseconds(at: datetime) -> int:
    """Whole milliseconds since the epoch. A time without a zone is one of UTC."""
    aware = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    since = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000


def bounds_of(options: Mapping[str, str], now_ms: int) -> Bounds:
    """Those that options give. QueryError."""
    if options.get(LAST) and options.get(FROM):
        raise QueryError(f"give {LAST} or {FROM}, not both: each of them says where to begin")
    begin = moment(options[FROM], FROM) if options.get(FROM) else None
    if options.get(LAST):
        begin = now_ms - duration(options[LAST], LAST)
    return Bounds(
        from_ms=begin,
        until_ms=moment(options[UNTIL], UNTIL) if options.get(UNTIL) else None,
        first=_offset(options, FROM_OFFSET),
        end=_offset(options, UNTIL_OFFSET),
    )


def duration(text: str, name: str) -> int:
    """Milliseconds of `90s`, `15min`, `1h` or `2d`. QueryError names the option."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or found[2] not in _UNITS or float(found[1]) == 0:
        raise QueryError(f"{name} {text} is no length of time: give one such as 90s, 15min, 1h or 2d")
    return round(float(found[1]) * _UNITS[found[2]])


def moment(text: str, name: str) -> int:
    """Milliseconds since the epoch, of such a number or of `2026-11-21T08:00:00Z`. QueryError names the option."""
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    try:
        return milliseconds(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        raise QueryError(f"{name} {text} is no time: give one such as 2026-11-21T08:00:00Z") from None


def _offset(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if not text:
        return None
    if not _OFFSET.fullmatch(text):
        raise QueryError(f"{name} {text} is no offset: give a whole number such as 1500")
    return int(text)


def _numbers(value: object) -> list[int]:
    values = value if isinstance(value, list | tuple) else [value]
    # `offset IN (1, NULL)` is true for 1 alone.
    found = [each for each in values if each is not None]
    return [each for each in found if isinstance(each, int)] if all(isinstance(each, int) for each in found) else []


def _highest(known: int | None, other: int) -> int:
    return other if known is None else max(known, other)


def _lowest(known: int | None, other: int) -> int:
    return other if known is None else min(known, other)
