"""Waits of tests: which error they end with, and for how long they go on."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from itertools import count

import httpx
import pytest
from confluent_kafka import KafkaError, KafkaException

from deploy.local import LocalError, NotInTime
from tests import waiting
from tests.seeds import chance
from tests.waiting import WaitTimedOut, in_time, only_waited, state_reached, wait_for, wait_for_state


def test_the_value_that_was_waited_for_is_returned() -> None:
    numbers = count()
    assert wait_for(lambda: next(numbers) // 2, "two", 5, 0) == 1
    assert wait_for_state(lambda: next(numbers) // 4, "four", 5, 0) == 1


def test_a_wait_for_a_state_may_come_late() -> None:
    with pytest.raises(WaitTimedOut, match=r"^not within 0.05 s: the worker answers$"):
        wait_for_state(lambda: None, "the worker answers", 0.05)


def test_a_wait_for_records_may_not() -> None:
    with pytest.raises(AssertionError, match=r"^not within 0.05 s: ten records$") as raised:
        wait_for(lambda: None, "ten records", 0.05)
    assert not only_waited(raised.value)


def test_while_records_come_a_wait_goes_on() -> None:
    began, numbers = time.monotonic(), count()
    wait_for(lambda: time.monotonic() - began > 0.5, "half a second", 0.3, 0.01, lambda: next(numbers))


def test_when_no_more_come_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PROLONGED", 1_000)
    began = time.monotonic()
    with pytest.raises(AssertionError, match=r"^not within 0.1 s of the last arrival: ten records$"):
        wait_for(lambda: False, "ten records", 0.1, 0.01, lambda: 9)
    # On a machine that stands still for a while, too.
    assert time.monotonic() - began < 50


def test_it_does_not_go_on_for_ever() -> None:
    numbers = count()
    with pytest.raises(AssertionError):
        wait_for(lambda: False, "the last one", 0.05, 0.01, lambda: next(numbers))


async def test_a_clock_below_a_wait_is_no_other_reason() -> None:
    async def waits() -> None:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(1)
        except TimeoutError:
            raise WaitTimedOut("late") from None

    with pytest.raises(WaitTimedOut) as raised:
        await waits()
    assert only_waited(raised.value)


def test_a_cluster_that_is_late_is_a_wait_and_one_that_failed_is_not() -> None:
    assert (only_waited(NotInTime("late")), only_waited(LocalError("ended"))) == (True, False)


def test_a_client_of_a_test_that_waits_by_itself_says_that_something_is_late() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(httpx.ReadTimeout) as http:
        httpx.get(f"http://127.0.0.1:{silent.getsockname()[1]}/", timeout=httpx.Timeout(10, read=0.05))
    with pytest.raises(subprocess.TimeoutExpired) as command:
        subprocess.run([sys.executable, "-c", "import time; time.sleep(60)"], timeout=0.05, check=False)
    late = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    assert [only_waited(each) for each in (http.value, command.value, late)] == [True] * 3


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(TimeoutError("of a wait for records"), id="a_clock_alone"),
        pytest.param(httpx.ConnectError("refused"), id="nobody_listens"),
        pytest.param(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)), id="a_broker_refuses"),
        pytest.param(KafkaException("without a code"), id="of_another_kind"),
    ],
)
def test_what_is_there_and_wrong_is_not_late(error: Exception) -> None:
    assert not only_waited(error)


async def test_what_is_awaited_is_returned_in_time_or_named() -> None:
    assert await in_time("five", asyncio.sleep(0, 5)) == 5
    with pytest.raises(WaitTimedOut, match=r"^not within 0.05 s: the process has ended$") as raised:
        await in_time("the process has ended", asyncio.sleep(60), 0.05)
    assert only_waited(raised.value)

    async def refused() -> None:
        raise TimeoutError("of the product")

    with pytest.raises(TimeoutError, match="of the product"):
        await in_time("the process has ended", refused())


def test_chance_has_the_same_dice_for_a_name_and_others_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESTS_SEED", "7")
    once, again, other = chance("kill"), chance("kill"), chance("fence")
    assert once.random() == again.random() != other.random()
    monkeypatch.setenv("TESTS_SEED", "8")
    assert chance("kill").random() != chance("kill-").random()


async def test_within_a_loop_a_state_may_come_late_and_what_a_condition_raises_is_no_wait() -> None:
    numbers = count()
    assert await state_reached(lambda: next(numbers) // 2, "two", 5, 0) == 1
    assert await state_reached(lambda: next(numbers), "five", 5, 0, in_thread=True) == 3
    with pytest.raises(WaitTimedOut, match=r"^not within 0.05 s: the task runs$") as raised:
        await state_reached(lambda: False, "the task runs", 0.05, 0)
    assert only_waited(raised.value)

    def refused() -> bool:
        raise TimeoutError("of the product")

    with pytest.raises(TimeoutError, match="of the product"):
        await state_reached(refused, "the task runs", 5, 0)
