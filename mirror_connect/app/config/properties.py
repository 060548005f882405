"""Java `.properties` files, read as Kafka reads them.

The javaproperties library does the grammar (separators `=`, `:` or white space, continuation lines, `\\uXXXX` and other
escapes, `#` and `!` comments, the last of several equal keys counts). The encodings are Kafka's, as in kafka-clients 4.3.1:
ISO-8859-1 for a worker's own file (Utils.loadProps gives Java's Properties a byte stream), UTF-8 for the file of a config
provider (FileConfigProvider opens a reader).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import javaproperties

from mirror_connect.connectors.errors import ConfigError

Encoding = Literal["iso-8859-1", "utf-8"]


class UnreadableFile(ConfigError):
    """A file that a setting or the command line names is unusable: `Could not read <what> <path>: <reason>`."""

    def __init__(self, what: str, path: str | Path, reason: str) -> None:
        super().__init__(str(path), None, reason)
        self.args = (f"Could not read {what} {path}: {reason}",)


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values in the order of the file. ValueError with a reason for a broken `\\u` escape."""
    try:
        loaded: dict[str, str] = javaproperties.loads(text)
    except javaproperties.InvalidUEscapeError as error:
        # The text does not show the escape: it may be a part of a password.
        line = text.count("\n", 0, max(text.find(error.escape), 0)) + 1
        raise ValueError(f"line {line} has a \\u without four hexadecimal digits (write a backslash as \\\\)") from None
    return loaded


def read_properties(path: str | Path, *, what: str = "the properties file") -> dict[str, str]:
    """The properties of a file named at the program's start. UnreadableFile names `what`, the path and the reason.

    Pipes are allowed: a shell's `<(…)` is one. Files that a REST request names are read by bounded_file.py instead.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise UnreadableFile(what, path, error.strerror or str(error)) from None
    except ValueError as error:  # a NUL in the path
        raise UnreadableFile(what, path, str(error)) from None
    return properties_of(content, path, what=what)


def properties_of(
    content: bytes, path: str | Path, *, what: str = "the properties file", encoding: Encoding = "iso-8859-1"
) -> dict[str, str]:
    """The properties in a file's content. UnreadableFile names `what`, the path and the reason, but shows no content."""
    try:
        return parse_properties(content.decode(encoding))
    except UnicodeDecodeError as error:
        raise UnreadableFile(what, path, f"it isn't UTF-8 at byte {error.start}") from None
    except ValueError as error:
        raise UnreadableFile(what, path, str(error)) from None
