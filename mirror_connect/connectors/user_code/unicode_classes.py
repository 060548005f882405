r"""Character properties of Java's regular expressions (`\p{…}`) as items of a Python character class."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import Final

# POSIX names are ASCII only in Java, unless the pattern asks for Unicode.
_ASCII: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": r" \t\n\x0b\f\r",
}
_BINARY: Final[dict[str, Callable[[str], bool]]] = {
    "ALPHABETIC": str.isalpha,
    "LETTER": str.isalpha,
    "DIGIT": str.isdecimal,
    "UPPERCASE": str.isupper,
    "LOWERCASE": str.islower,
    "WHITE_SPACE": str.isspace,
    "WHITESPACE": str.isspace,
    "PUNCTUATION": lambda char: unicodedata.category(char)[0] == "P",
    "CONTROL": lambda char: unicodedata.category(char) == "Cc",
}
_JAVA: Final[dict[str, Callable[[str], bool]]] = {
    "javaLowerCase": str.islower,
    "javaUpperCase": str.isupper,
    "javaLetter": str.isalpha,
    "javaAlphabetic": str.isalpha,
    "javaDigit": str.isdecimal,
    "javaLetterOrDigit": lambda char: char.isalpha() or char.isdecimal(),
    "javaWhitespace": lambda char: char.isspace() and char not in "\x85\xa0\u2007\u202f",
}
_CATEGORIES: Final = {
    "L": "ultmo",
    "M": "nec",
    "N": "dlo",
    "Z": "slp",
    "C": "cfosn",
    "P": "dseocif",
    "S": "mcko",
}


@lru_cache(maxsize=64)
def property_class(name: str) -> str | None:
    r"""Items for `[…]` of the property in `\p{…}`; None for an unknown one.

    Scripts and blocks (`IsGreek`, `InGreek`, `sc=…`) are unknown, because the standard library has no tables of them.
    """
    if name in _ASCII:
        return _ASCII[name]
    if name in _JAVA:
        return _items(_JAVA[name])
    if name == "L1":
        return r"\x00-\xff"
    key, _, value = name.partition("=")
    if value:
        return _category(value) if key.lower() in ("gc", "general_category") else None
    if name.startswith("Is"):
        known = _BINARY.get(name[2:].upper())
        return _items(known) if known else _category(name[2:])
    return _category(name)


def _category(name: str) -> str | None:
    wanted = {"LC": ("Lu", "Ll", "Lt"), "LD": ("L", "Nd")}.get(name, (name,))
    for category in wanted:
        if category[:1] not in _CATEGORIES or category[1:] not in ("", *_CATEGORIES[category[0]]):
            return None
    return _items(lambda char: unicodedata.category(char).startswith(wanted))


def _items(accepts: Callable[[str], bool]) -> str:
    """Ranges of all characters that a test accepts. It takes a tenth of a second, once for each property."""
    ranges: list[str] = []
    start = -1
    for code in range(sys.maxunicode + 2):
        inside = code <= sys.maxunicode and accepts(chr(code))
        if inside and start < 0:
            start = code
        elif not inside and start >= 0:
            ranges.append(f"\\U{start:08x}-\\U{code - 1:08x}")
            start = -1
    return "".join(ranges)
