"""`access.control.allow.*`: which web pages of other origins can read answers. Rules of Jetty's CrossOriginHandler."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from mirror_connect.connectors.config.table import Quote
from mirror_connect.connectors.user_code.java_characters import JavaRegexError
from mirror_connect.connectors.user_code.java_regex import compile_java, ways_to_match

_DEFAULT_METHODS: Final = ("GET", "POST", "HEAD")
_PLAIN_ORIGIN: Final = re.compile(r"[\w.:/\[\]-]+", re.ASCII)
# A DNS name with its scheme and its port.
_LONGEST_ORIGIN: Final = 300
_MOST_WAYS: Final = 1e6


@dataclass(frozen=True, slots=True)
class CrossOrigins:
    """Which origins may read answers, and with which methods. `patterns` None: every origin."""

    patterns: tuple[re.Pattern[str], ...] | None
    methods: tuple[str, ...]

    @classmethod
    def of(cls, origins: str, methods: str) -> CrossOrigins | None:
        """From the two settings, comma separated; None without origins. ValueError for an entry that is no Java pattern."""
        entries = _entries(origins)
        if not entries:
            return None
        patterns = None if "*" in entries else tuple(map(_pattern, entries))
        return cls(patterns, tuple(dict.fromkeys(_entries(methods))) or _DEFAULT_METHODS)

    def allows(self, origin: str) -> bool:
        """Whether one of the origins in the header's value, separated by spaces, may read."""
        if self.patterns is None:
            return True
        return any(
            pattern.fullmatch(one)
            for one in origin.split(" ")
            if one and len(one) <= _LONGEST_ORIGIN
            for pattern in self.patterns
        )


def valid_origins(name: str, value: Any, quote: Quote) -> str | None:
    """A validator of `access.control.allow.origin`, for its table."""
    try:
        CrossOrigins.of(value or "", "")
    except ValueError as error:
        return f"Invalid value {quote(value)} for configuration {name}: {error}"
    return None


def _entries(text: str) -> list[str]:
    return [entry for entry in (part.strip() for part in text.split(",")) if entry]


def _pattern(entry: str) -> re.Pattern[str]:
    # A plain origin is literal: if its dots matched any character, a page of https://ui-example.org could read what
    # https://ui.example.org may read.
    if _PLAIN_ORIGIN.fullmatch(entry):
        return re.compile(re.escape(entry), re.IGNORECASE)
    try:
        found = compile_java(entry)
        ways = ways_to_match(entry)
    except JavaRegexError as error:
        raise ValueError(f"the origin {entry} is no regular expression: {error}") from None
    if ways > _MOST_WAYS:
        # Anyone who sends a request chooses the text to match.
        raise ValueError(f"the origin {entry} can take for ever to match: write it with fewer repetitions")
    return re.compile(found.pattern, found.flags | re.IGNORECASE)
