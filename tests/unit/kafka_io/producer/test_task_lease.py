"""A task writes only within its lease, and a lease is never longer than its worker gave it."""

from __future__ import annotations

import pytest

from mirror_connect.kafka_io.producer.task_lease import LeaseCheck, LeaseLostError, TaskLease


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_there_is_no_lease_before_the_worker_has_answered() -> None:
    assert not TaskLease(Clock()).valid()


def test_a_lease_counts_from_when_the_report_was_sent_and_not_from_its_answer() -> None:
    clock = Clock()
    lease = TaskLease(clock)
    clock.now += 2.0  # the answer took so long
    lease.renew(100.0, 5_000)
    clock.now = 104.9
    assert lease.valid()
    clock.now = 105.0
    assert not lease.valid()


def test_a_check_passes_with_a_lease_and_remembers_that() -> None:
    check = LeaseCheck(lambda: True)
    assert not check.passed
    check()
    assert check.passed


def test_a_check_without_a_lease_lets_nothing_be_written() -> None:
    check = LeaseCheck(lambda: False)
    with pytest.raises(LeaseLostError):
        check()
    assert not check.passed
