"""Days of Java's GregorianCalendar, in UTC: Julian dates before 15 October 1582, and fields out of range roll over."""

from __future__ import annotations

from typing import Final

DAY_MS: Final = 86_400_000
# Days are counted from 1970-01-01.
_CUTOVER: Final = -141_427
_CUTOVER_YEAR: Final = 1582
_CYCLE_DAYS: Final = 146_097
# From 1 March of the year 0 to 1970-01-01, in both calendars.
_GREGORIAN_ZERO: Final = 719_468
_JULIAN_ZERO: Final = 719_470


def day_of(year: int, month: int, day: int) -> int:
    """The number of a day. `month`: from 0 on; any number of months and days may be given. Year 0 is 1 BC."""
    year += month // 12
    month %= 12
    if year > _CUTOVER_YEAR:
        return _gregorian(year, month) + day
    if year < _CUTOVER_YEAR:
        return _julian(year, month) + day
    found = _gregorian(year, month) + day
    return found if found >= _CUTOVER else _julian(year, month) + day


def date_of(day: int) -> tuple[int, int, int]:
    """Year, month from 0 on, and day of the month."""
    if day >= _CUTOVER:
        cycle, left = divmod(day + _GREGORIAN_ZERO, _CYCLE_DAYS)
        of_cycle = (left - left // 1460 + left // 36_524 - left // 146_096) // 365
        year = of_cycle + cycle * 400
        of_year = left - (365 * of_cycle + of_cycle // 4 - of_cycle // 100)
    else:
        cycle, left = divmod(day + _JULIAN_ZERO, 1461)
        of_cycle = (left - left // 1460) // 365
        year = of_cycle + cycle * 4
        of_year = left - 365 * of_cycle
    from_march = (5 * of_year + 2) // 153
    month = (from_march + 2) % 12
    return year + (month < 2), month, of_year - (153 * from_march + 2) // 5 + 1


def _gregorian(year: int, month: int) -> int:
    """The day before the first one of a month."""
    year -= month < 2
    return 365 * year + year // 4 - year // 100 + year // 400 + _before(month) - _GREGORIAN_ZERO - 1


def _julian(year: int, month: int) -> int:
    year -= month < 2
    return 365 * year + year // 4 + _before(month) - _JULIAN_ZERO - 1


def _before(month: int) -> int:
    """The days from the first of March to the first of a month."""
    return (153 * ((month - 2) % 12) + 2) // 5
