"""Work that is done once for several tasks: who gets which result, and what ends it."""

from __future__ import annotations

import asyncio

import pytest

from mirror_connect.spark_jobs.mapping.shared_work import SharedWork


class Works:
    """Pieces of work that end when told; `began`: how many have."""

    def __init__(self) -> None:
        self.shared: SharedWork[int] = SharedWork()
        self.began = 0
        self.cancelled = 0
        self.go_on = asyncio.Event()
        self.error: Exception | None = None

    async def _work(self) -> int:
        self.began += 1
        mine = self.began
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        return mine

    async def ask(self) -> asyncio.Task[int]:
        task = asyncio.create_task(self.shared.result(self._work))
        for _ in range(5):
            await asyncio.sleep(0)
        return task


async def test_who_asks_while_work_is_done_gets_the_result_of_the_next() -> None:
    works = Works()
    asked = [await works.ask() for _ in range(4)]
    works.go_on.set()
    assert await asyncio.gather(*asked) == [1, 2, 2, 2]
    assert await (await works.ask()) == 3


async def test_an_error_goes_to_all_that_wait_for_that_work_and_to_nobody_else() -> None:
    works = Works()
    works.error = OSError("away")
    asked = [await works.ask() for _ in range(3)]
    works.go_on.set()
    assert [type(each) for each in await asyncio.gather(*asked, return_exceptions=True)] == [OSError] * 3
    works.error = None
    assert await (await works.ask()) == 3


@pytest.mark.parametrize("left", [0, 1, 2])
async def test_work_ends_when_nobody_waits_for_it_any_more(left: int) -> None:
    works = Works()
    first, *others = [await works.ask() for _ in range(3)]
    for each in others[left:]:
        each.cancel()
    await asyncio.wait(others[left:] or [asyncio.create_task(asyncio.sleep(0))])
    works.go_on.set()
    assert await asyncio.gather(first, *others[:left]) == [1] + [2] * left
    assert (works.began, works.cancelled) == (2 if left else 1, 0)


async def test_work_under_way_is_cancelled_and_the_next_begins() -> None:
    works = Works()
    first, second = await works.ask(), await works.ask()
    first.cancel()
    await asyncio.wait({first})
    works.go_on.set()
    assert (await second, works.cancelled) == (2, 1)


def test_another_event_loop_does_not_wait_for_the_work_of_a_closed_one() -> None:
    works = Works()

    async def ended() -> None:
        task = await works.ask()
        task.cancel()

    asyncio.run(ended())
    works.go_on = asyncio.Event()
    works.go_on.set()
    assert asyncio.run(works.shared.result(works._work)) == 2
