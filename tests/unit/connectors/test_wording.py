import pytest

from mirror_connect.connectors.wording import counted, likely_name, unknown_names_line


@pytest.mark.parametrize(("count", "told"), [(0, "0 records"), (1, "1 record"), (2, "2 records")])
def test_a_number_has_its_noun(count: int, told: str) -> None:
    assert counted(count, "record") == told


def test_without_unknown_names_there_is_no_line() -> None:
    assert unknown_names_line([], {"topics"}, "properties") is None


def test_an_unknown_name_is_shown_with_the_known_one_that_it_resembles() -> None:
    line = unknown_names_line(["topcis", "zzz"], {"topics", "groups"}, "properties")
    assert line == "These properties are unknown and have no effect: topcis (did you mean topics?), zzz"


def test_a_name_of_an_earlier_release_is_shown_with_what_replaced_it() -> None:
    line = unknown_names_line(
        ["groups.blacklist", "rest.port", "topics.blacklist"], {"topics.exclude", "listeners"}, "x"
    )
    assert line is not None
    shown = "groups.blacklist, rest.port (listeners replaced it), topics.blacklist (topics.exclude replaced it)"
    assert line.endswith(f": {shown}")


def test_of_many_unknown_names_only_the_first_are_guessed() -> None:
    names = [f"topics{number:02}" for number in range(12)]
    line = unknown_names_line(names, {"topics"}, "properties")
    assert line is not None
    assert (line.count("did you mean"), line.endswith("topics10, topics11")) == (10, True)


@pytest.mark.parametrize(("name", "guess"), [("topisc", "topics"), ("Us", "us"), ("ab", None)])
def test_a_name_in_other_case_is_near_however_short(name: str, guess: str | None) -> None:
    assert likely_name(name, ["topics", "us"]) == guess
