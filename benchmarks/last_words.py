"""What a program said before it was given up: out of its log, the warnings and errors that stand for all of them.

Two forms of line are read: that of the Java programs (deploy/local/log4j2.properties), `12:34:56.789 WARN text (Class)`, and
that of this product, `[2026-01-02 12:34:56,789] WARNING text (logger)`. Lines without a head, a stack trace, belong to
the one before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

LOUD: Final = frozenset(("WARN", "WARNING", "ERROR", "FATAL", "CRITICAL"))
KINDS: Final = 3
LONGEST: Final = 400
_HEAD: Final = re.compile(r"(?:\d\d:\d\d:\d\d\.\d+|\[\d{4}-\d\d-\d\d [\d:,.]+\]) (?P<level>[A-Z]+) (?P<text>.*)")
_PLACE: Final = re.compile(r"\((?P<place>[\w.$]+)\)$")
_NUMBER: Final = re.compile(r"\d+")
_CAUSE: Final = re.compile(r"(?:Caused by: )?(?P<cause>[\w.$]+\.\w*(?:Exception|Error)\b.*)")


@dataclass(slots=True)
class _Entry:
    """One call of a logger: its first line, and what follows without a head of its own."""

    line: str
    level: str
    text: str
    rest: list[str] = field(default_factory=list)

    @property
    def cause(self) -> str:
        """The deepest exception of the stack trace; empty without one."""
        found = [match["cause"] for line in self.rest if (match := _CAUSE.match(line.strip()))]
        return found[-1] if found else ""

    @property
    def kind(self) -> tuple[str, str, str]:
        """What entries about the same thing share: level, logger and cause, or where there is no cause their text. Numbers
        in it (of partitions, attempts, requests) make no difference.
        """
        place = _PLACE.search(self.text)
        return self.level, place["place"] if place else "", _NUMBER.sub("0", self.cause or self.text)


def last_words(log: str, kinds: int = KINDS) -> list[str]:
    """The last entries of WARN and above, one of each kind, oldest first, with how many of its kind there are; those with
    an exception before others. Without any, the last line. Long ones are cut; of a stack trace the deepest cause is told.
    """
    entries = list(_entries(log))
    by_kind: dict[tuple[str, str, str], list[_Entry]] = {}
    for entry in entries:
        if entry.level in LOUD:
            # The kind that was said last comes last.
            by_kind[entry.kind] = [*by_kind.pop(entry.kind, ()), entry]
    if not by_kind:
        lines = [line for line in log.splitlines() if line.strip()]
        return [_cut(line) for line in lines[-1:]]
    # A program that waits goes on complaining of what it waits for: an exception says more of why.
    chosen = sorted(by_kind.values(), key=lambda same: bool(same[-1].cause))[-kinds:]
    return [_said(same) for same in by_kind.values() if same in chosen]


def _said(same: Sequence[_Entry]) -> str:
    said = _cut(same[-1].line)
    if same[-1].cause:
        said += f" | {_cut(same[-1].cause)}"
    return said if len(same) == 1 else f"{said} | {len(same):,} of this kind"


def _entries(log: str) -> Iterator[_Entry]:
    entry: _Entry | None = None
    for line in log.splitlines():
        head = _HEAD.match(line)
        if head:
            if entry:
                yield entry
            entry = _Entry(line, head["level"], head["text"])
        elif entry and line.strip():
            entry.rest.append(line)
    if entry:
        yield entry


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
