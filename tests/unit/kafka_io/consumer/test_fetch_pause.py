"""Small fetches pause for longer while this process waits for a processor."""

from __future__ import annotations

import asyncio

from mirror_connect.kafka_io.consumer.fetch_pause import BETWEEN_SMALL_S, LONGEST_S, FetchPause
from tests.fakes.simulated_time import SimulatedLoop, run_simulated

EVERY_S = 0.06


async def answers(pause: FetchPause, number: int, *, held_up_s: float = 0.0) -> None:
    """Small answers come; something else has the processor for so long behind each of them."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulatedLoop)
    for _ in range(number):
        pause.answered()
        loop.now += held_up_s
        await asyncio.sleep(EVERY_S)


def test_while_processors_are_free_it_is_the_shortest() -> None:
    pause = FetchPause()
    run_simulated(answers(pause, 50))
    assert pause.seconds == BETWEEN_SMALL_S


def test_it_grows_up_to_a_limit_while_timers_are_late_and_shrinks_again() -> None:
    pause = FetchPause()

    async def busy_and_free() -> None:
        await answers(pause, 30, held_up_s=0.02)
        assert pause.seconds == LONGEST_S
        await answers(pause, 40)
        assert BETWEEN_SMALL_S < pause.seconds < LONGEST_S
        await answers(pause, 60)
        assert pause.seconds == BETWEEN_SMALL_S

    run_simulated(busy_and_free())


def test_one_timer_that_is_late_by_a_second_does_not_make_the_pause_the_longest() -> None:
    pause = FetchPause()
    run_simulated(answers(pause, 1, held_up_s=1.0))
    assert BETWEEN_SMALL_S < pause.seconds < LONGEST_S


def test_a_longer_pause_of_its_own_stays() -> None:
    pause = FetchPause(0.02)
    run_simulated(answers(pause, 20, held_up_s=0.02))
    assert pause.seconds == 0.02
