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
from typing import Final

from mirror_connect.connectors.user_code.java_regex import LONGEST_NAME, compile_java, ways_to_match
from mirror_connect.connectors.user_code.match_names import ALL_S, NAME_S

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
        wanted = [name for name in dict.fromkeys(names) if not self._here(name)]
        self._known = {name: self._known[name] for name in wanted if name in self._known}
        unknown = [name for name in wanted if name not in self._known]
        if unknown:
            self._known.update(zip(unknown, self._judged_apart(unknown), strict=True))

    def matches(self, name: str) -> bool:
        """Whether the whole name matches. MatchTooSlow."""
        if self._here(name):
            return self._compiled.fullmatch(name) is not None
        if name not in self._known:
            self._known[name] = self._judged_apart([name])[0]
        return self._known[name]

    def _here(self, name: str) -> bool:
        return self._trusted and len(name) <= LONGEST_NAME

    def _judged_apart(self, names: Sequence[str]) -> list[bool]:
        job = {"pattern": self._compiled.pattern, "flags": int(self._compiled.flags), "names": names}
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
        if code == 0 and len(output) == len(names):
            return [char == ord("1") for char in output]
        name = names[min(len(output), len(names) - 1)]
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
