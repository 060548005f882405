"""JSON whose members know their lines."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from json.decoder import JSONDecodeError, scanstring  # type: ignore[attr-defined]
from typing import Final

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_SCALAR: Final = re.compile(r"(true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.+-])")
_LINE_END: Final = re.compile("\n")
_DEEPEST: Final = 100


@dataclass(frozen=True, slots=True)
class Node:
    """A value and the line of its key, or its own if it has none.

    `value`: a dict of nodes, a list of nodes, a text, or None. Numbers and booleans are texts, as Connect reads them.
    """

    value: dict[str, Node] | list[Node] | str | None = field(repr=False)
    line: int


def read_json(text: str) -> Node:
    """The whole text. ValueError with line and column, but without the text, which may hold passwords."""
    try:
        node, end = _value(text, _skip(text, 0), 0, _lines_of(text))
        end = _skip(text, end)
        if end != len(text):
            raise JSONDecodeError("Extra data", text, end)
    except JSONDecodeError as error:
        raise ValueError(f"it is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except IndexError:
        raise ValueError(
            f"it is not valid JSON: it ends too early, on line {_line(_lines_of(text), len(text))}"
        ) from None
    return node


def _value(text: str, at: int, depth: int, ends: Sequence[int]) -> tuple[Node, int]:
    if depth > _DEEPEST:
        raise JSONDecodeError("It is nested too deeply", text, at)
    line = _line(ends, at)
    match text[at]:
        case "{":
            return _object(text, at, depth, ends)
        case "[":
            return _array(text, at, depth, ends)
        case '"':
            value, end = scanstring(text, at + 1, True)
            return Node(value, line), end
    found = _SCALAR.match(text, at)
    if found is None:
        raise JSONDecodeError("Expecting value", text, at)
    return Node(None if found[1] == "null" else found[1], line), found.end()


def _object(text: str, at: int, depth: int, ends: Sequence[int]) -> tuple[Node, int]:
    line, members, at = _line(ends, at), dict[str, Node](), _skip(text, at + 1)
    while text[at] != "}":
        if text[at] != '"':
            raise JSONDecodeError("Expecting property name enclosed in double quotes", text, at)
        of_key = _line(ends, at)
        key, at = scanstring(text, at + 1, True)
        at = _skip(text, at)
        if text[at] != ":":
            raise JSONDecodeError("Expecting ':' delimiter", text, at)
        node, at = _value(text, _skip(text, at + 1), depth + 1, ends)
        members[key] = Node(node.value, of_key)
        at = _next(text, at, "}")
    return Node(members, line), at + 1


def _array(text: str, at: int, depth: int, ends: Sequence[int]) -> tuple[Node, int]:
    line, items, at = _line(ends, at), list[Node](), _skip(text, at + 1)
    while text[at] != "]":
        node, at = _value(text, at, depth + 1, ends)
        items.append(node)
        at = _next(text, at, "]")
    return Node(items, line), at + 1


def _next(text: str, at: int, closing: str) -> int:
    """Where the next member or the closing bracket begins."""
    at = _skip(text, at)
    if text[at] == closing:
        return at
    if text[at] != ",":
        raise JSONDecodeError("Expecting ',' delimiter", text, at)
    following = _skip(text, at + 1)
    if text[following] == closing:
        raise JSONDecodeError("Illegal trailing comma", text, at)
    return following


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _lines_of(text: str) -> list[int]:
    """Where the lines end. Counted once: for each member anew, a file of some MiB would take hours."""
    return [found.start() for found in _LINE_END.finditer(text)]


def _line(ends: Sequence[int], at: int) -> int:
    return bisect_left(ends, at) + 1
