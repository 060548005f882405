"""Spark's own lexer finds the same quotes and comments in a text as the scanner that bounds it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import pytest
from hypothesis import given, settings

from mirror_connect.connectors.mirror.sql_text import Kind, pieces
from tests.fakes.sql_texts import sql_texts

pytestmark = pytest.mark.spark

# One letter for each character of a text.
OWN: Final = {Kind.SPACE: " ", Kind.COMMENT: "c", Kind.QUOTED: "q", Kind.WORD: "o", Kind.SIGN: "o"}
SPARKS: Final = {
    "WS": " ",
    "SIMPLE_COMMENT": "c",
    "BRACKETED_COMMENT": "c",
    "STRING_LITERAL": "q",
    "DOUBLEQUOTED_STRING": "q",
    "BACKQUOTED_IDENTIFIER": "q",
    "BEGIN_DOLLAR_QUOTED_STRING": "q",
    "DOLLAR_QUOTED_STRING_BODY": "q",
    "END_DOLLAR_QUOTED_STRING": "q",
}
TEXTS: Final = (
    *("/* /* ( */ ( */ (", "/* /* */ (", "/*/*/ (", "/* /*+ */ (", "/*+ a */ (", "1*/*(*/2", "--(\\\n(\n(", "/*"),
    *("r'\\' (", 'R"\\" (', "br'\\'' (", "1E+3r'\\' (", "1.5E+3r'\\' (", "2.r'\\' (", "'a''b\\'(' (", "'\\'( '"),
    *("`a``( (", "`a``(` (", "a'(", "$t$ ( $T$ $t$ (", "$$ ( $t$ $$ (", "$1$ ( $1$", "$t$ ( $", "$ſı$ ( $ſı$ ("),
    *(
        "s3://b--c(",
        "abc://b--c('('",
        "éa://é--(",
        "caſe'('",
        "²r'\\' (",
        "\u0345r'\\' (",
        "٣r'\\' (",
        "😀'('",
        "ǅ://--(",
    ),
)


def _of_spark(session: Any, text: str) -> str:
    """By tokens, which follow each other without a gap."""
    jvm = session._jvm
    parser = jvm.org.apache.spark.sql.catalyst.parser
    lexer = parser.SqlBaseLexer(parser.UpperCaseCharStream(jvm.org.antlr.v4.runtime.CharStreams.fromString(text)))
    lexer.removeErrorListeners()
    kinds = {getattr(parser.SqlBaseLexer, name): letter for name, letter in SPARKS.items()}
    tokens = [(kinds.get(each.getType(), "o"), each.getStartIndex()) for each in lexer.getAllTokens()]
    return "".join(kind * (end - begin) for (kind, begin), (_, end) in pairwise([*tokens, ("", len(text))]))


def _of_scanner(text: str) -> str:
    return "".join(OWN[piece.kind] * len(piece.text) for piece in pieces(text))


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_a_quote_or_comment_ends_where_sparks_does(session: Any, text: str) -> None:
    assert _of_scanner(text) == _of_spark(session, text)


@settings(max_examples=1000)
@given(sql_texts)
def test_any_text_is_divided_as_by_spark(session: Any, text: str) -> None:
    assert _of_scanner(text) == _of_spark(session, text)
