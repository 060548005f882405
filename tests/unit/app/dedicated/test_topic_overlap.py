from __future__ import annotations

from itertools import combinations_with_replacement, product

import pytest

from mirror_connect.app.dedicated.topic_overlap import may_overlap
from mirror_connect.connectors.user_code.java_regex import compile_java

# Entries with a comma would be two.
PIECES = ["a", "b", "a*", "b?", "ab+", "[ab]", "(a|b)", "a{0}", r"\.", "a|b", "(?i)A", "^a", "b$"]
# None is a plain name: these are told by the names that they accept.
ENTRIES = [
    "".join(pieces) for count in (1, 2) for pieces in product(PIECES, repeat=count) if not "".join(pieces).isalpha()
]
NAMES = ["".join(letters) for length in (1, 2, 3) for letters in product("ab.", repeat=length)]


def test_entries_that_accept_the_same_name_overlap() -> None:
    accepted = {entry: {name for name in NAMES if compile_java(entry).fullmatch(name)} for entry in ENTRIES}
    pairs = [each for each in combinations_with_replacement(ENTRIES, 2) if accepted[each[0]] & accepted[each[1]]]
    assert len(pairs) > 1000
    assert [pair for pair in pairs if not may_overlap([{"topics": entry} for entry in pair])] == []


@pytest.mark.parametrize(
    ("first", "second", "overlap"),
    [
        pytest.param({"topics": "a"}, {}, True, id="all_topics_by_default"),
        pytest.param({"topics": "__x"}, {}, False, id="excluded_by_default"),
        pytest.param({"topics": "a"}, {"topics": ".*", "topics.exclude": "a|b"}, False, id="excluded"),
        pytest.param({"topics": "a.b"}, {"topics": "acb"}, True, id="a_name_that_matches_the_other_ones_dot"),
        pytest.param({"topics": ""}, {}, False, id="no_topics"),
        pytest.param(
            {"topics": "a", "topic.filter.class": "python:mine:Filter"},
            {"topics": "b"},
            True,
            id="a_filter_of_the_users",
        ),
    ],
)
def test_what_is_excluded_or_decided_by_a_class_counts(
    first: dict[str, str], second: dict[str, str], overlap: bool
) -> None:
    assert may_overlap([first, second]) is overlap
    assert may_overlap([second, first]) is overlap
