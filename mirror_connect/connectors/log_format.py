"""Lines of the log as one line each: what a request or a record wrote into a name can't write a line of its own.

Stack traces keep their lines; each is indented, so that none of them looks like the beginning of a record.
"""

from __future__ import annotations

import logging
import re
from typing import Final

# Control characters of ASCII and Latin-1, the separators of lines and paragraphs, and marks that turn the direction of text.
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def one_line(text: str) -> str:
    """The text with control characters as Python would write them in a literal: `\\n`, `\\x1b`, `\\u2028`."""
    return _CONTROL.sub(_escaped, text)


def indented(text: str) -> str:
    """Several lines as they are, each one indented and without other control characters."""
    # Not splitlines: it knows more ends of lines than a terminal, and those are escaped.
    return "\n".join(f"    {one_line(line.rstrip(chr(13)).expandtabs())}" for line in text.split("\n"))


class LineFormatter(logging.Formatter):
    """A formatter of which each record begins one line. Put RedactingFilter in front of it: it knows secrets unescaped."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 — logging's name
        """The line without its trace."""
        return one_line(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        """The record; its trace may have been made, and cleaned, before."""
        record.message = record.getMessage()
        if self.usesTime():
            record.asctime = self.formatTime(record, self.datefmt)
        line = self.formatMessage(record)
        trace = record.exc_text or (self.formatException(record.exc_info) if record.exc_info else "")
        stack = record.stack_info or ""
        return "\n".join([line, *(indented(text) for text in (trace, stack) if text)])


def _escaped(match: re.Match[str]) -> str:
    char = match[0]
    code = ord(char)
    return _SHORT.get(char) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
