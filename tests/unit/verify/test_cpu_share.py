"""The CPU seconds that sampling a link may use."""

from __future__ import annotations

from mirror_connect.verify.cpu_share import CpuShare
from mirror_connect.verify.peek import ReadingPrice
from mirror_connect.verify.reading import FETCH_BYTES


def share(part: float | None, now: list[float], own: list[float], price: ReadingPrice) -> CpuShare:
    return CpuShare(part, price, clock=lambda: now[0], own=lambda: own[0])


def test_what_is_left_grows_with_what_is_copied_and_shrinks_with_what_is_used() -> None:
    now, own = [100.0], [7.0]
    price = ReadingPrice(seconds=1.0, size=10**9, read=10**9)
    account = share(0.05, now, own, price)
    assert account.left(0) == 0
    # Copying reads each byte and writes it: no less than twice what reading it costs.
    assert account.left(10**9) == 0.05 * 2
    own[0] += 0.08
    assert round(account.left(10**9), 9) == 0.02


def test_a_link_without_records_leaves_little_and_something() -> None:
    now, own = [100.0], [7.0]
    account = share(0.05, now, own, ReadingPrice())
    now[0] += 60
    assert 0 < account.left(0) <= 0.05 * 0.027 * 60


def test_without_a_share_there_is_no_limit() -> None:
    own = [0.0]
    account = share(None, [0.0], own, ReadingPrice())
    own[0] = 1000
    assert account.left(0) == float("inf")


def test_looks_that_cost_much_get_smaller_and_larger_again_when_they_are_cheap() -> None:
    price = ReadingPrice()
    sizes = []
    for seconds in (0.1, 0.02, 0.009, 0.009, 0.001, 0.001, 0.001):
        price.adapt(seconds)
        sizes.append(price.fetch_bytes * 4 // FETCH_BYTES)
    assert sizes == [2, 1, 1, 1, 2, 4, 4]


def test_a_look_never_gets_too_small_to_hold_a_batch_of_some_size() -> None:
    price = ReadingPrice()
    for _ in range(30):
        price.adapt(1.0)
    assert price.fetch_bytes == 16 << 10
