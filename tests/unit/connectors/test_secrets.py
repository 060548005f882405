from __future__ import annotations

import json
import logging
import traceback
from urllib.parse import quote, quote_plus, urlencode

import pytest

from mirror_connect.connectors.secrets import (
    GRACE_S,
    HIDDEN,
    MOST_LEARNED,
    MOST_OF_ONE,
    RedactingFilter,
    is_secret,
    redact,
    secrets_of,
)


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


@pytest.mark.parametrize(
    ("secret", "line"),
    [
        pytest.param("partition", "Task a-0 is RUNNING with 4 partitions", id="word"),
        pytest.param("connect", "the connector is in mirrorconnect", id="word_before_or_behind"),
        pytest.param("ERROR", "ERRORS", id="capitals"),
        pytest.param("123456", "orders-0 stops at offset 91234567", id="number"),
        pytest.param("a", "all that is alike", id="letter"),
    ],
)
def test_a_word_or_number_is_not_hidden_in_longer_ones(secret: str, line: str) -> None:
    assert redact(line, [secret]) == line


SECRETS = (
    *("pw", "hunter", "Hunter", "HUNTER", "123456", "partitions"),  # these are hidden only where they stand alone
    *(
        "hunter22",
        "aB3dE",
        "aB3dE5gH7",
        "hunter-two",
        "pass_word",
        "-----BEGIN KEY-----",
        "a b",
        "$ecret$",
        "=padded==",
    ),
    *("%41bc", '"quoted"', "x" * 30, "1" * 30, "tr0ub4dor&3", "пароль", "ends with space "),
)


def _told(secret: str) -> dict[str, str]:
    """Texts as programs make them of a secret, by what made them; those that hold it as it is."""
    sasl = f"\0user\0{secret}"
    texts = {
        "assignment": f"password={secret}",
        "assignment in a sentence": f"password={secret}, user=connect",
        "quoted": f"the password '{secret}' is wrong",
        "login module": f'PlainLoginModule required username="u" password="{secret}";',
        "login module, unquoted": f"PlainLoginModule required username=u password={secret};",
        "url": f"https://user:{secret}@broker:8083/",
        "query": f"https://broker/?user=u&password={secret}&more=1",
        "query, encoded twice": quote(f"user=u&password={secret}", safe=""),
        "form": urlencode({"user": "u", "password": secret}),
        "form as a value": quote_plus(f"a=1\n{secret}\nb=2"),
        "json": json.dumps({"password": secret}),
        "json in json": json.dumps(json.dumps({"password": secret, "b": 1})),
        "json of lines": json.dumps(f"first\n{secret}\nlast"),
        "json of controls": json.dumps(f"{chr(0)}{secret}{chr(31)}{secret}"),
        "python": repr({"password": secret}),
        "python's bytes": repr(sasl.encode()),
        "length in front": repr(bytes([len(secret.encode())]) + secret.encode()),
        "java's hash map": f"{{user=u, password={secret}}}",
        "path": f"/{secret}/",
        "email": f"{secret}@acme.com",
        "underscores": f"_{secret}_",
        "colours": f"\x1b[31m{secret}\x1b[0m and \x1b[1m{secret}\x1b[0m",
        "brackets": f"[{secret}]({secret})<{secret}>",
        "twice": f"{secret} {secret},{secret}",
        "tab": f"a\t{secret}\tb",
        "sentence": f"{secret}. {secret}: {secret}; {secret}! {secret}?",
        "octal": f"\\000{secret}\\000",
        "wide escape": f"\\U0001F600{secret}",
    }
    return {made_by: text for made_by, text in texts.items() if secret in text}


@pytest.mark.parametrize("secret", SECRETS)
def test_no_secret_is_left_in_what_programs_make_of_it(secret: str) -> None:
    told = _told(secret)
    assert {made_by: text for made_by, text in told.items() if secret in redact(text, [secret])} == {}


ESCAPED = {
    "python": repr,
    "python's bytes": lambda secret: repr(secret.encode()),
    "json": json.dumps,
    "json as utf-8": lambda secret: json.dumps(secret, ensure_ascii=False),
    "url": lambda secret: quote(secret, safe=""),
}


@pytest.mark.parametrize(
    "secret", ['pa"ss\\w0rd', "it's", "p@ss w/ord1", "-----BEGIN KEY-----\nabc\n-----END", "tab\tpw", "ünï9"]
)
@pytest.mark.parametrize("made_by", ESCAPED)
def test_a_secret_is_hidden_as_programs_quote_it_too(secret: str, made_by: str) -> None:
    body = ESCAPED[made_by](secret).removeprefix("b").strip("\"'")
    assert body not in redact(f"ValueError: {ESCAPED[made_by](secret)} is wrong", [secret])


def test_a_key_of_several_lines_is_hidden_in_the_trace_of_a_group() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----\n"
    net = RedactingFilter()
    net.learn(secrets_of({"ssl.keystore.key": key}))
    trace = "".join(traceback.format_exception(ExceptionGroup("two", [ValueError(key), OSError(1, key)])))
    cleaned = net.clean(trace)
    assert ("MIIEvQIBADANBgkq" in trace, "MIIEvQ" in cleaned, "hkiG9w" in cleaned) == (True, False, False)


@pytest.mark.parametrize("secret", [" ", "-", ".", ":", "--", ", "])
def test_a_blank_or_mark_as_a_secret_leaves_lines_readable(secret: str) -> None:
    line = "2026-11-21: task orders-0, of a.b.c, is RUNNING--so it is"
    assert redact(line, secrets_of({"a.password": secret})) == line


def test_a_secret_that_needs_no_escape_is_hidden_in_every_form() -> None:
    assert len(_told("hunter")) == len(_told("123456")) == len(_told("pw")) > len(_told('"quoted"'))


def test_a_secret_that_begins_or_ends_as_no_word_is_hidden_beside_letters() -> None:
    assert redact("a$x$b", ["$x$"]) == "a[hidden]b"


def test_a_secret_within_another_leaves_nothing_of_it() -> None:
    assert redact("password=hunter, token=hunter-hunter-9", ["hunter", "hunter-hunter-9"]) == (
        "password=[hidden], token=[hidden]"
    )


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


class Clock:
    """Seconds, moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_however_many_lines_a_secret_has_the_log_looks_for_few_of_them() -> None:
    net = RedactingFilter()
    lines = [f"line {number:020}" for number in range(5_000)]
    net.learn(["\n".join([f"-----BEGIN PRIVATE KEY-----{number}", *lines]) for number in range(100)])
    assert (net.clean(lines[0]), net.clean(lines[-1])) == (HIDDEN, lines[-1])
    assert len(net._longest_first) <= 2 * MOST_LEARNED


def test_a_secret_is_forgotten_a_while_after_its_last_use_and_not_before() -> None:
    clock = Clock()
    net = RedactingFilter(clock)
    net.keep(["workers-own"])
    net.learn(["in-use-1", "gone-1"])
    shown = []
    for _ in range(3):
        clock.now += GRACE_S * 0.6
        net.forget_all_but({"in-use-1"})
        shown.append(net.clean("workers-own in-use-1 gone-1"))
    assert shown == ["[hidden] [hidden] [hidden]", *(2 * ["[hidden] [hidden] gone-1"])]


def test_a_secret_that_was_in_use_until_now_is_hidden_for_a_while_still() -> None:
    clock = Clock()
    net = RedactingFilter(clock)
    net.learn(["hunter22"])
    clock.now += 10 * GRACE_S
    net.forget_all_but({"hunter22"})
    clock.now += GRACE_S * 0.9
    net.forget_all_but(())
    assert net.clean("hunter22") == "[hidden]"


def test_a_secret_that_is_heard_of_again_is_hidden_again() -> None:
    clock = Clock()
    net = RedactingFilter(clock)
    net.learn(["hunter22"])
    clock.now += 2 * GRACE_S
    net.forget_all_but(())
    net.learn(["hunter22"])
    net.forget_all_but(())
    assert net.clean("hunter22") == "[hidden]"


def test_a_secret_in_use_outlives_however_many_others() -> None:
    net = RedactingFilter()
    net.learn(["in-use-1"])
    for start in range(0, 2 * MOST_LEARNED, 500):
        net.learn(f"secret-{number:09}" for number in range(start, start + 500))
        net.forget_all_but({"in-use-1"})
    assert net.clean("in-use-1") == "[hidden]"


def test_made_up_secrets_of_one_connector_take_no_place_of_anothers() -> None:
    net = RedactingFilter()
    net.learn(["real-one-1"], "real")
    for start in range(0, 3 * MOST_LEARNED, 1_000):
        net.learn((f"made-up-{number:09}" for number in range(start, start + 1_000)), "made-up")
    assert net.clean("real-one-1") == HIDDEN
    assert len(net._longest_first) <= MOST_OF_ONE + 10


def test_what_is_in_use_makes_room_for_nobody() -> None:
    net = RedactingFilter()
    net.learn(["real-one-1"], "real")
    net.forget_all_but({"real-one-1"})
    for start in range(3 * MOST_LEARNED):
        net._learned[f"made-up-{start:09}"] = (0.0, f"connector-{start}")
    net.learn(["one-more-1"], "real")
    net.learn((f"made-up-{number:09}" for number in range(2 * MOST_OF_ONE)), "real")
    assert net.clean("real-one-1") == HIDDEN
    assert len(net._longest_first) <= MOST_LEARNED + 10
