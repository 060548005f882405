"""Times, offsets and partitions that a query reads."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from mirror_connect.query.bounds import Bounds, Comparison, bounds_of, duration, milliseconds, moment
from mirror_connect.query.errors import QueryError

NOW = 1_790_000_000_000
AT = datetime.fromtimestamp(NOW / 1000, UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", 90_000),
        ("15min", 900_000),
        ("15m", 900_000),
        ("1h", 3_600_000),
        ("1.5 H", 5_400_000),
        ("2d", 172_800_000),
    ],
)
def test_lengths_of_time(text: str, expected: int) -> None:
    assert duration(text, "last") == expected


@pytest.mark.parametrize("text", ["", "1", "h", "1y", "-1h", "0s", "1h30"])
def test_what_is_no_length_of_time_is_named(text: str) -> None:
    with pytest.raises(QueryError, match=f"^last {text} is no length"):
        duration(text, "last")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (str(NOW), NOW),
        (AT.isoformat(), NOW),
        (AT.strftime("%Y-%m-%dT%H:%M:%SZ"), NOW),
        (AT.replace(tzinfo=None).isoformat(), NOW),
        ("1970-01-01", 0),
    ],
)
def test_moments(text: str, expected: int) -> None:
    assert moment(text, "from") == expected


def test_what_is_no_moment_is_named() -> None:
    with pytest.raises(QueryError, match=r"^until yesterday is no time"):
        moment("yesterday", "until")


def test_milliseconds_are_rounded_down_also_before_the_epoch() -> None:
    assert milliseconds(datetime(1969, 12, 31, 23, 59, 59, 999_500, UTC)) == -1
    assert milliseconds(datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))) == 0


def test_options() -> None:
    assert bounds_of({"last": "1h"}, NOW) == Bounds(from_ms=NOW - 3_600_000)
    options = {"from": "1000", "until": "2000", "from.offset": "5", "until.offset": "9"}
    assert bounds_of(options, NOW) == Bounds(1000, 2000, 5, 9)
    assert bounds_of({}, NOW) == Bounds()
    with pytest.raises(QueryError, match="last or from, not both"):
        bounds_of({"last": "1h", "from": "1000"}, NOW)
    with pytest.raises(QueryError, match=r"^from\.offset -5 is no offset"):
        bounds_of({"from.offset": "-5"}, NOW)


@pytest.mark.parametrize(
    ("operator", "value", "expected"),
    [
        pytest.param(">", AT, Bounds(from_ms=NOW), id="later_in_the_same_millisecond_is_later"),
        pytest.param(">=", AT + timedelta(microseconds=500), Bounds(from_ms=NOW), id="rounded_down"),
        pytest.param("<", AT, Bounds(until_ms=NOW + 1), id="never_too_little"),
        pytest.param("=", AT, Bounds(from_ms=NOW, until_ms=NOW + 1), id="equal"),
        pytest.param("in", [AT], Bounds(), id="not_used"),
        pytest.param(">", "text", Bounds(), id="another_type"),
    ],
)
def test_filters_by_time(operator: str, value: object, expected: Bounds) -> None:
    assert Bounds().narrowed([Comparison("timestamp", operator, value)]) == expected


@pytest.mark.parametrize(
    ("operator", "value", "expected"),
    [
        (">", 5, Bounds(first=6)),
        (">=", 5, Bounds(first=5)),
        ("<", 5, Bounds(end=5)),
        ("<=", 5, Bounds(end=6)),
        ("=", 5, Bounds(first=5, end=6)),
        ("in", (9, 3, None), Bounds(first=3, end=10)),
        ("in", (9, "3"), Bounds()),
        ("=", None, Bounds()),
    ],
)
def test_filters_by_offset(operator: str, value: object, expected: Bounds) -> None:
    assert Bounds().narrowed([Comparison("offset", operator, value)]) == expected


def test_filters_only_ever_narrow() -> None:
    given = Bounds(from_ms=NOW, first=10, end=20, partitions=frozenset({1, 2}))
    found = given.narrowed(
        [
            Comparison("offset", ">=", 3),
            Comparison("offset", "<", 15),
            Comparison("offset", "<", 99),
            Comparison("partition", "in", [2, 3]),
            Comparison("partition", "<", 1),
            Comparison("timestamp", ">=", AT - timedelta(hours=1)),
            Comparison("value", "=", b"x"),
        ]
    )
    assert found == Bounds(from_ms=NOW, first=10, end=15, partitions=frozenset({2}))
    assert found.takes(2)
    assert not found.takes(1)
    assert Bounds().takes(1)
