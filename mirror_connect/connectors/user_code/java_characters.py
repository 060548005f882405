"""Reads the parts of a Java regular expression that match single characters: escapes, quoted text and classes.

A class becomes one Python expression that matches one character: Python's `re` has no unions or intersections.
"""

from __future__ import annotations

import re
from typing import Final

from mirror_connect.connectors.user_code.unicode_classes import property_class

ANY_CHARACTER: Final = r"[\s\S]"
_HORIZONTAL: Final = r"\t \xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000"
_VERTICAL: Final = r"\n\x0b\f\r\x85\u2028\u2029"
_CONTROL: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_PROPERTY: Final = re.compile(r"[pP](?:\{([^}]*)\}|([^{]))")


class JavaRegexError(ValueError):
    """The text is no Java regular expression, or it can't be translated."""


class CharacterReader:
    """Reads a pattern from index `at` on. `flags`: those in force there."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.flags: frozenset[str] = frozenset()

    def error(self, problem: str) -> JavaRegexError:
        """An error in Java's words, with the index."""
        return JavaRegexError(f"{problem} near index {min(self.at, len(self.pattern))}")

    def quoted(self) -> str:
        """The text between \\Q and \\E (or the end); begins at the Q and ends after the E."""
        end = self.pattern.find("\\E", self.at)
        text = self.pattern[self.at + 1 : end if end >= 0 else len(self.pattern)]
        self.at = end + 2 if end >= 0 else len(self.pattern)
        return text

    def class_escape(self) -> str:
        """The escape after a backslash that matches one character: a class item, or a whole `[…]`."""
        char = self.pattern[self.at]
        if match := _PROPERTY.match(self.pattern, self.at):
            self.at += len(match[0])
            items = property_class(match[1] or match[2])
            if items is None:
                raise self.error(f"Unknown character property name {{{match[1] or match[2]}}}")
            return f"[^{items}]" if char == "P" else f"[{items}]"
        if char in "dDsSwW":
            self.at += 1
            return f"\\{char}"
        if char in "hHvV":
            self.at += 1
            items = _HORIZONTAL if char in "hH" else _VERTICAL
            return f"[^{items}]" if char.isupper() else f"[{items}]"
        return _literal(self._escaped_char())

    def _escaped_char(self) -> str:
        """The character of an escape. `at` is after the escape then."""
        char = self.pattern[self.at]
        rest = self.pattern[self.at :]
        for shape in (r"x([0-9a-fA-F]{2})", r"x\{([0-9a-fA-F]+)\}", r"u([0-9a-fA-F]{4})"):
            if match := re.match(shape, rest):
                self.at += len(match[0])
                code = int(match[1], 16)
                low = re.match(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})", self.pattern[self.at :])
                if 0xD800 <= code < 0xDC00 and low:
                    self.at += len(low[0])
                    code = 0x10000 + ((code - 0xD800) << 10) + int(low[1], 16) - 0xDC00
                if code > 0x10FFFF:
                    raise self.error("Hexadecimal codepoint is too big")
                return chr(code)
        if match := re.match(r"0([0-3]?[0-7]{1,2})", rest):
            self.at += len(match[0])
            return chr(int(match[1], 8))
        self.at += 1
        if char in _CONTROL:
            return _CONTROL[char]
        if char == "c" and self.at < len(self.pattern):
            self.at += 1
            return chr(ord(self.pattern[self.at - 1]) ^ 64)
        if char.isascii() and char.isalnum():
            raise self.error("Illegal/unsupported escape sequence")
        return char

    def char_class_text(self) -> str:
        """A class from its `[` on, as one expression for one character, built from Python classes and look-aheads."""
        self.at += 1
        negated = self.pattern.startswith("^", self.at)
        self.at += negated
        parts: list[list[str]] = [[]]  # operands of &&, each a union of items and [classes]
        first = True
        while True:
            if self.at >= len(self.pattern):
                raise self.error("Unclosed character class")
            char = self.pattern[self.at]
            if char == "]" and not first:
                self.at += 1
                break
            if char == "[":
                parts[-1].append(self.char_class_text())
            elif self.pattern.startswith("&&", self.at):
                self.at += 2
                parts.append([])
            elif self.pattern.startswith("\\Q", self.at):
                self.at += 1
                parts[-1].extend(map(_literal, self.quoted()))
            elif self.pattern.startswith("\\E", self.at):
                self.at += 2
            elif "x" in self.flags and char in " \t\n\x0b\f\r":
                self.at += 1
                continue
            else:
                parts[-1].append(self._range())
            first = False
        return _combined([part for part in parts if part], negated)

    def _range(self) -> str:
        """One item of a class: a character, a range, or an escape for many characters."""
        low = self._single()
        if len(low) > 1 or not self.pattern.startswith("-", self.at):
            return low if len(low) > 1 else _literal(low)
        after = self.pattern[self.at + 1 : self.at + 2]
        if after in ("", "]", "["):
            return _literal(low)  # the hyphen is the next item
        self.at += 1
        high = self._single()
        if len(high) > 1 or high < low:
            raise self.error("Illegal character range")
        return f"{_literal(low)}-{_literal(high)}"

    def _single(self) -> str:
        """A single character as it is, or the longer text of an escape that matches many."""
        char = self.pattern[self.at]
        self.at += 1
        if char != "\\":
            return char
        if self.at >= len(self.pattern):
            raise self.error("Unclosed character class")
        if self.pattern[self.at] in "pPdDsSwWhHvV":
            return self.class_escape()
        return self._escaped_char()


def _literal(char: str) -> str:
    return f"\\{char}" if char in "\\]^-[&~|#" or char.isspace() else char


def _combined(parts: list[list[str]], negated: bool) -> str:
    """`parts` are intersected; each is a union of plain items and of whole classes."""
    alternatives = []
    for part in parts:
        plain = "".join(item for item in part if not _whole(item))
        classes = [item for item in part if _whole(item)]
        if not classes and len(parts) == 1:
            return f"[{'^' if negated else ''}{plain}]"
        alternatives.append("|".join([*classes, *([f"[{plain}]"] if plain else [])]))
    if not alternatives:
        alternatives.append(ANY_CHARACTER)
    if len(alternatives) == 1 and not negated:
        return f"(?:{alternatives[0]})"
    together = "".join(f"(?={alternative})" for alternative in alternatives)
    return f"(?:(?!{together}){ANY_CHARACTER})" if negated else f"(?:{together}{ANY_CHARACTER})"


def _whole(item: str) -> bool:
    return item.startswith(("[", "(?:"))
