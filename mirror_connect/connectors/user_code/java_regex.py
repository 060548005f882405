"""Java regular expressions as Python ones: configs hold `java.util.regex` syntax, which MirrorMaker's users rely on.

Translated: flags in the middle of a pattern, quoting, character classes with unions and intersections, properties,
Java's escapes and named groups; possessive quantifiers become atomic groups, as Python's own find too little before 3.11.5
if a group is repeated. What Java refuses is refused with Java's words; the little that Python can't do (scripts and blocks,
unbounded look-behind, \\G, \\X) is refused too, as matching something else would copy the wrong topics.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from mirror_connect.connectors.user_code.unicode_classes import property_class

_ANY: Final = r"[\s\S]"
_NOT_LINE_END: Final = r"[^\n\r\x85\u2028\u2029]"
_HORIZONTAL: Final = r"\t \xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000"
_VERTICAL: Final = r"\n\x0b\f\r\x85\u2028\u2029"
_LINE_BREAK: Final = r"(?:\r\n|[\n\x0b\f\r\x85\u2028\u2029])"
_CONTROL: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_QUANTIFIED: Final = re.compile(r"\{(\d+)(,(\d*))?\}", re.ASCII)
_OPEN: Final = re.compile(r"\(\?(?:<(?P<name>[a-zA-Z][a-zA-Z0-9]*)>|(?P<plain>:|>|=|!|<=|<!))")
_FLAGS: Final = re.compile(r"\(\?(?P<on>[idmsuxU]*)(?:-(?P<off>[idmsuxU]*))?(?P<end>[:)])")
_NAMED: Final = re.compile(r"k<([a-zA-Z][a-zA-Z0-9]*)>")
_PROPERTY: Final = re.compile(r"[pP](?:\{([^}]*)\}|([^{]))")
# What a topic's name may have; ways_to_match counts for names up to that.
LONGEST_NAME: Final = 249
# A count to such a power is as good as endless.
_ENDLESS_POWER: Final = 20


class JavaRegexError(ValueError):
    """The text is no Java regular expression, or one of the few that can't be translated."""


@lru_cache(maxsize=256)
def compile_java(pattern: str) -> re.Pattern[str]:
    """A Python pattern whose `fullmatch` answers as Java's `matches`; JavaRegexError says what is wrong and where.

    Matching may take for ever: that is bounded_match.py's business alone.
    """
    try:
        return re.compile(_translated(pattern)[0], re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise JavaRegexError(f"can't be used here: {getattr(error, 'msg', error)}") from error


def ways_to_match(pattern: str) -> float:
    """In how many ways a name may have to be tried, at most: what a backtracking matcher's time grows with.

    Rough, and never too low: each `*` counts as many ways as a name has places, whatever stands around it.
    """
    return _translated(pattern)[1]


@lru_cache(maxsize=256)
def _translated(pattern: str) -> tuple[str, float]:
    translator = _Translator(pattern)
    text = translator.translate()
    return text, translator.ways()


@dataclass(slots=True)
class _Group:
    """An open group: the flags in force in it, and those that were when it began."""

    outer: frozenset[str]
    begins: int = 0  # where in `out`
    scoped: int = 0  # flag scopes opened inside, to be closed at its end and reopened after each `|`
    # Ways to match: alternatives that are complete, the present one without its last item, and that item.
    complete: float = 0.0
    before: float = 1.0
    item: float = 1.0

    def ways(self) -> float:
        return self.complete + self.before * self.item

    def add_item(self, ways: float) -> None:
        self.before *= self.item
        self.item = ways


class _Translator:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.flags: frozenset[str] = frozenset()
        self.groups = [_Group(self.flags)]
        self.out: list[str] = []
        self.repeatable = False  # whether a quantifier may follow
        self.item_begins = 0  # where in `out` the item does that one would repeat
        self.captures = 0

    def error(self, problem: str) -> JavaRegexError:
        return JavaRegexError(f"{problem} near index {min(self.at, len(self.pattern))}")

    def translate(self) -> str:
        while self.at < len(self.pattern):
            char = self.pattern[self.at]
            step: Callable[[], None] | None = {
                "(": self.open, ")": self.close, "|": self.alternative, "[": self.char_class, "\\": self.escape,
                "*": self.quantifier, "+": self.quantifier, "?": self.quantifier, "{": self.counted, ".": self.dot,
            }.get(char)  # fmt: skip
            if step is not None:
                step()
            elif "x" in self.flags and char in " \t\n\x0b\f\r":
                self.at += 1
            elif "x" in self.flags and char == "#":
                end = self.pattern.find("\n", self.at)
                self.at = len(self.pattern) if end < 0 else end
            else:
                # ^ and $ may be repeated in Java, which changes nothing; Python takes that from a group only.
                self.emit(f"(?:{char})" if char in "^$" else re.escape(char))
                self.at += 1
        if len(self.groups) > 1:
            raise self.error("Unclosed group")
        return "".join(self.out) + ")" * self.groups[0].scoped

    def ways(self) -> float:
        """See ways_to_match."""
        return self.groups[0].ways()

    def emit(self, text: str, repeatable: bool = True) -> None:
        """A piece of the translation; if it may be repeated, it is an item of its own."""
        self.out.append(text)
        self.repeatable = repeatable
        if repeatable:
            self.item_begins = len(self.out) - 1
            # Classes and line breaks are translated into alternatives, too.
            self.groups[-1].add_item(1.0 + text.count("|"))

    def open(self) -> None:
        if not self.pattern.startswith("(?", self.at):
            self.captures += 1
            self._begin("(", 1, self.flags)
        elif match := _OPEN.match(self.pattern, self.at):
            self.captures += match["name"] is not None
            text = f"(?P<{match['name']}>" if match["name"] else f"(?{match['plain']}"
            self._begin(text, len(match[0]), self.flags)
        elif match := _FLAGS.match(self.pattern, self.at):
            flags = (self.flags | set(match["on"])) - set(match["off"] or "")
            if match["end"] == ":":
                self._begin(self._scope(self.flags, flags), len(match[0]), flags)
            else:
                # In force to the end of the enclosing group, its further alternatives included.
                self.emit(self._scope(self.flags, flags), repeatable=False)
                self.groups[-1].scoped += 1
                self.flags = flags
                self.at += len(match[0])
        elif self.pattern.startswith("(?<", self.at):
            raise self.error("capturing group name does not start with a Latin letter")
        else:
            raise self.error("Unknown inline modifier")

    def _begin(self, text: str, length: int, inner: frozenset[str]) -> None:
        self.groups.append(_Group(self.flags, begins=len(self.out)))
        self.flags = inner
        self.at += length
        self.emit(text, repeatable=False)

    @staticmethod
    def _scope(before: frozenset[str], after: frozenset[str]) -> str:
        """Opens a Python group with the flags of `after`; s, x, d are dealt with here and never reach Python."""
        # Without u Java folds ASCII only, as Python does under re.ASCII. U has no equal that leaves \b alone: (?u) it is.
        wide = bool(after & {"U"} or {"u", "i"} <= after)
        on = "".join(sorted(after & {"i", "m"}))
        off = "".join(sorted((before - after) & {"i", "m"}))
        return f"(?{'u' if wide else 'a'}{on}{'-' + off if off else ''}:"

    def close(self) -> None:
        if len(self.groups) == 1:
            raise self.error("Unmatched closing ')'")
        group = self.groups.pop()
        self.flags = group.outer
        self.at += 1
        self.emit(")" * (group.scoped + 1))
        self.item_begins = group.begins
        self.groups[-1].item = group.ways()

    def alternative(self) -> None:
        group = self.groups[-1]
        group.complete, group.before, group.item = group.ways(), 1.0, 1.0
        self.at += 1
        self.emit(")" * group.scoped + "|", repeatable=False)
        if group.scoped:
            self.out.append(self._scope(self._python_flags_outside(), self.flags))
            group.scoped = 1

    def _python_flags_outside(self) -> frozenset[str]:
        """Flags around the innermost group, which the reopened scope has to undo if they are off now."""
        return self.groups[-1].outer | {"i", "m"}

    def dot(self) -> None:
        self.at += 1
        self.emit(_ANY if "s" in self.flags else r"[^\n]" if "d" in self.flags else _NOT_LINE_END)

    def quantifier(self) -> None:
        char = self.pattern[self.at]
        if not self.repeatable:
            raise self.error(f"Dangling meta character '{char}'")
        self._repeat(char, 1, int(char == "+"), 1 if char == "?" else LONGEST_NAME)

    def counted(self) -> None:
        match = _QUANTIFIED.match(self.pattern, self.at)
        if match is None:
            counting = self.pattern[self.at + 1 : self.at + 2].isdecimal()
            raise self.error("Unclosed counted closure" if counting else "Illegal repetition")
        low, high = int(match[1]), int(match[3]) if match[3] else int(match[1])
        most = LONGEST_NAME if match[3] == "" else high
        if max(low, high) >= 1 << 31 or low > high:
            raise self.error("Illegal repetition range")
        if not self.repeatable:
            self.emit("(?:)")  # Java repeats the empty match
        elif self.out[-1].endswith(("*", "+", "?", "}", ")")) and self.out[-1][0] in "*+?{":
            # Java lets counts follow a quantifier (a{2}{3}), Python wants a group around the first.
            raise self.error("A second quantifier needs a group")
        self._repeat(match[0], len(match[0]), low, most)

    def _repeat(self, text: str, length: int, low: int, high: int) -> None:
        group = self.groups[-1]
        group.item = _ways_repeated(group.item, min(low, LONGEST_NAME), min(high, LONGEST_NAME))
        self.at += length
        following = self.pattern[self.at : self.at + 1]
        if following == "+":
            self.out[self.item_begins] = f"(?>{self.out[self.item_begins]}"
            text += ")"
            self.at += 1
        elif following == "?":
            text += "?"
            self.at += 1
        self.out.append(text)
        # After this only a count may follow in Java; `*`, `+`, `?` dangle.
        self.repeatable = self.at < len(self.pattern) and self.pattern[self.at] == "{"

    def escape(self) -> None:
        self.at += 1
        char = self.pattern[self.at : self.at + 1]
        if char == "":
            raise self.error("Unexpected internal error")
        if char == "Q":
            for quoted in self._quoted():
                self.emit(re.escape(quoted))
        elif char == "E":
            self.at += 1
        elif match := _NAMED.match(self.pattern, self.at):
            self.at += len(match[0])
            self.emit(f"(?P={match[1]})")
        elif char in "123456789":
            self.at += 1
            # A reference to a group that isn't there (yet) never matches.
            self.emit(f"(?:\\{char})" if int(char) <= self.captures else "(?!)")
        elif char in "AbBzZR":
            self.at += 1
            anchors = {"z": r"\Z", "Z": r"(?=(?:\r\n|[\n\r\x85\u2028\u2029])?\Z)", "R": _LINE_BREAK}
            self.emit(f"(?:{anchors.get(char, chr(92) + char)})")
        else:
            item = self._class_escape()
            self.emit(item if item.startswith("[") else f"[{item}]")

    def _quoted(self) -> str:
        """The text between \\Q and \\E (or the end); stands at the Q, leaves after the E."""
        end = self.pattern.find("\\E", self.at)
        text = self.pattern[self.at + 1 : end if end >= 0 else len(self.pattern)]
        self.at = end + 2 if end >= 0 else len(self.pattern)
        return text

    def _class_escape(self) -> str:
        """What follows a backslash and stands for one character: a class item, or a whole `[…]`."""
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
        """One character written with a backslash; stands after it."""
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

    def char_class(self) -> None:
        self.emit(self._char_class())

    def _char_class(self) -> str:
        """A class from its `[` on: one expression that matches one character, built from Python classes and look-aheads."""
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
                parts[-1].append(self._char_class())
            elif self.pattern.startswith("&&", self.at):
                self.at += 2
                parts.append([])
            elif self.pattern.startswith("\\Q", self.at):
                self.at += 1
                parts[-1].extend(map(_literal, self._quoted()))
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
        """A single character as it is, or (longer) the text of an escape that stands for many."""
        char = self.pattern[self.at]
        self.at += 1
        if char != "\\":
            return char
        if self.at >= len(self.pattern):
            raise self.error("Unclosed character class")
        if self.pattern[self.at] in "pPdDsSwWhHvV":
            return self._class_escape()
        return self._escaped_char()


def _ways_repeated(ways: float, low: int, high: int) -> float:
    counts = max(high - low, 0) + 1
    if ways <= 1 or high <= 1:
        return counts * ways + (low == 0)
    return counts * min(ways, 1e9) ** high if high <= _ENDLESS_POWER else math.inf


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
        alternatives.append(_ANY)
    if len(alternatives) == 1 and not negated:
        return f"(?:{alternatives[0]})"
    together = "".join(f"(?={alternative})" for alternative in alternatives)
    return f"(?:(?!{together}){_ANY})" if negated else f"(?:{together}{_ANY})"


def _whole(item: str) -> bool:
    return item.startswith(("[", "(?:"))
