import re

import pytest

from mirror_connect.connectors.user_code.java_characters import CharacterReader, JavaRegexError


def matched_by(java_class: str, of: str) -> str:
    expression = re.compile(CharacterReader(java_class).char_class_text(), re.ASCII)
    return "".join(character for character in of if expression.fullmatch(character))


@pytest.mark.parametrize(
    ("java_class", "of", "matched"),
    [
        pytest.param("[a-c]", "abcd-", "abc", id="range"),
        pytest.param("[^a-c]", "abcd-", "d-", id="negated"),
        pytest.param("[a-cx[yz]]", "abcdxyz", "abcxyz", id="union"),
        pytest.param("[a-z&&[^aeiou]]", "abcde1", "bcd", id="intersection"),
        pytest.param("[^a-z&&[^aeiou]]", "abcde1", "ae1", id="negated_intersection"),
        pytest.param(r"[\Qa-c\E]", "abc-", "ac-", id="quoted"),
        pytest.param(r"[\d.]", "1.x", "1.", id="escape_for_many"),
        pytest.param(r"[a-\x63]", "abcd", "abc", id="range_to_an_escape"),
        pytest.param("[]a]", "]ab", "]a", id="bracket_first"),
        pytest.param("[a-]", "a-b", "a-", id="hyphen_last"),
    ],
)
def test_a_class_matches_the_characters_that_it_matches_in_java(java_class: str, of: str, matched: str) -> None:
    assert matched_by(java_class, of) == matched


@pytest.mark.parametrize(
    ("java_class", "problem"),
    [
        pytest.param("[a", "Unclosed character class near index 2", id="never_closed"),
        pytest.param("[a\\", "Unclosed character class near index 3", id="ends_in_a_backslash"),
        pytest.param("[c-a]", "Illegal character range near index 4", id="range_downward"),
        pytest.param(r"[\i]", "Illegal/unsupported escape sequence near index 3", id="unknown_escape"),
        pytest.param(
            r"[\p{Nothing}]", "Unknown character property name {Nothing} near index 12", id="unknown_property"
        ),
        pytest.param(r"[\x{110000}]", "Hexadecimal codepoint is too big near index 11", id="beyond_unicode"),
    ],
)
def test_what_java_refuses_is_refused_with_its_place(java_class: str, problem: str) -> None:
    with pytest.raises(JavaRegexError, match=f"^{re.escape(problem)}$"):
        CharacterReader(java_class).char_class_text()


def test_quoted_text_ends_at_its_end_mark_or_with_the_pattern() -> None:
    reader, unclosed = CharacterReader(r"Qa.b\Ec"), CharacterReader("Qa.b")
    assert (reader.quoted(), reader.at, unclosed.quoted(), unclosed.at) == ("a.b", 6, "a.b", 4)
