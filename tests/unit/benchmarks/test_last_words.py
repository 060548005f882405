"""A side that is given up is quoted: its own warnings and errors, and not two thousand of the same."""

from __future__ import annotations

import pytest

from benchmarks.last_words import LONGEST, last_words

JAVA = """\
12:00:00.100 INFO Kafka version: 4.3.1 (AppInfoParser)
12:00:01.200 WARN The configuration 'x' was supplied but isn't a known config. (AdminClientConfig)
12:00:02.000 WARN Could not create topic A.t-0. (MirrorSourceConnector)
java.util.concurrent.CompletionException: wrapped
\tat java.base/java.util.concurrent.CompletableFuture.encode(CompletableFuture.java:331)
Caused by: org.apache.kafka.common.errors.PolicyViolationException: Excessively large number of records.
\tat org.apache.kafka.clients.Something.run(Something.java:1)
12:00:02.001 WARN Could not create topic A.t-1. (MirrorSourceConnector)
java.util.concurrent.CompletionException: wrapped
Caused by: org.apache.kafka.common.errors.PolicyViolationException: Excessively large number of records.
12:00:03.000 INFO syncing took 3 ms (Scheduler)
"""


def test_entries_with_one_cause_are_one_line_with_their_number() -> None:
    assert last_words(JAVA)[-1] == (
        "12:00:02.001 WARN Could not create topic A.t-1. (MirrorSourceConnector)"
        " | org.apache.kafka.common.errors.PolicyViolationException: Excessively large number of records. | 2 of this kind"
    )


def test_what_was_said_last_comes_last() -> None:
    later = (
        JAVA + "12:00:04.000 WARN The configuration 'x' was supplied but isn't a known config. (AdminClientConfig)\n"
    )
    assert last_words(later)[-1].endswith("(AdminClientConfig) | 2 of this kind")


def test_no_more_kinds_are_quoted_than_asked_for() -> None:
    log = "".join(f"12:00:00.100 ERROR {word} (Somebody)\n" for word in ("first", "second", "third"))
    assert last_words(log, 2) == ["12:00:00.100 ERROR second (Somebody)", "12:00:00.100 ERROR third (Somebody)"]


def test_numbers_make_no_other_kind() -> None:
    log = "".join(f"12:00:00.{number} WARN attempt {number} (Somebody)\n" for number in range(100, 110))
    assert last_words(log) == ["12:00:00.109 WARN attempt 109 (Somebody) | 10 of this kind"]


def test_what_a_waiting_program_goes_on_with_does_not_hide_the_exception_it_waits_for() -> None:
    later = "".join(f"12:00:05.000 WARN {word} is not there (NetworkClient)\n" for word in ("A", "B", "C", "D"))
    words = last_words(JAVA + later)
    assert [line[:12] for line in words] == ["12:00:02.001", "12:00:05.000", "12:00:05.000"]
    assert "PolicyViolationException" in words[0]


def test_an_exception_without_a_caused_by_is_a_cause_too() -> None:
    trace = "org.apache.kafka.connect.errors.ConnectException: no way\n\tat a.b.C.d(C.java:1)\n"
    assert last_words(f"12:00:00.100 ERROR It ended (Worker)\n{trace}") == [
        "12:00:00.100 ERROR It ended (Worker) | org.apache.kafka.connect.errors.ConnectException: no way"
    ]


def test_this_product_is_quoted_in_its_own_form() -> None:
    log = "[2026-01-02 12:34:56,789] WARNING the target is away (mirror_connect.app)\n[2026-01-02 12:34:57,000] INFO x (y)\n"
    assert last_words(log) == ["[2026-01-02 12:34:56,789] WARNING the target is away (mirror_connect.app)"]


def test_who_complained_of_nothing_is_quoted_with_the_last_line() -> None:
    assert last_words("12:00:00.100 INFO first (A)\n12:00:00.200 INFO last (B)\n\n") == ["12:00:00.200 INFO last (B)"]


def test_of_a_log_without_lines_there_is_nothing_to_quote() -> None:
    assert last_words("\n") == []


@pytest.mark.parametrize("length", [LONGEST, LONGEST + 1])
def test_a_long_line_is_cut(length: int) -> None:
    line = "12:00:00.100 ERROR ".ljust(length, "x")
    assert last_words(line) == [line if length == LONGEST else line[:LONGEST] + "…"]
