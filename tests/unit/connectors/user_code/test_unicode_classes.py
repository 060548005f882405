r"""Character properties of Java's regular expressions as character classes of Python."""

from __future__ import annotations

import re

import pytest

from mirror_connect.connectors.user_code.unicode_classes import property_class


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        pytest.param("Lower", "az", "Aäé0", id="posix_names_are_ascii"),
        pytest.param("Punct", "!-[]^_`{~/@", "a0 §", id="punctuation"),
        pytest.param("Space", " \t\n\x0b\f\r", "\xa0x", id="posix_space"),
        pytest.param("L1", "\x00ÿ", "Ā", id="latin_1"),
        pytest.param("javaLowerCase", "aäß", "AÄ1", id="of_java_s_character"),
        pytest.param("javaLetterOrDigit", "aÄ٣", "-_ ", id="letters_and_digits"),
        pytest.param("javaWhitespace", " \t\u2003", "\xa0\u2007\u202f\x85", id="no_space_that_does_not_break"),
        pytest.param("L", "aÄǅ中", "1-", id="a_category"),
        pytest.param("Lu", "AÄ", "aǅ1", id="a_small_category"),
        pytest.param("LC", "aAǅ", "中1", id="letters_with_case"),
        pytest.param("LD", "a中5", "½-", id="letters_and_decimal_digits"),
        pytest.param("IsAlphabetic", "aÄ中", "1-", id="a_binary_property"),
        pytest.param("Ispunctuation", "!¡«", "a+", id="its_case_does_not_matter"),
        pytest.param("IsLu", "AÄ", "a", id="a_category_behind_is"),
        pytest.param("gc=Nd", "5٣", "½a", id="a_named_category"),
        pytest.param("General_Category=Sc", "$€", "+5", id="its_long_name"),
    ],
)
def test_a_property_holds_what_it_holds_in_java(name: str, inside: str, outside: str) -> None:
    items = property_class(name)
    assert items is not None
    matches = re.compile(f"[{items}]").fullmatch
    assert [char for char in inside if not matches(char)] == []
    assert [char for char in outside if matches(char)] == []


def test_the_last_character_of_unicode_belongs_to_its_category() -> None:
    items = property_class("Cn")
    assert items is not None
    assert re.fullmatch(f"[{items}]", "\U0010ffff")


@pytest.mark.parametrize(
    "name", ["", "lower", "Q", "Lx", "IsGreek", "InGreek", "sc=Grek", "blk=Greek", "gc=Greek", "javaMirrored"]
)
def test_a_property_that_is_not_known_is_none(name: str) -> None:
    assert property_class(name) is None
