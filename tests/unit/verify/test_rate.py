import pytest

from mirror_connect.verify.rate import Rate


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_without_a_limit_nothing_waits() -> None:
    rate = Rate(None)
    assert (rate.limited, rate.debt(1 << 40)) == (False, 0.0)


def test_each_read_waits_for_those_before_it() -> None:
    rate = Rate(1000, Clock())
    # At the beginning nothing is saved up.
    assert [rate.debt(1000) for _ in range(4)] == pytest.approx([0.0, 1.0, 2.0, 3.0])


def test_no_more_than_a_second_is_saved_up() -> None:
    clock = Clock()
    rate = Rate(1000, clock)
    clock.now += 3600
    assert [rate.debt(1000) for _ in range(3)] == pytest.approx([0.0, 0.0, 1.0])
