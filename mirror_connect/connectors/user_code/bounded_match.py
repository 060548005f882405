"""Matches users' expressions against names in limited time. No other module matches them.

Python's `re` holds the interpreter's lock during a match, and some expressions take for ever: the whole worker would hang,
and again after each start. So an expression is matched in this process only if it can't split a name in many ways. Any
other is matched in a process (`match_names.py`) that the kernel ends in time.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mirror_connect.connectors.user_code.java_regex import LONGEST_NAME, compile_java, ways_to_match
from mirror_connect.connectors.user_code.java_replacement import replacement_parts
from mirror_connect.connectors.user_code.match_names import ALL_S, NAME_S, Part, replaced

# With so many ways the longest match takes tenths of a second in the worst case.
WAYS_HERE: Final = 100_000
SCRIPT: Final = Path(__file__).with_name("match_names.py")
# The limit for a machine that gives the process no CPU time. The limit of a match counts CPU time.
STARVED_S: Final = 300.0


class MatchTooSlow(Exception):
    """A match was ended; the text says what took too long. `name`: None if all names together did."""

    def __init__(self, problem: str, name: str | None = None) -> None:
        self.name = name
        super().__init__(problem)


@dataclass(slots=True)
class BoundedPattern:
    """A Java expression that matches whole names. JavaRegexError if the text is none.

    For one thread at a time. For many names call `judge` first: it matches all of them at once.
    """

    java: str
    _compiled: re.Pattern[str] = field(init=False)
    _trusted: bool = field(init=False)
    _known: dict[str, bool] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._compiled = compile_java(self.java)
        self._trusted = ways_to_match(self.java) <= WAYS_HERE

    def judge(self, names: Iterable[str]) -> None:
        """Matches these names, and forgets others. MatchTooSlow."""
        wanted = [name for name in dict.fromkeys(names) if not _is_short(name, trusted=self._trusted)]
        self._known = {name: self._known[name] for name in wanted if name in self._known}
        unknown = [name for name in wanted if name not in self._known]
        if unknown:
            self._known.update(zip(unknown, _judged_apart(self._compiled, unknown), strict=True))

    def matches(self, name: str) -> bool:
        """Whether the whole name matches. MatchTooSlow."""
        if _is_short(name, trusted=self._trusted):
            return self._compiled.fullmatch(name) is not None
        if name not in self._known:
            self._known[name] = _judged_apart(self._compiled, [name])[0]
        return self._known[name]


@dataclass(slots=True)
class BoundedReplacement:
    """A Java expression and what Java's RegexRouter makes of a name that matches it. JavaRegexError as for BoundedPattern.

    For one thread at a time. For many names call `judge` first.
    """

    java: str
    replacement: str
    _compiled: re.Pattern[str] = field(init=False)
    _parts: tuple[Part, ...] = field(init=False)
    _trusted: bool = field(init=False)
    _known: dict[str, str | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._compiled = compile_java(self.java)
        self._parts = replacement_parts(self.replacement, self._compiled)
        self._trusted = ways_to_match(self.java) <= WAYS_HERE

    def judge(self, names: Iterable[str]) -> None:
        """Replaces these names, and forgets others. MatchTooSlow."""
        wanted = [name for name in dict.fromkeys(names) if not _is_short(name, trusted=self._trusted)]
        self._known = {name: self._known[name] for name in wanted if name in self._known}
        unknown = [name for name in wanted if name not in self._known]
        if unknown:
            self._known.update(zip(unknown, _judged_apart(self._compiled, unknown, self._parts), strict=True))

    def replaced(self, name: str) -> str:
        """The new name; the same one if the whole of it does not match. MatchTooSlow."""
        if _is_short(name, trusted=self._trusted):
            try:
                new = replaced(self._compiled, self._parts, name)
            except OverflowError:
                raise MatchTooSlow(f"the name {shortened(name)} becomes longer than any topic's", name) from None
            return name if new is None else new
        if name not in self._known:
            self._known[name] = _judged_apart(self._compiled, [name], self._parts)[0]
        known = self._known[name]
        return name if known is None else known


def _is_short(name: str, *, trusted: bool) -> bool:
    """Whether a trusted expression may be matched here."""
    return trusted and len(name) <= LONGEST_NAME


def _judged_apart(compiled: re.Pattern[str], names: Sequence[str], parts: Sequence[Part] | None = None) -> list[Any]:
    """The answers of match_names.py."""
    job = {"pattern": compiled.pattern, "flags": int(compiled.flags), "names": names, "parts": parts}
    try:
        done = subprocess.run(
            # It gets nothing else of the worker: no environment with secrets, no path to import from.
            [sys.executable, "-I", "-S", str(SCRIPT)],
            input=json.dumps(job).encode() + b"\n",
            capture_output=True,
            env={},
            timeout=STARVED_S,
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        code, output = None, expired.stdout or b""
    else:
        code, output = done.returncode, done.stdout
    *lines, _ = output.split(b"\n")
    if code == 0 and len(lines) == len(names):
        return [json.loads(line) for line in lines]
    name = names[min(len(lines), len(names) - 1)]
    shown = shortened(name)
    if code == -signal.SIGPROF:
        raise MatchTooSlow(f"matching the name {shown} takes more than {NAME_S:g} s", name)
    if code == -signal.SIGXCPU:
        raise MatchTooSlow(f"matching {len(names)} names takes more than {ALL_S} s; it came to {shown}")
    raise MatchTooSlow(f"matching the name {shown} takes too much memory, or was ended (exit code {code})")


def shortened(text: str, limit: int = LONGEST_NAME) -> str:
    """A text shortened for one line."""
    shown = text if len(text) <= limit else f"{text[:limit]}…"
    return shown if shown.isprintable() else ascii(shown)[1:-1]
