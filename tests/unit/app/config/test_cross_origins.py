"""Which origins access.control.allow.origin lets in."""

from __future__ import annotations

import pytest

from mirror_connect.app.config.cross_origins import CrossOrigins


def allowed(setting: str, origin: str) -> bool:
    origins = CrossOrigins.of(setting, "")
    assert origins is not None
    return origins.allows(origin)


@pytest.mark.parametrize(
    ("setting", "origin"),
    [
        pytest.param("https://ui.example.org", "https://ui.example.org", id="the_same"),
        pytest.param("https://ui.example.org", "https://UI.example.org", id="capitals"),
        pytest.param("http://a:80, https://b:81", "https://b:81", id="one_of_two"),
        pytest.param("*", "https://anything", id="any"),
        pytest.param("http://a,*", "null", id="any_of_two"),
        pytest.param(r"https://.*\.example\.org", "https://a.b.example.org", id="a_pattern"),
        pytest.param("https://(a|b)", "https://b", id="a_choice"),
        pytest.param("http://a", "http://x http://a", id="one_of_the_header"),
    ],
)
def test_an_origin_is_let_in(setting: str, origin: str) -> None:
    assert allowed(setting, origin)


@pytest.mark.parametrize(
    ("setting", "origin"),
    [
        pytest.param("https://ui.example.org", "http://ui.example.org", id="another_protocol"),
        pytest.param("https://ui.example.org", "https://ui-example.org", id="a_dot_is_a_dot"),
        pytest.param("https://ui.example.org", "https://ui.example.org.evil.net", id="more_behind"),
        pytest.param("https://ui.example.org", "https://evil.net/https://ui.example.org", id="more_before"),
        pytest.param(r"https://.*\.example\.org", "https://example.org.evil.net", id="a_pattern_that_does_not_match"),
        pytest.param("http://a", "null", id="null"),
        pytest.param("http://a", "", id="empty"),
        pytest.param(r"http://a*", "http://" + "a" * 400, id="longer_than_any_origin"),
    ],
)
def test_any_other_is_not(setting: str, origin: str) -> None:
    assert not allowed(setting, origin)


@pytest.mark.parametrize("setting", ["", "  ", " , "])
def test_without_origins_there_is_nothing_to_say(setting: str) -> None:
    assert CrossOrigins.of(setting, "GET") is None


def test_methods_are_those_of_connect_unless_given() -> None:
    assert CrossOrigins.of("*", "") == CrossOrigins(None, ("GET", "POST", "HEAD"))


def test_given_methods_replace_them() -> None:
    assert CrossOrigins.of("*", "GET, PUT") == CrossOrigins(None, ("GET", "PUT"))


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        pytest.param("https://(a", "no regular expression", id="malformed"),
        pytest.param("(a+)+(b+)+(c+)+(d+)+", "for ever", id="endless"),
    ],
)
def test_a_pattern_that_can_not_be_used_is_refused(setting: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        CrossOrigins.of(setting, "")
