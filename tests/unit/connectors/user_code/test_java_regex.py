import json
from typing import Any

import pytest

from mirror_connect.connectors.user_code.java_characters import JavaRegexError
from mirror_connect.connectors.user_code.java_regex import compile_java
from tests.paths import FIXTURES

LINES = (FIXTURES / "java-regex-vectors.jsonl").read_text().splitlines()
CANDIDATES: list[str] = json.loads(LINES[0])["candidates"]
VECTORS = [json.loads(line) for line in LINES[1:]]

# Java compiles these, we refuse them: better no start than other topics.
NOT_TRANSLATED = {
    r"\p{IsGreek}+",
    r"\p{InGreek}+",
    r"\p{sc=Latin}+",
    r"a{2}{1}",
    r"a(?<=[a-z]{1,3})b",
    r"\N{LATIN SMALL LETTER A}",
    r"\G",
    r"\X",
}
# Java folds case of a property beyond ASCII even without (?u).
FOLDED_LESS = {r"(?i)\p{Lu}+"}
SAME = [vector for vector in VECTORS if vector["pattern"] not in NOT_TRANSLATED | FOLDED_LESS]


@pytest.mark.parametrize("vector", [v for v in SAME if "error" not in v], ids=lambda v: ascii(v["pattern"]))
def test_a_pattern_matches_what_it_matches_in_java(vector: dict[str, Any]) -> None:
    pattern = compile_java(vector["pattern"])
    assert [name for name in CANDIDATES if pattern.fullmatch(name)] == vector["matches"]


@pytest.mark.parametrize("vector", [v for v in SAME if "error" in v], ids=lambda v: ascii(v["pattern"]))
def test_what_java_refuses_is_refused_in_its_words(vector: dict[str, Any]) -> None:
    with pytest.raises(JavaRegexError) as caught:
        compile_java(vector["pattern"])
    assert str(caught.value).startswith(vector["error"])


@pytest.mark.parametrize("pattern", sorted(NOT_TRANSLATED))
def test_what_cannot_be_translated_is_refused(pattern: str) -> None:
    with pytest.raises(JavaRegexError):
        compile_java(pattern)


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        (r"(?:ab|c)*+x", "abcabx", True),
        (r"(?:(?!tmp).)*+", "order-tmp", False),
        (r"([^-]|-(?!-))++--end", "a-b--end", True),
        (r"(?i)[a-z&&[^x]]{2}+-(?:a|ab)?+c", "AB-ac", True),
        (r"(?i)[a-z&&[^x]]{2}+-(?:a|ab)?+c", "AB-abc", False),
        (r"((a)|b)*+\1c", "abbc", False),
    ],
)
def test_what_is_possessive_takes_all_that_it_can_and_gives_nothing_back(
    pattern: str, name: str, matches: bool
) -> None:
    assert (compile_java(pattern).fullmatch(name) is not None) is matches
