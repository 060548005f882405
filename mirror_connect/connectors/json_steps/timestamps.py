"""Kafka's TimestampConverter: a number since 1970 becomes a text or a number of another unit, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from mirror_connect.connectors.json_steps.fields import kind_of, needs_object
from mirror_connect.connectors.json_steps.java_calendar import DAY_MS
from mirror_connect.connectors.json_steps.java_date_format import JavaDateFormat, NoDate
from mirror_connect.connectors.json_steps.java_numbers import wrapped
from mirror_connect.connectors.record_errors import StepError
from mirror_connect.connectors.record_steps import JsonChange

# Units in a second, by unix.precision.
_UNITS: Final = {"seconds": 1, "milliseconds": 1000, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}
_LIMIT: Final = 1 << 63


class Instant:
    """A point in time between two steps, in milliseconds since 1970: Java's Date. JSON can't hold it."""

    __slots__ = ("ms",)

    def __init__(self, ms: int) -> None:
        self.ms = ms


@dataclass(frozen=True, slots=True)
class TimestampConverter(JsonChange):
    """`field`: the one to convert; empty: the whole. A field that is not there becomes null, as with Kafka's."""

    field: str
    target: str
    precision: str
    form: JavaDateFormat | None
    replace_nulls: bool = True

    def apply(self, value: Any, timestamp: int) -> Any:
        """See JsonChange."""
        if value is None or not self.field:
            return self.converted(value, "it")
        changed = dict(needs_object(value))
        changed[self.field] = self.converted(changed.get(self.field), f"field {self.field}")
        return changed

    def converted(self, value: Any, what: str) -> Any:
        """One timestamp in the target's form; null stays null. StepError with `what`, which names it."""
        if value is None:
            return None
        ms = self._ms(value, what)
        if self.target == "string":
            assert self.form is not None
            return self.form.text_of(ms)
        if self.target == "unix":
            return self._unix(ms)
        if self.target == "Date":
            return Instant(ms - ms % DAY_MS)
        return Instant(ms % DAY_MS if self.target == "Time" else ms)

    def _ms(self, value: Any, what: str) -> int:
        if isinstance(value, Instant):
            return value.ms
        if isinstance(value, str):
            if self.form is None:
                raise StepError(f"{what} is a text, and there is no format to read it by")
            try:
                return self.form.ms_of(value)
            except NoDate:
                raise StepError(f"{what} has not the form {self.form.pattern}") from None
        if isinstance(value, int) and not isinstance(value, bool):
            number, units = wrapped(value, 64), _UNITS[self.precision]
            return _limited(number * 1000) if units == 1 else _cut(number, units // 1000)
        raise StepError(f"{what} is {kind_of(value)}, which is no timestamp")

    def _unix(self, ms: int) -> int:
        units = _UNITS[self.precision]
        return _cut(ms, 1000) if units == 1 else _limited(ms * (units // 1000))


def _cut(number: int, by: int) -> int:
    """Java's division, towards zero."""
    return number // by if number >= 0 else -(-number // by)


def _limited(number: int) -> int:
    """Java's TimeUnit stays at the limits of long."""
    return max(-_LIMIT, min(number, _LIMIT - 1))
