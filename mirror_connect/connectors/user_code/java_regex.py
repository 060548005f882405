"""Translates Java regular expressions to Python ones: MirrorMaker's configs have the syntax of `java.util.regex`.

It translates flags inside a pattern, quoting, character classes with unions and intersections, properties, Java's escapes
and named groups. Possessive quantifiers become atomic groups, because Python's own match too little before 3.11.5 if a
group is repeated. Expressions that Java refuses are refused in Java's words. The few features that Python lacks (scripts
and blocks, unbounded look-behind, \\G, \\X) are refused too, because a wrong match would copy the wrong topics.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from mirror_connect.connectors.user_code.java_characters import ANY_CHARACTER, CharacterReader, JavaRegexError

_NOT_LINE_END: Final = r"[^\n\r\x85\u2028\u2029]"
_LINE_BREAK: Final = r"(?:\r\n|[\n\x0b\f\r\x85\u2028\u2029])"
_QUANTIFIED: Final = re.compile(r"\{(\d+)(,(\d*))?\}", re.ASCII)
_OPEN: Final = re.compile(r"\(\?(?:<(?P<name>[a-zA-Z][a-zA-Z0-9]*)>|(?P<plain>:|>|=|!|<=|<!))")
_FLAGS: Final = re.compile(r"\(\?(?P<on>[idmsuxU]*)(?:-(?P<off>[idmsuxU]*))?(?P<end>[:)])")
_NAMED: Final = re.compile(r"k<([a-zA-Z][a-zA-Z0-9]*)>")
# The longest name of a topic; ways_to_match counts for names up to this.
LONGEST_NAME: Final = 249
# A count to such a power is as good as endless.
_ENDLESS_POWER: Final = 20


@lru_cache(maxsize=256)
def compile_java(pattern: str) -> re.Pattern[str]:
    """A Python pattern whose `fullmatch` does what Java's `matches` does; JavaRegexError says what is wrong and where.

    Matching may take for ever, so only bounded_match.py does it.
    """
    try:
        return re.compile(_translated(pattern)[0], re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise JavaRegexError(f"can't be used here: {getattr(error, 'msg', error)}") from error


def ways_to_match(pattern: str) -> float:
    """The most ways in which a matcher may have to try a name. The time of a backtracking matcher grows with it.

    It is rough but never too low: each `*` counts as many ways as a name has characters.
    """
    return _translated(pattern)[1]


@lru_cache(maxsize=256)
def _translated(pattern: str) -> tuple[str, float]:
    translator = _Translator(pattern)
    text = translator.translate()
    return text, translator.ways()


@dataclass(slots=True)
class _Group:
    """An open group, with the flags in force before it."""

    outer: frozenset[str]
    begins: int = 0  # index in `out`
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


class _Translator(CharacterReader):
    def __init__(self, pattern: str) -> None:
        super().__init__(pattern)
        self.groups = [_Group(self.flags)]
        self.out: list[str] = []
        self.repeatable = False  # whether a quantifier may follow
        self.item_begins = 0  # index in `out` of the item that a quantifier would repeat
        self.captures = 0

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
                # Java lets ^ and $ be repeated, without effect. Python allows that for a group only.
                self.emit(f"(?:{char})" if char in "^$" else re.escape(char))
                self.at += 1
        if len(self.groups) > 1:
            raise self.error("Unclosed group")
        return "".join(self.out) + ")" * self.groups[0].scoped

    def ways(self) -> float:
        """See ways_to_match."""
        return self.groups[0].ways()

    def emit(self, text: str, repeatable: bool = True) -> None:
        """Adds a part of the translation; if it may be repeated, it is a new item."""
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
                # In force to the end of the enclosing group, with its further alternatives.
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
        """Opens a Python group with the flags of `after`; s, x, d are handled here and never reach Python."""
        # Without u, Java folds ASCII only, as Python does under re.ASCII. U becomes (?u), which also changes \b.
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
        """Flags around the innermost group, which the reopened scope must undo if they are off now."""
        return self.groups[-1].outer | {"i", "m"}

    def dot(self) -> None:
        self.at += 1
        self.emit(ANY_CHARACTER if "s" in self.flags else r"[^\n]" if "d" in self.flags else _NOT_LINE_END)

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
            # Java lets a count follow a quantifier (a{2}{3}); Python requires a group around the first.
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
        # In Java only a count may follow; `*`, `+`, `?` dangle.
        self.repeatable = self.at < len(self.pattern) and self.pattern[self.at] == "{"

    def escape(self) -> None:
        self.at += 1
        char = self.pattern[self.at : self.at + 1]
        if char == "":
            raise self.error("Unexpected internal error")
        if char == "Q":
            for quoted in self.quoted():
                self.emit(re.escape(quoted))
        elif char == "E":
            self.at += 1
        elif match := _NAMED.match(self.pattern, self.at):
            self.at += len(match[0])
            self.emit(f"(?P={match[1]})")
        elif char in "123456789":
            self.at += 1
            # A reference to a group that doesn't exist (yet) never matches.
            self.emit(f"(?:\\{char})" if int(char) <= self.captures else "(?!)")
        elif char in "AbBzZR":
            self.at += 1
            anchors = {"z": r"\Z", "Z": r"(?=(?:\r\n|[\n\r\x85\u2028\u2029])?\Z)", "R": _LINE_BREAK}
            self.emit(f"(?:{anchors.get(char, chr(92) + char)})")
        else:
            item = self.class_escape()
            self.emit(item if item.startswith("[") else f"[{item}]")

    def char_class(self) -> None:
        self.emit(self.char_class_text())


def _ways_repeated(ways: float, low: int, high: int) -> float:
    counts = max(high - low, 0) + 1
    if ways <= 1 or high <= 1:
        return counts * ways + (low == 0)
    return counts * min(ways, 1e9) ** high if high <= _ENDLESS_POWER else math.inf
