"""Reads a replacement as Java's `Matcher` takes it: `$1`, `${name}`, and a backslash before a character as it is.

match_names.py puts it in.
"""

from __future__ import annotations

import re
from typing import Final

from mirror_connect.connectors.user_code.java_characters import JavaRegexError
from mirror_connect.connectors.user_code.match_names import Part

_NAME: Final = re.compile(r"[a-zA-Z0-9]*")
_DIGITS: Final = "0123456789"
# As java_regex.py translates it.
_POSSESSIVE_GROUP: Final = "(?>("


def replacement_parts(text: str, pattern: re.Pattern[str]) -> tuple[Part, ...]:
    """Text as it is, and numbers of the groups of `pattern`. JavaRegexError, in Java's words, for what Java refuses.

    Java refuses it with the first name that matches.
    """
    parts = _parts(text, pattern)
    if _POSSESSIVE_GROUP in pattern.pattern and any(part for part in parts if not isinstance(part, str)):
        # Java fills such a group also where its alternative fails later. Python does not.
        raise JavaRegexError("a group that a possessive quantifier repeats can't be used here with $1")
    return parts


def _parts(text: str, pattern: re.Pattern[str]) -> tuple[Part, ...]:
    parts: list[Part] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char == "\\":
            if at + 1 == len(text):
                raise JavaRegexError("character to be escaped is missing")
            parts.append(text[at + 1])
            at += 2
        elif char == "$":
            group, at = _group(text, at + 1, pattern)
            parts.append(group)
        else:
            parts.append(char)
            at += 1
    return _joined(parts)


def _group(text: str, at: int, pattern: re.Pattern[str]) -> tuple[int, int]:
    """The group of a reference whose `$` is before `at`, and the place behind the reference."""
    char = text[at : at + 1]
    if char == "{":
        return _named(text, at + 1, pattern)
    if not char:
        raise JavaRegexError("Illegal group reference: group index is missing")
    if char not in _DIGITS:
        raise JavaRegexError("Illegal group reference")
    group, at = int(char), at + 1
    # More digits belong to it as long as there is such a group.
    while text[at : at + 1] and text[at] in _DIGITS and group * 10 + int(text[at]) <= pattern.groups:
        group, at = group * 10 + int(text[at]), at + 1
    if group > pattern.groups:
        raise JavaRegexError(f"No group {group}")
    return group, at


def _named(text: str, at: int, pattern: re.Pattern[str]) -> tuple[int, int]:
    found = _NAME.match(text, at)
    name = found[0] if found else ""
    end = at + len(name)
    if not name:
        raise JavaRegexError("named capturing group has 0 length name")
    if text[end : end + 1] != "}":
        raise JavaRegexError("named capturing group is missing trailing '}'")
    if name[0] in _DIGITS:
        raise JavaRegexError(f"capturing group name {{{name}}} starts with digit character")
    if name not in pattern.groupindex:
        raise JavaRegexError(f"No group with name {{{name}}}")
    return pattern.groupindex[name], end + 1


def _joined(parts: list[Part]) -> tuple[Part, ...]:
    """The same with neighbouring texts as one."""
    joined: list[Part] = []
    for part in parts:
        if joined and isinstance(part, str) and isinstance(joined[-1], str):
            joined[-1] += part
        else:
            joined.append(part)
    return tuple(joined)
