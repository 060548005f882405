"""What the table of commands has of each one, and how its options are read from its help."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

FILE: Final = "FILE"


@dataclass(frozen=True, slots=True)
class Option:
    """`--name`. `value`: what has to follow it, as the help shows it; empty for nothing."""

    name: str
    value: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Command:
    """One row of the table.

    `entry`: `module:function`; the function reads sys.argv[1:] and exits. `help` fits a screen of 24 lines of 80 characters.
    `words`: what its arguments may be. `asks`: kind of those that the worker tells (rest/offered_words.py). `files`: they
    are paths. `group`: commands of a group share a line of the overview.
    """

    name: str
    arguments: str
    summary: str
    entry: str
    help: str
    words: tuple[str, ...] = ()
    asks: str = ""
    files: bool = False
    group: str = ""

    @property
    def usage(self) -> str:
        """Its usage line."""
        return " ".join(filter(None, ("usage: mirror-connect", self.name, self.arguments)))

    @property
    def options(self) -> list[Option]:
        """--help, and what its help lists: lines of `--name VALUE`, two spaces, and the meaning."""
        listed = [
            Option(name, value, line["meaning"])
            for line in _OPTIONS.finditer(self.help)
            for name, value in _OPTION.findall(line["options"])
        ]
        return [*listed, Option("help", "", "what it does, and its options")]


_OPTION: Final = re.compile(r"--([\w.-]+)(?: ([A-Z]+))?")
_OPTIONS: Final = re.compile(r"^  (?P<options>--\S+(?: \S+)*)  +(?P<meaning>.+)$", re.MULTILINE)
