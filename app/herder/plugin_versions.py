"""The `version` of a plugin that a request asks for: one version or a range, written as in Maven."""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import Final

from mirror_connect.app.errors import BadRequest
from mirror_connect.connectors.definition import KAFKA_VERSION

_VERSION: Final = re.compile(r"[^\[\](),\s]+|[\[(][^\[\]()]*[\])](,[\[(][^\[\]()]*[\])])*")
_INTERVAL: Final = re.compile(r"([\[(])([^,\])]*)(?:,([^\])]*))?([\])])")


def check_form(version: str) -> None:
    """BadRequest for what is neither a version nor a range. Blank stands for any version that is named by nothing."""
    if version.strip() and not _VERSION.fullmatch(version.strip()):
        raise BadRequest(f"Invalid version specification: {version}")


def check_available(class_name: str, version: str, kinds: int = 1) -> None:
    """BadRequest in Connect's words when the one version there is, once for each kind of plugin, is not meant."""
    asked = version.strip()
    if asked == "latest":
        return
    intervals = _INTERVAL.findall(asked) or [("[", asked, asked, "]")]
    # A single version in brackets is both ends of its interval.
    ends = [
        (first, low.strip(), high.strip() if "," in whole or high else low.strip(), last)
        for (first, low, high, last), whole in zip(intervals, _wholes(asked), strict=True)
    ]
    if asked and any(_holds(*each) for each in ends):
        return
    shown = ",".join(f"{first}{low},{high}{last}" for first, low, high, last in ends)
    available = ", ".join([KAFKA_VERSION] * kinds)
    raise BadRequest(
        f"Plugin {class_name} not found that matches the version range {shown}, available versions: [{available}]"
    )


def _wholes(asked: str) -> list[str]:
    return [found.group() for found in _INTERVAL.finditer(asked)] or [asked]


def _holds(first: str, low: str, high: str, last: str) -> bool:
    here = _numbers(KAFKA_VERSION)
    above = not low or (order := _compare(here, _numbers(low))) > 0 or (order == 0 and first == "[")
    below = not high or (order := _compare(here, _numbers(high))) < 0 or (order == 0 and last == "]")
    return above and below


def _numbers(version: str) -> list[int]:
    # A part that is no number comes before all numbers, as a qualifier comes before the release.
    return [int(part) if part.isascii() and part.isdigit() and len(part) < 10 else -1 for part in version.split(".")]


def _compare(one: list[int], other: list[int]) -> int:
    for left, right in zip_longest(one, other, fillvalue=0):
        if left != right:
            return 1 if left > right else -1
    return 0
