"""The requested version of a plugin: one version or a range, as in Maven."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

KAFKA_VERSION: Final = "4.3.1"  # the version of Connect whose behaviour the connectors have


LATEST: Final = "latest"
# Parsing takes quadratic time.
_LONGEST: Final = 5000
_PARTS: Final = re.compile(r"[0-9]+|[^0-9.-]+")
# Qualifiers of versions before the release; any other is after it and before the next number.
_BEFORE_RELEASE: Final = ("alpha", "beta", "milestone", "rc", "snapshot")
_RELEASE: Final = (1, 0, "")


class NoVersion(Exception):
    """The text is neither a version nor a range; it says why, in Maven's words."""


@dataclass(frozen=True, slots=True)
class _Interval:
    """Two ends, each may be empty, and their brackets."""

    opening: str
    low: str
    high: str
    closing: str

    def __str__(self) -> str:
        return f"{self.opening}{self.low},{self.high}{self.closing}"

    def holds(self, version: str) -> bool:
        """Whether a version is within the interval."""
        above = not self.low or (order := _compare(version, self.low)) > 0 or (order == 0 and self.opening == "[")
        below = not self.high or (order := _compare(version, self.high)) < 0 or (order == 0 and self.closing == "]")
        return above and below


def unavailable(class_name: str, version: str | None, kinds: int = 1) -> str | None:
    """Connect's error text if the only available version does not match; otherwise None. `kinds`: how often it is listed.

    NoVersion for a text that is no version.
    """
    if version is None or version == LATEST:
        return None
    spec = version.strip()
    intervals = _intervals(spec)
    # An empty name is a version, too, but not an available one.
    if spec not in ("", "[]") and any(each.holds(KAFKA_VERSION) for each in intervals):
        return None
    shown = ",".join(map(str, intervals))
    available = ", ".join([KAFKA_VERSION] * kinds)
    return f"Plugin {class_name} not found that matches the version range {shown}, available versions: [{available}]"


def _intervals(spec: str) -> list[_Interval]:
    if len(spec) > _LONGEST:
        raise NoVersion(f"A version or range has {_LONGEST} characters at most")
    if not spec.startswith(("[", "(")):
        spec = f"[{spec}]"
    found: list[_Interval] = []
    rest = spec
    while rest.startswith(("[", "(")):
        ends = [at for at in (rest.find(")"), rest.find("]")) if at >= 0]
        if not ends:
            raise NoVersion(f"Unbounded range: {spec}")
        found.append(_interval(rest[: min(ends) + 1]))
        if len(found) > 1 and found[-2].high and (not found[-1].low or _compare(found[-1].low, found[-2].high) < 0):
            raise NoVersion(f"Ranges overlap: {spec}")
        rest = rest[min(ends) + 1 :].strip().removeprefix(",").strip()
    if rest:
        raise NoVersion(f"Only fully-qualified sets allowed in multiple set scenario: {spec}")
    return found


def _interval(text: str) -> _Interval:
    low, comma, high = (part.strip() for part in text[1:-1].partition(","))
    found = _Interval(text[0], low, high if comma else low, text[-1])
    closed = (found.opening, found.closing) == ("[", "]")
    if not comma and not closed:
        raise NoVersion(f"Single version must be surrounded by []: {text}")
    if comma and low and high and ((order := _compare(high, low)) < 0 or (order == 0 and not closed)):
        raise NoVersion(f"Range defies version ordering: {text}")
    return found


def _compare(one: str, other: str) -> int:
    for left, right in zip_longest(_ranks(one), _ranks(other), fillvalue=_RELEASE):
        if left != right:
            return 1 if left > right else -1
    return 0


def _ranks(version: str) -> list[tuple[int, int, str]]:
    return [_rank(part) for part in _PARTS.findall(version.lower())]


def _rank(part: str) -> tuple[int, int, str]:
    if part.isdecimal():
        # Zeros at the end are the release itself. No version number reaches a trillion.
        return (3, int(part[:13]), "") if part.strip("0") else _RELEASE
    if part in _BEFORE_RELEASE:
        return 0, _BEFORE_RELEASE.index(part), ""
    return _RELEASE if part in ("ga", "final", "release") else (2, 0, part)
