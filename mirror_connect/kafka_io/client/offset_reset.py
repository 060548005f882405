"""`auto.offset.reset` of consumers (AutoOffsetResetStrategy, clients 4.3.1): earliest, latest, none, by_duration:PT1H."""

from __future__ import annotations

import re
from typing import Any, Final

from mirror_connect.connectors.config.table import Quote

NAMED: Final = ("latest", "earliest", "none")
_PREFIX: Final = "by_duration:"
# java.time.Duration: days of 24 hours, hours, minutes, seconds with a fraction; any case; signs before all and before each.
_DURATION: Final = re.compile(
    r"([+-]?)P(?=.)(?:([+-]?\d+)D)?(?:T(?=.)(?:([+-]?\d+)H)?(?:([+-]?\d+)M)?(?:([+-]?\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)


def duration_ms(value: str) -> int | None:
    """The milliseconds of `by_duration:…`; None for anything else, also for a duration below zero."""
    found = _DURATION.fullmatch(value.removeprefix(_PREFIX)) if value.startswith(_PREFIX) else None
    if found is None:
        return None
    sign, *parts, fractional = found.groups()
    days, hours, minutes, seconds = (int(part or 0) for part in parts)
    fraction = int((fractional or "").ljust(3, "0")[:3])
    if (parts[3] or "").startswith("-"):
        fraction = -fraction
    total = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + fraction
    total = -total if sign == "-" else total
    return total if total >= 0 else None


def offset_reset(name: str, value: Any, quote: Quote) -> str | None:
    """A Validator of the setting (config/table.py)."""
    if isinstance(value, str) and (value in NAMED or duration_ms(value) is not None):
        return None
    return (
        f"Invalid value {quote(value)} for configuration {name}: "
        f"it has to be one of {', '.join(NAMED)}, by_duration:PnDTnHnMn.nS"
    )
