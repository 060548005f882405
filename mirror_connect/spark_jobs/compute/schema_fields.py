"""The fields that a schema in Spark's DDL names, with their types as they are written. It is no check: that is Spark's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from mirror_connect.connectors.mirror.sql_text import Kind, outside

# Behind a name a colon may stand, as in STRUCT<id: BIGINT>.
_FIELD: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\s:<>(),`]+))\s*:?\s*(.*)", re.DOTALL)
_WORD: Final = re.compile(r"\w+")
_OPENING, _CLOSING = "<(", ">)"
_OF_OTHERS: Final = {"STRUCT", "ARRAY", "MAP"}
# What may have been meant by a wrong one.
TYPES: Final = (
    *(
        "STRING",
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INT",
        "INTEGER",
        "BIGINT",
        "LONG",
        "FLOAT",
        "DOUBLE",
        "DECIMAL(10,2)",
    ),
    *("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "BINARY", "VARIANT", "STRUCT<…>", "ARRAY<…>", "MAP<STRING, …>"),
)
_LIKENESS: Final = 0.6


@dataclass(frozen=True, slots=True)
class FieldType:
    """`text`: as it is written. `kind`: its first word, in capitals. `fields`: of STRUCT. `inner`: of ARRAY and MAP."""

    text: str
    kind: str
    fields: tuple[tuple[str, FieldType], ...] = ()
    inner: FieldType | None = None


def fields_of(ddl: str) -> tuple[tuple[str, FieldType], ...]:
    """The fields by their names, in order. A text without a name is left out."""
    found = []
    for text in _split(ddl):
        match = _FIELD.fullmatch(text)
        if match is not None:
            found.append(((match[1] or match[2]).replace("``", "`"), _type(match[3].strip())))
    return tuple(found)


def wrong_field(ddl: str, is_type: Callable[[str], bool], why: str = "which Spark does not have") -> str | None:
    """What is wrong with the first field whose type is none, as one line; None if no single field is to blame.

    `is_type`: whether Spark has a type of this text. `why`: what is wrong with those for which it is false.
    """
    return next(
        (_line(path, of_type, why) for path, of_type in _leaves(fields_of(ddl), ()) if not is_type(of_type.text)), None
    )


def _line(path: tuple[str, ...], of_type: FieldType, why: str) -> str:
    name = ".".join(path)
    if not of_type.text:
        return f"field {name} has no type: write a name and a type, as {path[-1]} STRING"
    near = get_close_matches(of_type.kind, TYPES, 1, _LIKENESS)
    advice = f"did you mean {near[0]}?" if near else f"types are {', '.join(TYPES)}"
    return f"field {name} has type {of_type.text}, {why}: {advice}"


def _leaves(
    fields: tuple[tuple[str, FieldType], ...], above: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], FieldType]]:
    """The types that hold no others, with the names that lead to them."""
    for name, of_type in fields:
        yield from _below((*above, name), of_type)


def _below(path: tuple[str, ...], of_type: FieldType) -> Iterator[tuple[tuple[str, ...], FieldType]]:
    if of_type.fields:
        yield from _leaves(of_type.fields, path)
    elif of_type.inner is not None:
        yield from _below(path, of_type.inner)
    else:
        yield path, of_type


def _type(text: str) -> FieldType:
    word = _WORD.match(text)
    if word is None:
        return FieldType(text, text.upper())
    kind, rest = word[0].upper(), text[word.end() :]
    behind = rest.lstrip()
    end = 0
    if behind[:1] in ("<", "(") and (kind in _OF_OTHERS or behind[0] == "("):
        end = _end_of(behind)
    # Behind a type NOT NULL or COMMENT may stand.
    whole = text if not end else text[: len(text) - len(behind) + end]
    inner = behind[1 : end - 1]
    if kind == "STRUCT" and end:
        return FieldType(whole, kind, fields_of(inner))
    if kind in ("ARRAY", "MAP") and end:
        parts = list(_split(inner))
        return FieldType(whole, kind, (), _type(parts[-1].strip()) if parts else None)
    return FieldType(whole if end else word[0], kind)


def _end_of(text: str) -> int:
    """Behind the bracket that closes the first one; 0 if none does."""
    return next((place + 1 for place, character, depth in _unquoted(text) if character in _CLOSING and depth == 0), 0)


def _split(text: str) -> Iterator[str]:
    """The parts between the commas that are in no brackets and no quotes."""
    begin = 0
    for place, character, depth in _unquoted(text):
        if character == "," and depth == 0:
            yield text[begin:place]
            begin = place + 1
    if text[begin:].strip() or begin:
        yield text[begin:]


def _unquoted(text: str) -> Iterator[tuple[int, str, int]]:
    """The signs outside of quotes and comments: place, character, and in how many brackets one is behind it."""
    depth = 0
    for piece in outside(text):
        if piece.kind is Kind.SIGN:
            for place, character in enumerate(piece.text, piece.begin):
                depth += (character in _OPENING) - (character in _CLOSING)
                yield place, character, depth
