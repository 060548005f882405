"""response.http.headers.config: what Kafka Connect 4.3.1 (RestServerConfig, Jetty's HeaderFilter) makes of these texts."""

from __future__ import annotations

import re

import pytest

from mirror_connect.app.config.response_headers import HeaderRule, header_rules

EXPECTED = "Expected: '[action] [header name]:[header value]'"
PAIR = "Invalid format of header name and header value pair '{}'. Expected: '[header name]:[header value]'"


def rule(name: str, value: str, *, adds: bool = True, is_date: bool = False) -> HeaderRule:
    return HeaderRule(name, value, adds, is_date)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param("  ", [], id="blanks"),
        pytest.param("add X-Demo: one", [rule("X-Demo", "one")], id="one"),
        pytest.param("set X:y,add Z:w", [rule("X", "y", adds=False), rule("Z", "w")], id="two"),
        pytest.param(
            '"add Cache-Control: no-cache, no-store", set A:b',
            [rule("Cache-Control", "no-cache, no-store"), rule("A", "b", adds=False)],
            id="a_comma_in_quotes",
        ),
        pytest.param("ADD X: y", [rule("X", "y")], id="capitals"),
        pytest.param(
            "setDate Expires: 31540000000", [rule("Expires", "31540000000", adds=False, is_date=True)], id="date"
        ),
        pytest.param("add X:y,", [rule("X", "y")], id="a_comma_at_the_end"),
        pytest.param('"add X: a\\"b"', [rule("X", 'a"b')], id="an_escaped_quote"),
        pytest.param('"add X: a" junk,add Y:b', [rule("X", "a"), rule("Y", "b")], id="text_behind_quotes"),
        pytest.param('"add X: a', [rule("X", "a")], id="no_quote_at_the_end"),
        pytest.param('add X: a"b', [rule("X", 'a"b')], id="a_quote_inside"),
        pytest.param("add  X : a b ", [rule("X", "a b")], id="blanks_around"),
        pytest.param("add\tX: y", [rule("X", "y")], id="a_tab"),
        pytest.param("add X: y:", [rule("X", "y:")], id="a_colon_at_the_end"),
    ],
)
def test_rules_are_read_as_connect_reads_them(text: str, expected: list[HeaderRule]) -> None:
    assert list(header_rules(text)) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("foo", f"Invalid format of header config 'foo'. {EXPECTED}", id="a_word"),
        pytest.param("add X", PAIR.format("X"), id="no_value"),
        pytest.param("add X: ", PAIR.format("X:"), id="an_empty_value"),
        pytest.param("add X: http://a", PAIR.format("X: http://a"), id="a_colon_in_the_value"),
        pytest.param("add X::", PAIR.format("X::"), id="colons_alone"),
        pytest.param("add :y", "Invalid header name ''. The '[header name]' cannot contain whitespace", id="no_name"),
        pytest.param(
            "add X Y: z", "Invalid header name 'X Y'. The '[header name]' cannot contain whitespace", id="blank"
        ),
        pytest.param(
            "put X: y", "Invalid header config action: 'put'. Expected one of [set, add, setDate, addDate]", id="action"
        ),
        pytest.param(",add X:y", f"Invalid format of header config ''. {EXPECTED}", id="an_empty_rule"),
        pytest.param("add X:y,,add Z:w", f"Invalid format of header config ''. {EXPECTED}", id="an_empty_rule_between"),
        pytest.param('""', f"Invalid format of header config ''. {EXPECTED}", id="empty_quotes"),
        pytest.param("add X: a\nB: c", PAIR.format("X: a\nB: c"), id="a_line_feed_and_another_header"),
    ],
)
def test_what_connect_refuses_is_refused_in_its_words(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        header_rules(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("add X: a\nb", id="a_line_feed"),
        pytest.param("add X: a\rb", id="a_carriage_return"),
        pytest.param("add X: \u2603", id="no_latin_letter"),
        pytest.param("add X\u00e9: y", id="a_name_that_is_no_token"),
        pytest.param("set Content-Length: 5", id="the_length"),
        pytest.param("set Transfer-Encoding: chunked", id="the_framing"),
        pytest.param("setDate Expires: soon", id="a_date_that_is_no_number"),
    ],
)
def test_what_would_break_every_answer_is_refused_at_once(text: str) -> None:
    with pytest.raises(ValueError, match="Invalid"):
        header_rules(text)


def test_a_date_is_counted_from_now() -> None:
    (found,) = header_rules("setDate Expires: 86400000")
    assert found.text(now=0.0) == "Fri, 02 Jan 1970 00:00:00 GMT"
