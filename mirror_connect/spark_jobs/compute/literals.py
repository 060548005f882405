"""Literals of a statement: the arguments that must be literals, and the literals of dates and times that are refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from mirror_connect.spark_jobs.compute.statement_error import StatementError
from mirror_connect.spark_jobs.compute.tree_nodes import at, each, kind, nodes

# Spark computes these arguments when it reads a statement, from the one with this number on.
_COMPUTED_AT_ONCE: Final[Mapping[str, int]] = {
    "schema_of_json": 0,
    "schema_of_csv": 0,
    "from_json": 1,
    "from_csv": 1,
    "to_json": 1,
    "to_csv": 1,
}
_OF_LITERALS: Final = frozenset(("map", "schema_of_json", "schema_of_csv"))
# It computes these, too: they say what type or parser a function has. By the numbers of the arguments.
_LITERALS: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys(("to_char", "to_varchar", "to_number", "try_to_number", "to_binary", "try_to_binary"), (1,)),
    **dict.fromkeys(("round", "bround", "ceil", "ceiling", "floor", "collate", "to_time", "try_to_time"), (1,)),
    **dict.fromkeys(("date_part", "datepart", "extract"), (0,)),
    **dict.fromkeys(("variant_get", "try_variant_get"), (1, 2)),
    **dict.fromkeys(("rand", "random", "randn", "uuid", "current_time"), (0,)),
    "shuffle": (1,),
    "randstr": (0, 1),
    "uniform": (0, 1, 2),
    **dict.fromkeys(("window", "session_window"), (1, 2, 3)),
}
_SIMPLE: Final = frozenset(("Literal", "UnaryMinus", "UnaryPositive", "Cast", "NamedArgumentExpression"))
# Of an array that the statement itself makes, Spark computes which member is meant.
_MEMBERS: Final = frozenset(("element_at", "try_element_at", "get"))
DATES: Final = frozenset(("date", "timestamp", "timestamp_ntz"))
# `epoch` is 1970, and always the same.
_FIXED_LITERAL: Final = re.compile(r"\w+\s*['\"]\s*([+-]?\d|epoch\b)", re.IGNORECASE)
CLOCK: Final = (
    "it is the time at which Spark reads the statement, or begins an epoch: "
    "processed_at is the time at which a record is processed"
)


def check_literal(literal: Any, text: str) -> None:
    """Refuses a time of the clock: the parser makes one of `TIMESTAMP 'now'`, so that its text alone tells."""
    if str(literal.dataType().typeName()) not in DATES:
        return
    start, stop = literal.origin().startIndex(), literal.origin().stopIndex()
    if start.isDefined() and stop.isDefined():
        written = text[int(start.get()) : int(stop.get()) + 1]
        if _FIXED_LITERAL.match(written) is None:
            raise StatementError(f"{written} is not taken: {CLOCK}", at(literal))


def check_member(function: str, array: Any, index: Any) -> None:
    """Refuses an index that is computed, if the array is made of constants."""
    if _function(array) == "array" and all(part.name != "UnresolvedAttribute" for part in nodes(index)):
        _check_simple(function, index)


def check_computed_at_once(function: str, node: Any) -> None:
    """Refuses what is computed where Spark computes it at once: it may be of any size, and a check must not compute."""
    known = function.lower()
    if known not in _LITERALS and known not in _MEMBERS and known not in _COMPUTED_AT_ONCE:
        return
    arguments = list(each(node.arguments()))
    for number in _LITERALS.get(known, ()):
        if number < len(arguments):
            _check_simple(function, arguments[number])
    if known in _MEMBERS and len(arguments) > 1:
        check_member(function, arguments[0], arguments[1])
    first = _COMPUTED_AT_ONCE.get(known)
    if first is None:
        return
    for argument in arguments[first:]:
        for part in nodes(argument):
            if _function(part.java) in _OF_LITERALS:
                continue
            if part.name != "Literal":
                what = "its text" if first == 0 else "its schema and options"
                raise StatementError(f"{function} is taken only with {what} as literals", at(part.java) or at(node))


def _check_simple(function: str, argument: Any) -> None:
    for part in nodes(argument):
        if part.name not in _SIMPLE:
            raise StatementError(
                f"{function} needs a literal here: Spark computes it when it reads the statement", at(part.java)
            )


def _function(node: Any) -> str | None:
    """The function that a node of the parser's calls, in small letters."""
    return str(list(each(node.nameParts()))[-1]).lower() if kind(node) == "UnresolvedFunction" else None
