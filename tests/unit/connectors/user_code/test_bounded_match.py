import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from mirror_connect.connectors.config.values import DOUBLE, LIST, parse
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.filters import NameFilter
from mirror_connect.connectors.secrets import secrets_of
from mirror_connect.connectors.user_code import bounded_match
from mirror_connect.connectors.user_code.bounded_match import SCRIPT, BoundedPattern, MatchTooSlow
from mirror_connect.connectors.user_code.java_regex import ways_to_match

ENDLESS = "a" * 40 + "-"


@pytest.mark.parametrize(
    "pattern", ["(a+)+", "(a|aa)+", "(.*)*x", "(a?){40}a{40}", ".*.*.*.*.*.*.*.*b", "(?:(?=(a+)+b)a)*"]
)
def test_an_expression_that_may_take_for_ever_is_not_matched_in_this_process(pattern: str) -> None:
    assert ways_to_match(pattern) > bounded_match.WAYS_HERE


@pytest.mark.parametrize(
    "pattern",
    [
        ".*",
        "orders",
        r"mm2.*\.internal|.*\.replica|__.*",
        "(?i)orders-[a-z&&[^x]]+",
        r"(a|b)\.[0-9]{1,9}",
        ".*-prod-.*",
    ],
)
def test_an_everyday_expression_is_matched_in_this_process(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_match, "subprocess", None)
    BoundedPattern(pattern).judge(["orders", "a" * 249])
    assert ways_to_match(pattern) <= bounded_match.WAYS_HERE


def test_other_threads_run_while_an_expression_takes_for_ever() -> None:
    names_done, steps = threading.Event(), 0

    def match() -> None:
        with pytest.raises(MatchTooSlow):
            BoundedPattern("(a+)+").judge([ENDLESS])
        names_done.set()

    thread = threading.Thread(target=match)
    thread.start()
    # In steps of 10 ms, of which the match with the interpreter's lock in hand would let none pass.
    while not names_done.wait(0.01):
        steps += 1
    thread.join()
    assert steps > 10


def test_an_expression_matched_in_a_process_matches_what_it_matches_here() -> None:
    pattern = BoundedPattern("(?i:(Or|ders)+)(-\\w+)*")
    names = ["orders", "orders-1", "payments", "ORDERS-a-b", "", "orders-é", "x\ny"]
    pattern.judge(names)
    assert [name for name in names if pattern.matches(name)] == ["orders", "orders-1", "ORDERS-a-b"]


def test_names_judged_before_need_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = BoundedPattern("(a|b)+")
    pattern.judge(["a", "ab", "c"])
    monkeypatch.setattr(bounded_match, "subprocess", None)
    pattern.judge(["ab", "c"])
    assert (pattern.matches("ab"), pattern.matches("c")) == (True, False)


def test_a_process_whose_worker_is_gone_ends_in_the_middle_of_a_match() -> None:
    job = f'{{"pattern": "(a|aa)+", "flags": 0, "names": ["{ENDLESS * 2}"]}}\n'
    with subprocess.Popen([sys.executable, "-I", "-S", SCRIPT], stdin=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        process.stdin.write(job)
        process.stdin.close()
        assert process.wait(120) < 0


def test_the_complaint_names_setting_entry_and_name_and_says_what_to_do() -> None:
    topics = NameFilter.compile("topics.exclude", ["orders", "(a|aa)+", "b.*"])
    with pytest.raises(ConfigError) as caught:
        topics.judge(["orders", ENDLESS])
    assert str(caught.value) == (
        f"Invalid value (a|aa)+ for configuration topics.exclude: matching the name {ENDLESS} takes more than 1 s; "
        "simplify the expression, it can split a name in too many ways, as (a|aa)+ does"
    )


def test_many_names_that_are_slow_each_have_a_limit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    # The same process with a second for all: twenty of them show nothing more.
    hasty = "from mirror_connect.connectors.user_code import match_names as m; m.ALL_S = 1; m.NAME_S = 9.0; m.main()"
    run = subprocess.run
    monkeypatch.setattr(bounded_match.subprocess, "run", lambda _, **more: run([sys.executable, "-c", hasty], **more))
    with pytest.raises(MatchTooSlow, match="matching 2 names takes more than 20 s; it came to aaaa"):
        BoundedPattern("(a|aa)+").judge(["a", ENDLESS * 2])


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda: parse("1" * 300_000 + "x", DOUBLE), id="digits"),
        pytest.param(lambda: parse("0x" + "1" * 300_000 + "x", DOUBLE), id="hexadecimal_digits"),
        pytest.param(lambda: parse("a" + " " * 300_000 + "b", LIST), id="blanks_in_a_list"),
        pytest.param(lambda: secrets_of({"sasl.jaas.config": "a" * 300_000}), id="word_in_a_login"),
    ],
)
@pytest.mark.timeout(120)
def test_long_values_are_read_in_one_pass(read: Callable[[], object]) -> None:
    # Minutes each, with the square of the length; so a limit that no machine misses.
    begun = time.process_time()
    read()
    assert time.process_time() - begun < 10
