"""Figures as people read them. `null` of the worker is `unknown`, never 0."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from rich.text import Text

UNKNOWN: Final = "unknown"
NOTHING: Final = "-"
_STYLES: Final = {"RUNNING": "green", "FAILED": "bold red", "UNASSIGNED": "red"}
# What a terminal would obey. Names and traces come from elsewhere.
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_UNITS: Final = ("B", "KB", "MB", "GB", "TB")
_STEPS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))


def plain(text: object) -> str:
    """A text of the worker without control characters, which show as `\\x1b`. Line breaks and tabs stay."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", str(text))


def count(value: float | None) -> str:
    """`1,234`."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def duration(seconds: float | None) -> str:
    """`0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`."""
    if seconds is None:
        return UNKNOWN
    if seconds < 10:
        return f"{seconds:.1f} s" if seconds else "0 s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    smaller, smaller_unit = 1, "s"
    for size, unit in reversed(_STEPS):
        if whole < size * (24 if unit == "h" else 60) or unit == "d":
            rest = whole % size // smaller
            return f"{whole // size} {unit}" + (f" {rest} {smaller_unit}" if rest else "")
        smaller, smaller_unit = size, unit
    raise AssertionError(whole)


def milliseconds(value: float | None) -> str:
    """`0.4 ms`, `9 ms`; from 10 s on as `duration`."""
    if value is None:
        return UNKNOWN
    if value >= 10_000:
        return duration(value / 1000)
    return f"{value:,.0f} ms" if value >= 10 or value == int(value) else f"{value:.1f} ms"


def records_rate(value: float | None) -> str:
    """`1,234/s`; a slow one with a digit behind the point."""
    if value is None:
        return UNKNOWN
    return f"{value:.1f}/s" if 0 < value < 10 else f"{value:,.0f}/s"


def bytes_rate(value: float | None) -> str:
    """`12.3 MB/s`."""
    if value is None:
        return UNKNOWN
    amount, unit = float(value), 0
    while amount >= 999.95 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{amount:.1f} {_UNITS[unit]}/s" if unit else f"{amount:.0f} B/s"


def ago(at_ms: float | None, now_ms: float | None) -> str:
    """How long ago by the worker's clock."""
    if at_ms is None:
        return UNKNOWN
    now = time.time() * 1000 if now_ms is None else now_ms
    return f"{duration(round(max(0.0, now - at_ms) / 1000))} ago"


def moment(at_ms: float | None) -> str:
    """`2026-11-25T21:46:35Z`."""
    if at_ms is None:
        return UNKNOWN
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def state(name: object) -> Text:
    """A state in its colour."""
    text = plain(UNKNOWN if name is None else name)
    return Text(text, style=_STYLES.get(text, "yellow"))


def member(row: Mapping[str, Any], *path: str) -> Any:
    """A member of a JSON object, also of one inside it; None if one of them is missing or null."""
    found: Any = row
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found
