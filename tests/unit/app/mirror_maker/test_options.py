"""The command line of MirrorMaker 1. What Kafka 3.9.1 takes was found by asking its own MirrorMakerOptions."""

from __future__ import annotations

import pytest

from mirror_connect.app.mirror_maker.options import (
    OPTIONS,
    Asked,
    Options,
    WrongOption,
    help_text,
    parse,
    topic_expression,
)

FILES = ["--consumer.config", "c", "--producer.config", "p"]
LONGEST_LINE = 120


def options(*arguments: str) -> Options:
    found = parse([*FILES, *arguments])
    assert isinstance(found, Options)
    return found


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["--include", "a.*"], id="value_after_a_blank"),
        pytest.param(["--include=a.*"], id="value_after_an_equals_sign"),
        pytest.param(["-include", "a.*"], id="one_hyphen"),
        pytest.param(["--whitelist", "a.*"], id="former_name"),
        pytest.param(["--white-list=a.*"], id="name_in_guides"),
        pytest.param(["--include", "a.*", "--whitelist", "b"], id="include_counts_before_whitelist"),
    ],
)
def test_the_topics_to_copy_are_given_in_many_ways(arguments: list[str]) -> None:
    found = options(*arguments)
    assert (found.expression, found.excludes) == ("a.*", False)


def test_a_blacklist_says_what_is_not_copied() -> None:
    found = options("--blacklist", "__consumer-offsets")
    assert (found.expression, found.excludes) == ("__consumer-offsets", True)


def test_a_value_may_look_like_an_option_as_in_the_real_tool() -> None:
    assert options("--include", "--x").expression == "--x"


def test_each_consumer_config_is_a_source() -> None:
    assert options("--consumer.config=d", "--include", "a").consumer_files == ("c", "d")


@pytest.mark.parametrize(
    ("given", "expression"),
    [
        ("a,b", "a|b"),
        ("a, b", "a|b"),
        (" a|b ", "a|b"),
        ("'a,b'", "a|b"),
        ('"a"', "a"),
        ("a,", "a|"),
        ("a\tb", "a\tb"),
        (" ", ""),
    ],
)
def test_a_list_of_topics_is_the_expression_that_kafka_makes_of_it(given: str, expression: str) -> None:
    assert topic_expression(given) == expression


@pytest.mark.parametrize(
    ("arguments", "aborts"),
    [
        pytest.param([], True, id="default"),
        pytest.param(["--abort.on.send.failure", "false"], False, id="name_of_the_real_tool"),
        pytest.param(["--abort.on.send.fail=false"], False, id="name_in_guides"),
        pytest.param(["--abortOnSendFail"], True, id="without_a_value"),
        pytest.param(["--abortOnSendFail", "--num.streams", "1"], True, id="without_a_value_before_an_option"),
        pytest.param(["--abortOnSendFail", "false"], False, id="with_a_value"),
    ],
)
def test_a_refused_record_ends_it_unless_told_otherwise(arguments: list[str], aborts: bool) -> None:
    assert options("--include", "a", *arguments).abort_on_send_failure is aborts


@pytest.mark.parametrize("name", ["num.streams", "num.producers", "queue.size", "new.consumer"])
def test_what_has_no_effect_is_accepted_and_named_in_a_line(name: str) -> None:
    value = [] if name == "new.consumer" else ["+2"]
    notices = options("--include", "a", f"--{name}", *value).notices
    assert len(notices) == 1
    assert notices[0].startswith(f"--{name} has no effect: ")


@pytest.mark.parametrize(
    "name",
    [
        "message.handler",
        "message.handler.args",
        "rebalance.listener",
        "consumer.rebalance.listener",
        "rebalance.listener.args",
    ],
)
def test_java_classes_are_refused_by_name_and_with_what_to_do(name: str) -> None:
    with pytest.raises(WrongOption, match=r"is refused: Java classes can't run here\. Copy without it"):
        options("--include", "a", f"--{name}", "com.example.X")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        pytest.param([], "consumer.config", id="nothing"),
        pytest.param(["--consumer.config", "c"], "producer.config", id="no_producer"),
        pytest.param(FILES, "--include", id="no_topics"),
        pytest.param([*FILES, *FILES, "--include", "a"], "producer.config", id="two_targets"),
        pytest.param([*FILES, "--include", "a", "--include", "b"], "include", id="two_lists"),
        pytest.param([*FILES, "--include", "a", "--blacklist", "b"], "blacklist", id="list_and_blacklist"),
        pytest.param([*FILES, "--include"], "include", id="no_value"),
        pytest.param([*FILES, "--include", "a", "stray"], "stray", id="stray_word"),
        pytest.param([*FILES, "--inc", "a"], "inc ", id="abbreviation"),
        pytest.param([*FILES, "--INCLUDE", "a"], "INCLUDE", id="upper_case"),
        pytest.param([*FILES, "--whitelst", "a"], "did you mean --whitelist?", id="misspelled"),
        pytest.param([*FILES, "--include", "a", "--num.streams", "x"], "num.streams", id="no_number"),
        pytest.param([*FILES, "--include", "a", "--num.streams", " 4"], "num.streams", id="blank_before_a_number"),
        pytest.param(
            [*FILES, "--include", "a", "--offset.commit.interval.ms", "99999999999"], "interval.ms", id="too_large"
        ),
        pytest.param([*FILES, "--include", "a", "--offset.commit.interval.ms", "0"], "interval.ms", id="no_interval"),
        pytest.param([*FILES, "--include", "a", "--abort.on.send.failure", "maybe"], "abort.on", id="no_boolean"),
    ],
)
def test_a_wrong_command_line_is_refused_in_one_line_that_names_the_option(arguments: list[str], named: str) -> None:
    with pytest.raises(WrongOption) as caught:
        parse(arguments)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("what", ["help", "version"])
def test_help_and_version_need_nothing_else(what: str) -> None:
    assert parse([f"--{what}"]) == Asked(what)


def test_the_interval_of_commits_is_mirrormakers() -> None:
    assert options("--include", "a").commit_interval_ms == 60_000
    assert options("--include", "a", "--offset.commit.interval.ms", "500").commit_interval_ms == 500


def test_help_names_every_option_and_fits_a_terminal() -> None:
    text = help_text("kafka-mirror-maker.sh")
    assert all(f"--{name}" in text for option in OPTIONS for name in option.names)
    assert max(map(len, text.splitlines())) <= LONGEST_LINE
