"""Spark SQL's text in pieces, as Spark's lexer divides it: what is outside of quotes and comments, and what is not.

The rules are those of SqlBaseLexer.g4 of Spark 4.2. tests/spark/statement/test_sql_text.py compares both. Where Spark has
one token, there may be several pieces of the same kind.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

# Spark compares letters in capitals, and two others have such a capital letter, too.
_LETTERS: Final = "A-Za-z\u0131\u017f"
_START: Final = re.compile(
    rf"""
      (?P<space> [ \t\n\f\r\x0b\xa0\u1680\u2000-\u200a\u2028\u202f\u205f\u3000]+ )
    | (?P<line> -- (?: \\\n | [^\r\n] )* \r?\n? )
    # A hint, as /*+ BROADCAST(r) */, is no comment.
    | (?P<block> /\*(?!\+) )
    | (?P<quote> [rR]?['"] | ` )
    | (?P<tag> \$[{_LETTERS}]*\$ )
    # Whole numbers are words, as a name may begin with a digit, too. A point is no part of a number with a letter behind it.
    | (?P<number>
          [0-9]+ [eE][+-][0-9]+ (?: [bB][dD] | [dDfF] )?
        | (?: [0-9]+\.[0-9]* | \.[0-9]+ ) (?: [eE][+-]?[0-9]+ )? (?: [bB][dD] | [dDfF] )? (?! [{_LETTERS}0-9_] )
      )
    | (?P<word> [A-Za-z0-9_\x80-\U0010ffff] )
    | (?P<sign> \*/ | /\*\+ | <=>? | <> | [>!=]= | -> | => | :: | \|\| | . )
    """,
    re.VERBOSE | re.DOTALL,
)
# What follows such an opening, up to its end.
_REST: Final = {
    "'": re.compile(r"(?: [^'\\]++ | \\. )* '", re.VERBOSE | re.DOTALL),
    '"': re.compile(r'(?: [^"\\]++ | \\. )* "', re.VERBOSE | re.DOTALL),
    # A quote that is there twice is two pieces, one behind the other.
    "`": re.compile(r"[^`]*+`"),
    "R'": re.compile(r"[^']*+'"),
    'R"': re.compile(r'[^"]*+"'),
}
_BLOCK: Final = re.compile(r"/\*(?!\+)|\*/")
# Of a name, and of a path behind letters alone, as in file://data/part-1, which is one name. Both have letters of any kind.
_NAME: Final = re.compile(r"[A-Za-z0-9_]*+")
_PATH: Final = re.compile(r"[A-Za-z0-9_/.?=&#%-]*+")
_BEFORE_PATH: Final = "://"


class Kind(Enum):
    """What a piece is."""

    SPACE = "space"
    COMMENT = "comment"
    # A text, or a name in backquotes, with its quotes.
    QUOTED = "quoted"
    # A name, a keyword or a number.
    WORD = "word"
    SIGN = "sign"


_KINDS: Final = {
    "space": Kind.SPACE,
    "line": Kind.COMMENT,
    "block": Kind.COMMENT,
    "tag": Kind.QUOTED,
    "number": Kind.WORD,
    "sign": Kind.SIGN,
}


class Piece(NamedTuple):
    """`begin`: the place of its first character."""

    kind: Kind
    text: str
    begin: int


def pieces(text: str) -> Iterator[Piece]:
    """All of a text, in order. A quote that is not closed is a sign, and what follows it is outside.

    A comment, and a text in dollars, that is not closed goes on to the end.
    """
    begin = 0
    # Quotes of which no other one is closed, either.
    unclosed: set[str] = set()
    while begin < len(text):
        kind, end = _next(text, begin, unclosed)
        yield Piece(kind, text[begin:end], begin)
        begin = end


def outside(text: str) -> Iterator[Piece]:
    """The words and signs outside of quotes and comments."""
    return (piece for piece in pieces(text) if piece.kind in (Kind.WORD, Kind.SIGN))


def place_of(text: str, index: int) -> str:
    """`line 1, column 8` of a character."""
    before = text[: max(0, min(index, len(text)))]
    return f"line {before.count(chr(10)) + 1}, column {len(before) - (before.rfind(chr(10)) + 1) + 1}"


def _next(text: str, begin: int, unclosed: set[str]) -> tuple[Kind, int]:
    """The kind of the piece that begins here, and where it ends."""
    found = _START.match(text, begin)
    assert found is not None
    name, end = found.lastgroup, found.end()
    if name == "quote":
        return _quoted(text, found, unclosed)
    if name == "word":
        end = _end_of_word(text, begin)
        return (Kind.WORD, end) if end > begin else (Kind.SIGN, begin + 1)
    if name == "block":
        end = _end_of_block(text, end)
    elif name == "tag":
        close = text.find(found[0], end)
        end = len(text) if close < 0 else close + len(found[0])
    return _KINDS[name or ""], end


def _quoted(text: str, opening: re.Match[str], unclosed: set[str]) -> tuple[Kind, int]:
    quote = opening[0].upper()
    rest = None if quote in unclosed else _REST[quote].match(text, opening.end())
    if rest is not None:
        return Kind.QUOTED, rest.end()
    # Whoever looked for its end from an earlier one has been here. So a text of quotes takes no time of its square.
    unclosed.add(quote)
    return (Kind.SIGN if len(quote) == 1 else Kind.WORD), opening.start() + 1


def _end_of_block(text: str, begin: int) -> int:
    """Comments hold others."""
    depth = 1
    for found in _BLOCK.finditer(text, begin):
        depth += -1 if found[0] == "*/" else 1
        if depth == 0:
            return found.end()
    return len(text)


def _end_of_word(text: str, begin: int) -> int:
    """Where it begins, if that is no letter."""
    end = _end_of_run(text, begin, _NAME)
    if not text.startswith(_BEFORE_PATH, end) or not all(map(_is_letter, text[begin:end])):
        return end
    path = end + len(_BEFORE_PATH)
    behind = _end_of_run(text, path, _PATH)
    return end if behind == path else behind


def _end_of_run(text: str, begin: int, run: re.Pattern[str]) -> int:
    end = begin
    while True:
        found = run.match(text, end)
        assert found is not None
        end = found.end()
        if end == len(text) or text[end].isascii() or not _is_letter(text[end]):
            return end
        end += 1


def _is_letter(character: str) -> bool:
    """As Spark sees it: of its capital, if it has one."""
    return unicodedata.category(character.upper()[0]).startswith("L")
