"""Users' expressions matched against names, for a bounded time: the only place that does so.

Python's `re` holds the interpreter's lock as long as a match takes, and for some expressions that is for ever: the whole
worker would stand still, and again after each start. So an expression is matched here only if it can split no name in many
ways. Any other is matched in a process (`match_names.py`) that the kernel ends in time.
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

# The longest match of an expression with so many ways takes tenths of a second, if one were made for it.
WAYS_HERE: Final = 100_000
SCRIPT: Final = Path(__file__).with_name("match_names.py")
# Not the limit of a match, which is of processor time, but of a machine that gives a process none.
STARVED_S: Final = 300.0


class MatchTooSlow(Exception):
    """A match was ended; the text says what took too much. `name`: None if it was all names together."""

    def __init__(self, problem: str, name: str | None = None) -> None:
        self.name = name
        super().__init__(problem)


@dataclass(slots=True)
class BoundedPattern:
    """A Java expression to match whole names. JavaRegexError when made of a text that is none.

    For one thread at a time. Ask `judge` first where there are many names: they are then judged in one go.
    """

    java: str
    _compiled: re.Pattern[str] = field(init=False)
    _trusted: bool = field(init=False)
    _known: dict[str, bool] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._compiled = compile_java(self.java)
        self._trusted = ways_to_match(self.java) <= WAYS_HERE

    def judge(self, names: Iterable[str]) -> None:
        """Finds out which of these names match, and forgets others. MatchTooSlow."""
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
                # Nothing of the worker's but this: no environment with secrets, no path to import from.
                [sys.executable, "-I", "-S", str(SCRIPT)],
                input=json.dumps(job).encode() + b"\n",
                capture_output=True,
                env={},
                timeout=STARVED_S,
                check=False,
            )
        except subprocess.TimeoutExpired as expired:
            code, said = None, expired.stdout or b""
        else:
            code, said = done.returncode, done.stdout
        if code == 0 and len(said) == len(names):
            return [char == ord("1") for char in said]
        name = names[min(len(said), len(names) - 1)]
        shown = shortened(name)
        if code == -signal.SIGPROF:
            raise MatchTooSlow(f"matching the name {shown} takes more than {NAME_S:g} s", name)
        if code == -signal.SIGXCPU:
            raise MatchTooSlow(f"matching {len(names)} names takes more than {ALL_S} s; it came to {shown}")
        raise MatchTooSlow(f"matching the name {shown} takes too much memory, or was ended (exit code {code})")


def shortened(text: str, limit: int = LONGEST_NAME) -> str:
    """A text for a message of one line."""
    shown = text if len(text) <= limit else f"{text[:limit]}…"
    return shown if shown.isprintable() else ascii(shown)[1:-1]
