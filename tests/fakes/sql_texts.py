"""Made-up texts of SQL: characters and pairs of them that begin, end or escape something, in any order."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as some

_QUOTES: Final = ("'", '"', "`", "''", "``", "\\", "\\'", '\\"', "r'", 'R"', "'(['", "`(`", '"<"')
_DOLLARS: Final = ("$", "$$", "$t$", "$T$", "$1$", "$ſ$")
_COMMENTS: Final = ("--", "-", "/*", "*/", "/*+", "*", "/", "\\\n", "\n", "\r\n", "\r")
_BRACKETS: Final = ("(", ")", "[", "]", "<", ">", ">>", "STRUCT<", "array <", "Map<", "<>", "<=>")
_WORDS: Final = ("r", "x", "a1", "case ", "END", "caſe", "é", "ß", "ı", "ǅ", "_", "s3a://", "abc://", "://")
_NUMBERS: Final = ("1", "1E+3", "1e-2bd", "1.5E-2D", ".5", "2.", "1.f", "٣", "Ⅷ", "²")
_SIGNS: Final = ("?", "=", "#", "%", ".", ",", ";", ":", "::", "|", "||", "->", "!", "&", "@", "{", "}", "+")
_SPACES: Final = (" ", "\t", "\u00a0", "\u2028", "\u200b", "\u0345", "😀")
PARTS: Final = (*_QUOTES, *_DOLLARS, *_COMMENTS, *_BRACKETS, *_WORDS, *_NUMBERS, *_SIGNS, *_SPACES)

sql_texts: Final = some.lists(some.sampled_from(PARTS), max_size=14).map("".join)
