"""How much SQL Spark is asked to read: characters, words and signs, and how deep brackets and CASE are nested.

Spark reads statements in the process that applies those of all connectors. Its parser needs more memory than there is for
9,000 nested brackets, and all tasks end with that process. Other long or deep statements keep it busy for minutes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from mirror_connect.connectors.mirror.sql_text import Kind, pieces, place_of

MOST_CHARACTERS: Final = 20_000
# Of a statement. In a schema they cost nothing.
MOST_PIECES: Final = 5_000
MOST_NESTED: Final = 50
# Of these, parsing ten times as many takes a hundred times as long.
MOST_CASES: Final = 20
MOST_LAMBDAS: Final = 20
_BRACKETS: Final = "brackets"
_CASE: Final = "CASE"
_LAMBDA: Final = "->"
_MOST: Final = {_BRACKETS: MOST_NESTED, _CASE: MOST_CASES, _LAMBDA: MOST_LAMBDAS}
# What opens, and what closes it. A lambda ends with what is around it, too.
_CLOSED_BY: Final = {"(": ")", "[": "]", "<": ">", _CASE: "END", _LAMBDA: ","}
# These close what is still open within them: then it has ended, or Spark refuses the text.
_ALWAYS: Final = frozenset(")]")
# Behind these an expression begins, so that END is a name there. CASE would not be closed by it.
_NO_END: Final = frozenset(
    (
        *("CASE", "WHEN", "THEN", "ELSE", "AND", "OR", "NOT", "BETWEEN", "IN", "IS", "DISTINCT", "FROM", "ALL", "ANY"),
        *("SOME", "LIKE", "ILIKE", "RLIKE", "REGEXP", "ESCAPE", "DIV", "COLLATE", "ZONE", "INTERVAL", "AS", "ON"),
    )
)
# Before any other word < is an operator.
_WITH_FIELDS: Final = frozenset(("STRUCT", "ARRAY", "MAP"))


def too_much(text: str) -> str | None:
    """Why Spark is not asked to read a statement or a schema; None if it can be. One line, without its setting."""
    if len(text) > MOST_CHARACTERS:
        return f"it has {len(text):,} characters, and at most {MOST_CHARACTERS:,} are taken"
    return _too_deep(text)


def too_much_of_a_statement(text: str) -> str | None:
    """As `too_much`, also of what costs time in a statement alone."""
    if (problem := too_much(text)) is not None:
        return problem
    count = sum(piece.kind not in (Kind.SPACE, Kind.COMMENT) for piece in pieces(text))
    if count > MOST_PIECES:
        return f"it has {count:,} words and signs, and at most {MOST_PIECES:,} are taken"
    return None


def _too_deep(text: str) -> str | None:
    opened = list(_opened(text))
    for what, most in _MOST.items():
        depths = {begin: depth for each, depth, begin in opened if each == what}
        found = max(depths.values(), default=0)
        if found > most:
            place = place_of(text, next(begin for begin, depth in depths.items() if depth > most))
            return f"it has {found} {what} within each other, and at most {most} are taken ({place})"
    return None


def _opened(text: str) -> Iterator[tuple[str, int, int]]:
    """Each CASE and each bracket that opens: which of both, in how many of its kind one is behind it, and its place."""
    # What closes the ones that are open.
    opened: list[str] = []
    counts: Counter[str] = Counter()
    before = ""
    for kind, written, begin in pieces(text):
        if kind in (Kind.SPACE, Kind.COMMENT):
            continue
        # Behind a point there is a name, as in value.end.
        word = "" if kind is Kind.QUOTED or (kind is Kind.WORD and before == ".") else written.upper()
        if counts[word] and (word in _ALWAYS or (opened[-1] == word and (word != "END" or _may_end(before)))):
            while (last := opened.pop()) != word:
                counts[last] -= 1
            counts[word] -= 1
            word = ")" if word != "," else word
        elif word in _CLOSED_BY and (word != "<" or before in _WITH_FIELDS):
            closed_by = _CLOSED_BY[word]
            opened.append(closed_by)
            counts[closed_by] += 1
            what = word if word in _MOST else _BRACKETS
            others = counts["END"] + counts[","]
            yield what, counts[closed_by] if what == word else len(opened) - others, begin
        before = word


def _may_end(before: str) -> bool:
    """Whether an expression can have ended with this: with a word, something in quotes or a closing bracket."""
    return before not in _NO_END and (before[:1].isalnum() or before[:1] in "_.)")
