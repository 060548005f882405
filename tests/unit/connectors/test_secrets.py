from __future__ import annotations

import logging

import pytest

from mirror_connect.connectors.secrets import MOST_LEARNED, RedactingFilter, is_secret, redact, secrets_of


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("source.cluster.sasl.jaas.config", True),
        ("ssl.key.password", True),
        ("producer.override.ssl.keystore.key", True),
        ("sasl.oauthbearer.client.credentials.client.secret", True),
        ("clientSecret", True),
        ("sasl.mechanism", False),
        ("key.converter", False),
        ("username", False),
    ],
)
def test_secret_settings_are_known_by_their_names(name: str, secret: bool) -> None:
    assert is_secret(name) is secret


def test_a_logins_password_is_secret_and_its_user_is_not() -> None:
    jaas = r"""X required username="connect" password='it"s' clientSecret="a\"b" user_admin=pw1;"""
    assert secrets_of({"sasl.jaas.config": jaas}) == {'it"s', r"a\"b", 'a"b', "pw1"}


def test_a_short_secret_is_hidden_only_where_it_stands_alone() -> None:
    assert redact("abc abcd x=abc;", ["abc"]) == "[hidden] abcd x=[hidden];"


def test_a_long_secret_is_hidden_inside_words() -> None:
    assert redact("x-hunter22hunter22y", ["hunter22"]) == "x-[hidden][hidden]y"


def test_a_log_line_and_its_trace_hold_no_known_secret() -> None:
    net = RedactingFilter()
    net.learn(["hunter22"])
    try:
        raise ValueError("password is hunter22")
    except ValueError as error:
        record = logging.LogRecord(
            "n", logging.INFO, "f", 1, "got %s", ("hunter22",), (ValueError, error, error.__traceback__)
        )
    net.filter(record)
    assert "hunter22" not in logging.Formatter().format(record)


def test_those_heard_of_longest_ago_go_when_there_are_too_many_but_never_the_workers_own() -> None:
    net = RedactingFilter()
    net.keep(["workers-own"])
    net.learn(["first-of-all", "in-use"])
    for start in range(0, 3 * MOST_LEARNED, 1_000):
        net.learn(f"secret-{number:09}" for number in range(start, start + 1_000))
        net.learn(["in-use"])
    assert net.clean(f"workers-own in-use first-of-all secret-{3 * MOST_LEARNED - 1:09}") == (
        "[hidden] [hidden] first-of-all [hidden]"
    )
