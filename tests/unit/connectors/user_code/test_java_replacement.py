"""What RegexRouter makes of names, as recorded from Java."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mirror_connect.connectors.user_code import bounded_match
from mirror_connect.connectors.user_code.bounded_match import BoundedReplacement, MatchTooSlow
from mirror_connect.connectors.user_code.java_characters import JavaRegexError
from mirror_connect.connectors.user_code.java_regex import compile_java
from mirror_connect.connectors.user_code.java_replacement import replacement_parts
from mirror_connect.connectors.user_code.match_names import replaced
from tests.paths import FIXTURES

LINES = (FIXTURES / "regex-router-vectors.jsonl").read_text().splitlines()
NAMES: list[str] = json.loads(LINES[0])["names"]
VECTORS = [json.loads(line) for line in LINES[1:]]


def shown(vector: dict[str, Any]) -> str:
    return ascii(f"{vector['regex']} to {vector['replacement']}")


def refusal(vector: dict[str, Any]) -> str | None:
    """Why the two are refused here; None if they are not."""
    try:
        BoundedReplacement(vector["regex"], vector["replacement"])
    except JavaRegexError as error:
        return str(error)
    return None


# Such groups are filled otherwise in Python.
POSSESSIVE = "possessive quantifier"
# Java complains with the first name that matches, and none of these names may.
MISSING = ("No group", "Illegal group", "named capturing", "capturing group name", "character to be escaped")


@pytest.mark.parametrize("vector", [each for each in VECTORS if "routed" in each], ids=shown)
def test_a_name_becomes_what_it_becomes_in_java(vector: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    # None of them takes long, and a process for each would.
    monkeypatch.setattr(bounded_match, "WAYS_HERE", 10**7)
    problem = refusal(vector)
    if problem is not None:
        assert POSSESSIVE in problem or (not vector["routed"] and problem.startswith(MISSING))
        return
    router = BoundedReplacement(vector["regex"], vector["replacement"])
    router.judge(NAMES)
    assert {name: router.replaced(name) for name in NAMES if router.replaced(name) != name} == vector["routed"]


@pytest.mark.parametrize("vector", [each for each in VECTORS if "routed" not in each], ids=shown)
def test_what_java_refuses_is_refused_in_its_words(vector: dict[str, Any]) -> None:
    problem = refusal(vector)
    assert problem is not None
    assert problem.startswith(vector.get("refused") or vector["error"]) or POSSESSIVE in problem


def test_most_vectors_are_compared_and_not_refused() -> None:
    routed = [each for each in VECTORS if "routed" in each]
    assert sum(refusal(each) is None for each in routed) > 0.8 * len(routed)


def test_a_name_is_replaced_in_a_process_as_it_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    here = BoundedReplacement(r"(a|ab)(.*)", "<$2>$1")
    monkeypatch.setattr(bounded_match, "WAYS_HERE", 0)
    apart = BoundedReplacement(r"(a|ab)(.*)", "<$2>$1")
    apart.judge(NAMES)
    assert [apart.replaced(name) for name in [*NAMES, "abc", "é"]] == [
        here.replaced(name) for name in [*NAMES, "abc", "é"]
    ]


def test_names_judged_before_need_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_match, "WAYS_HERE", 0)
    router = BoundedReplacement("a(.*)", "$1")
    router.judge(["ab", "c"])
    monkeypatch.setattr(bounded_match, "subprocess", None)
    assert (router.replaced("ab"), router.replaced("c")) == ("b", "c")


def test_an_endless_expression_is_ended() -> None:
    with pytest.raises(MatchTooSlow, match="takes more than 1 s"):
        BoundedReplacement("(a|aa)+", "x").judge(["a" * 80 + "-"])


@pytest.mark.parametrize("ways", [0, bounded_match.WAYS_HERE])
def test_a_name_that_grows_without_end_is_refused(ways: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_match, "WAYS_HERE", ways)
    with pytest.raises(MatchTooSlow):
        BoundedReplacement(".*", "$0" * 200).replaced("a" * 200)


def test_a_possessive_group_is_refused_only_where_its_text_is_wanted() -> None:
    pattern = compile_java("(a|b)*+c")
    assert replaced(pattern, replacement_parts("x", pattern), "abc") == "x"
    assert replaced(pattern, replacement_parts("x$0", pattern), "abc") == "xabc"
    with pytest.raises(JavaRegexError, match=POSSESSIVE):
        replacement_parts("$1", pattern)
