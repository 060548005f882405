"""The limits of a query, and what is told of its progress."""

from __future__ import annotations

import threading

import pytest

from mirror_connect.query.watch import TOLD_EVERY_S, Limits, Watch, shown_size


class _Reads:
    bytes_read = 0


def test_a_limit_of_bytes_ends_the_query_with_a_reason() -> None:
    reads, ended = _Reads(), threading.Event()
    with Watch(reads, Limits(1 << 20, 0), lambda _: None, ended.set) as watch:
        assert watch.look()
        reads.bytes_read = (1 << 20) + 1
        assert ended.wait(60)
    assert watch.reason is not None
    assert watch.reason.startswith("stopped after 1 MiB, which is more than --max-bytes 1 MiB: read less")


def test_a_limit_of_time_and_progress() -> None:
    now = [0.0]
    told: list[str] = []
    watch = Watch(_Reads(), Limits(0, 60), told.append, lambda: None, clock=lambda: now[0])
    now[0] = TOLD_EVERY_S - 1
    assert watch.look()
    assert told == []
    now[0] = TOLD_EVERY_S
    assert watch.look()
    assert watch.look()
    assert told == ["10 s, 0 B read"]
    now[0] = 60.1
    assert not watch.look()
    assert watch.reason is not None
    assert watch.reason.startswith("stopped after 60 s, the limit of --timeout")


def test_while_spark_starts_no_bytes_are_told() -> None:
    now, told = [0.0], list[str]()
    watch = Watch(_Reads(), Limits(0, 0), told.append, lambda: None, clock=lambda: now[0])
    watch.starting = True
    now[0] = TOLD_EVERY_S
    assert watch.look()
    watch.starting = False
    now[0] = 2 * TOLD_EVERY_S
    assert watch.look()
    assert told == ["10 s, Spark is starting", "20 s, 0 B read"]


def test_no_limits() -> None:
    reads = _Reads()
    reads.bytes_read = 1 << 60
    assert Watch(reads, Limits(0, 0), lambda _: None, lambda: None).look()


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (5 << 10, "5 KiB"), (3 << 30, "3 GiB"), (3 << 40, "3.0 TiB")]
)
def test_sizes(size: int, text: str) -> None:
    assert shown_size(size) == text
