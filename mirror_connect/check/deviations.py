"""What a row says of some settings: as in Kafka Connect, or how this product differs, and what to do instead.

docs/compatibility.md shows these rows, and `mirror-connect check` judges with them what a worker accepts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from mirror_connect.connectors.user_code.known_classes import BYTE_ARRAY_CONVERTER, CONVERTER_ALIASES

YES: Final = "yes"
AS_KAFKA: Final = "as Kafka"
OURS: Final = "ours"
ACCEPTED: Final = "accepted"
REFUSED: Final = "refused"

BYTES_INSTEAD: Final = "Set ByteArrayConverter, which writes the same in both."

Differs = Callable[[str], bool]
_LINK: Final = re.compile(r"\[([^\]]*)\]\(([^)#]*)[^)]*\)")


@dataclass(frozen=True, slots=True)
class Row:
    """Some settings that have one note. A name that ends in `.*` stands for all names that begin so.

    `here`: one of the words above. `note`: Markdown for docs/compatibility.md. `differs`: whether a value means something
    else here, or nothing. `instead`: what to do about a value that is refused.
    """

    names: tuple[str, ...]
    here: str
    note: str
    differs: Differs
    instead: str

    def markdown(self) -> str:
        """The row of docs/compatibility.md."""
        names = ", ".join(f"`{name}`" for name in self.names)
        return f"| {names} | {self.here} | {self.note}{' ' if self.note else ''}|"

    @property
    def text(self) -> str:
        """The note as a sentence without Markdown."""
        plain = _LINK.sub(_linked, self.note).replace("`", "")
        return plain[:1].upper() + plain[1:] + ("." if plain and not plain.endswith(".") else "")


def never(_: str) -> bool:
    """No value differs, or only what happens after a failure."""
    return False


def always(_: str) -> bool:
    """Every value differs."""
    return True


def not_bytes(value: str) -> bool:
    """A converter that changes bytes."""
    return CONVERTER_ALIASES.get(value, value) != BYTE_ARRAY_CONVERTER


def below_a_second(value: str) -> bool:
    """An interval that is raised to a second."""
    return value.strip().lstrip("+-").isdecimal() and int(value) < 1


def yes(*names: str, note: str = "", instead: str = "") -> Row:
    """As in Kafka Connect."""
    return Row(names, YES, note, never, instead)


def as_kafka(*names: str, note: str = "") -> Row:
    """As in Kafka's clients, but for what the note says."""
    return Row(names, AS_KAFKA, note, never, "")


def ours(*names: str, note: str, differs: Differs = always, instead: str = "") -> Row:
    """There, with a difference."""
    return Row(names, OURS, note, differs, instead)


def accepted(*names: str, note: str = "", differs: Differs = always, instead: str = "") -> Row:
    """Checked, without effect."""
    return Row(names, ACCEPTED, note, differs, instead)


def refused(*names: str, note: str, instead: str) -> Row:
    """Refused, but for values that ask for nothing."""
    return Row(names, REFUSED, note, never, instead)


def row_of(name: str, rows: Iterable[Row]) -> Row | None:
    """The row of a setting: the one that names it, else the one with the longest prefix."""
    found: Row | None = None
    longest = 0
    for row in rows:
        if name in row.names:
            return row
        for pattern in row.names:
            if pattern.endswith(".*") and name.startswith(pattern[:-1]) and len(pattern) > longest:
                found, longest = row, len(pattern)
    return found


def markdown_table(rows: Sequence[Row]) -> str:
    """A table of docs/compatibility.md."""
    return "\n".join(("| property | here | note |", "| --- | --- | --- |", *(row.markdown() for row in rows)))


def _linked(found: re.Match[str]) -> str:
    """`policies (docs/policies.md)`; a link within the page becomes the page's name."""
    page = f"docs/{found[2] or 'compatibility.md'}"
    return f"{found[1]} ({page})"
