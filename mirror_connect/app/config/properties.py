"""Java `.properties` files, read as Kafka reads them.

Separators are `=`, `:` or white space, a backslash at a line's end continues it, `#` and `!` begin a comment line, and the
last of several equal keys counts. The javaproperties library reads escapes such as `\\u00e9`. Lines are read here, because
it takes a comment behind a lone backslash for a property, and gives no line numbers. The encodings are Kafka's, as in
kafka-clients 4.3.1: ISO-8859-1 for a worker's own file (Utils.loadProps gives Java's Properties a byte stream), UTF-8 for
the file of a config provider (FileConfigProvider opens a reader).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import javaproperties

from mirror_connect.connectors.errors import ConfigError

Encoding = Literal["iso-8859-1", "utf-8"]

# As much as REST takes. An endless pipe, or /dev/zero, would fill the memory.
MOST_BYTES: Final = 16 << 20

_MARKS: Final[Mapping[bytes, str]] = {b"\xef\xbb\xbf": "UTF-8", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_BLANKS: Final = " \t\f"
# Key and value of a logical line. Only in the key a backslash protects a separator.
_ENTRY: Final = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*+(?:[=:][ \t\f]*+)?(.*)", re.DOTALL)


class UnreadableFile(ConfigError):
    """A file that a setting or the command line names is unusable: `Could not read <what> <path>: <reason>`.

    `cause`: for the operator, where the reason says less because anyone may read it.
    """

    def __init__(self, what: str, path: str | Path, reason: str, cause: str = "") -> None:
        super().__init__(str(path), None, reason)
        self.cause = cause or reason
        self.args = (f"Could not read {what} {path}: {reason}",)


@dataclass(frozen=True, slots=True)
class LocatedProperties:
    """Properties with the lines (from 1 on) on which they begin. Of several equal keys, both are those of the last.

    `repeated`: keys that are set several times → all their lines, in order. `repr` shows no value.
    """

    values: Mapping[str, str] = field(repr=False)
    lines: Mapping[str, int]
    repeated: Mapping[str, tuple[int, ...]]


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values in the order of the file. ValueError with a reason for a broken `\\u` escape."""
    return dict(locate_properties(text).values)


def locate_properties(text: str) -> LocatedProperties:
    """As `parse_properties`, with the keys' lines."""
    values: dict[str, str] = {}
    lines: dict[str, list[int]] = {}
    for number, line in _logical_lines(text):
        key, value = _ENTRY.fullmatch(line).groups()  # type: ignore[union-attr]  # it matches every text
        try:
            name = javaproperties.unescape(key)
            values[name] = javaproperties.unescape(value)
        except javaproperties.InvalidUEscapeError:
            # The text does not show the escape: it may be a part of a password.
            problem = f"line {number} has a \\u without four hexadecimal digits (write a backslash as \\\\)"
            raise ValueError(problem) from None
        lines.setdefault(name, []).append(number)
    repeated = {name: tuple(all_lines) for name, all_lines in lines.items() if len(all_lines) > 1}
    return LocatedProperties(values, {name: all_lines[-1] for name, all_lines in lines.items()}, repeated)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines with a property, continued ones joined, as java.util.Properties.LineReader reads them.

    Each has the number of its first line, from 1 on.
    """
    natural = _LINE_END.split(text)
    if not natural[-1]:
        natural.pop()  # behind the last line end
    begun, line = 0, ""
    for number, content in enumerate(natural, 1):
        part = content.lstrip(_BLANKS)
        # As long as nothing was read of a property, also behind a lone backslash.
        if not line:
            if not part or part[0] in "#!":
                continue
            begun = number
        continued = (len(part) - len(part.rstrip("\\"))) % 2 == 1
        line += part[:-1] if continued else part
        if not continued or number == len(natural):
            yield begun, line
            line = ""
    if line:
        yield begun, line


def read_properties(path: str | Path, *, what: str = "the properties file") -> dict[str, str]:
    """The properties of a file named at the program's start. UnreadableFile names `what`, the path and the reason.

    Pipes are allowed: a shell's `<(…)` is one. Files that a REST request names are read by bounded_file.py instead.
    """
    return properties_of(content_of(path, what), path, what=what)


def read_located_properties(path: str | Path, *, what: str = "the properties file") -> LocatedProperties:
    """As `read_properties`, with the keys' lines."""
    return located_properties_of(content_of(path, what), path, what=what)


def located_properties_of(content: bytes, path: str | Path, *, what: str = "the properties file") -> LocatedProperties:
    """As `properties_of`, with the keys' lines."""
    _check_marks(content, path, what)
    try:
        return locate_properties(content.decode("iso-8859-1"))
    except ValueError as error:
        raise UnreadableFile(what, path, str(error)) from None


def content_of(path: str | Path, what: str) -> bytes:
    """The bytes of a file named at the program's start. UnreadableFile names `what`, the path and the reason."""
    try:
        with open(path, "rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UnreadableFile(what, path, error.strerror or str(error)) from None
    except ValueError as error:  # a NUL in the path
        raise UnreadableFile(what, path, str(error)) from None
    if len(content) > MOST_BYTES:
        raise UnreadableFile(what, path, f"it has more than {MOST_BYTES >> 20} MiB")
    return content


def properties_of(
    content: bytes, path: str | Path, *, what: str = "the properties file", encoding: Encoding = "iso-8859-1"
) -> dict[str, str]:
    """The properties in a file's content. UnreadableFile names `what`, the path and the reason, but shows no content."""
    if encoding == "iso-8859-1":
        _check_marks(content, path, what)
    try:
        return parse_properties(content.decode(encoding))
    except UnicodeDecodeError as error:
        raise UnreadableFile(what, path, f"it isn't UTF-8 at byte {error.start}") from None
    except ValueError as error:
        raise UnreadableFile(what, path, str(error)) from None


def _check_marks(content: bytes, path: str | Path, what: str) -> None:
    """UnreadableFile for what some editors write in front of a text. Java takes it for a part of the first name."""
    mark = next((each for each in _MARKS if content.startswith(each)), None)
    # A comment in the first line is spoilt, and nothing else.
    if mark is not None and content[len(mark) : len(mark) + 1] not in (b"#", b"!", b"\n", b"\r"):
        reason = f"it begins with the byte order mark of {_MARKS[mark]}"
        raise UnreadableFile(what, path, f"{reason}: save it as ISO-8859-1, or as UTF-8 without that mark")
