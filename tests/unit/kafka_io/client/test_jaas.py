"""Java's login modules, as Kafka's JaasConfig reads them."""

from __future__ import annotations

import pytest

from mirror_connect.kafka_io.client.jaas import JaasError, parse_login, parse_sections


# Each of these was given to Kafka's own JaasConfig (4.3.1), with this outcome.
@pytest.mark.parametrize(
    ("text", "options"),
    [
        pytest.param(
            r"""m.X required username="a\"b" password='q';""", {"username": 'a"b', "password": "q"}, id="quotes"
        ),
        pytest.param("m.X required username=a password=b;", {"username": "a", "password": "b"}, id="bare_words"),
        pytest.param('m.X Required /* c */ a="x" // d\n ;', {"a": "x"}, id="comments_and_a_capital_flag"),
        pytest.param("m.X required a =  b ;", {"a": "b"}, id="blanks"),
        pytest.param('m.X required a="é";', {"a": "é"}, id="letters_beyond_ascii"),
        pytest.param("m.X required a=b-c.d$e;", {"a": "b-c.d$e"}, id="marks_in_a_bare_word"),
        pytest.param(r'm.X required a="\101\tz\\";', {"a": "A\tz\\"}, id="escapes"),
        pytest.param("m.X required;", {}, id="no_option"),
    ],
)
def test_a_login_is_read_as_kafka_reads_it(text: str, options: dict[str, str]) -> None:
    module = parse_login(text)
    assert (module.class_name, module.flag, module.options) == ("m.X", "required", options)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("", "no login module", id="empty"),
        pytest.param('m.X required a="x" b="hunter22"', "';' is missing", id="no_semicolon"),
        pytest.param("m.XLoginModule a=hunter22;", "'required' is missing after m.XLoginModule", id="no_flag"),
        pytest.param("hunter22", "'required' after the class of the login module is missing", id="a_bare_password"),
        pytest.param("m.X required a hunter22;", "'=' is missing", id="no_value"),
        pytest.param("m.X required a=b hunter22;", "'=' is missing after the option a", id="a_blank_in_a_bare_word"),
        pytest.param('m.X required a="hunter22;', "quotation mark isn't closed", id="open_quotation"),
        pytest.param("m.X required; m.Y required;", "only one login module", id="two_modules"),
        pytest.param("m.X required a=;", "value of the option a is missing", id="empty_value"),
    ],
)
def test_a_malformed_login_is_explained_without_its_values(text: str, reason: str) -> None:
    with pytest.raises(JaasError, match=reason) as caught:
        parse_login(text)
    assert "hunter22" not in str(caught.value)


def test_a_login_shows_no_values() -> None:
    assert "hunter22" not in repr(parse_login("m.X required a=hunter22;"))


def test_sections_of_a_file_are_separate() -> None:
    sections = parse_sections('# one\nA {\n m.X required a="1";\n m.Y optional;\n};\nB { m.Z required; };')
    assert {name: [module.class_name for module in modules] for name, modules in sections.items()} == {
        "A": ["m.X", "m.Y"],
        "B": ["m.Z"],
    }


def test_a_section_that_does_not_end_is_named() -> None:
    with pytest.raises(JaasError, match="'}' is missing at the end of section A"):
        parse_sections("A { m.X required;")
