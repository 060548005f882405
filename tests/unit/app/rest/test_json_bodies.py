"""JSON as Connect takes it."""

from __future__ import annotations

import pytest

from mirror_connect.app.errors import BadRequest
from mirror_connect.app.rest.json_bodies import config_from, parse_json


@pytest.mark.parametrize(
    ("written", "text"),
    [
        pytest.param("1.50", "1.50", id="trailing_zero"),
        pytest.param("1e3", "1e3", id="exponent"),
        pytest.param("-0", "-0", id="minus_zero"),
        pytest.param("12345678901234567890123", "12345678901234567890123", id="longer_than_any_integer"),
        pytest.param("true", "true", id="true"),
        pytest.param("false", "false", id="false"),
        pytest.param('"Gr\u00fc\u00dfe \u2603"', "Gr\u00fc\u00dfe \u2603", id="text"),
        pytest.param('""', "", id="empty_text"),
        pytest.param("null", None, id="null"),
    ],
)
def test_a_value_is_taken_as_the_text_it_was_written_with(written: str, text: str | None) -> None:
    assert config_from(parse_json(f'{{"a":{written}}}'.encode())) == {"a": text}


def test_a_number_beyond_pythons_limits_is_its_text_also_beside_an_escape() -> None:
    digits = "9" * 5_000
    assert config_from(parse_json(f'{{"a":"\\u0041","b":{digits},"c":1e999}}'.encode())) == {
        "a": "A",
        "b": digits,
        "c": "1e999",
    }


def test_the_last_of_two_equal_keys_counts() -> None:
    assert config_from(parse_json(b'{"a":"1","b":"2","a":"3"}')) == {"a": "3", "b": "2"}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"  ", id="blanks"),
        pytest.param(b'{"a":', id="broken_off"),
        pytest.param(b"{'a':1}", id="single_quotes"),
        pytest.param(b'{"a":1}}', id="something_behind"),
        pytest.param(b'{"a":NaN}', id="no_number"),
        pytest.param(b'{"a":[{"b":-Infinity}]}', id="infinity_inside"),
        pytest.param(b'{"a":"\\u0041","b":NaN}', id="no_number_beside_an_escape"),
        pytest.param(b'{"a":01}', id="leading_zero"),
        pytest.param(b'{"a":"\xff"}', id="no_utf8"),
        pytest.param(b'{"a":"\\ud800"}', id="half_a_surrogate"),
        pytest.param(b'{"a":"\n"}', id="line_feed_in_a_text"),
        pytest.param(b"[" * 200_000, id="nested_deeply"),
    ],
)
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest):
        parse_json(body)


def test_the_refusal_tells_the_place_and_quotes_nothing() -> None:
    with pytest.raises(BadRequest, match=r"line 2, column \d+$") as caught:
        parse_json(b'{"password":"hunter2",\nx}')
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("body", [b"null", b"[]", b'"x"', b"1", b'{"a":{}}', b'{"a":[1]}'])
def test_what_is_no_map_of_texts_is_no_config(body: bytes) -> None:
    with pytest.raises(BadRequest):
        config_from(parse_json(body))
