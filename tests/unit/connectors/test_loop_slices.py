"""Long work in slices: what is in them, who has a turn in between, and what others may change meanwhile."""

from __future__ import annotations

import asyncio

from mirror_connect.connectors.loop_slices import SharedSlices, drained, in_turns, slices


def test_slices_have_all_items_in_order() -> None:
    assert list(slices(range(7), 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(slices([], 3)) == []


async def test_each_slice_has_a_turn_of_its_own() -> None:
    done, turns = [], []

    async def work() -> None:
        async for part in in_turns(range(7), 3):
            done.extend(part)

    async def other() -> None:
        while len(done) < 7:
            turns.append(len(done))
            await asyncio.sleep(0)

    await asyncio.gather(work(), other())
    assert (done, turns) == ([0, 1, 2, 3, 4, 5, 6], [3, 6])


async def test_what_is_there_is_taken_in_slices_and_others_have_their_turn() -> None:
    waiting, done, turns = dict.fromkeys(range(7)), [], []

    async def other() -> None:
        while len(done) < 7:
            turns.append(len(done))
            await asyncio.sleep(0)

    await asyncio.gather(drained(waiting, done.append, 3), other())
    assert (done, turns, waiting) == ([0, 1, 2, 3, 4, 5, 6], [3, 6], {})


async def test_what_is_removed_meanwhile_is_left_out_and_what_joins_may_wait() -> None:
    waiting, done = dict.fromkeys(range(6)), []

    async def other() -> None:
        del waiting[4]
        waiting[9] = waiting[10] = waiting[1] = None

    await asyncio.gather(drained(waiting, done.append, 2), other())
    assert (done, list(waiting)) == ([0, 1, 2, 3, 5, 9], [10, 1])


async def test_work_that_makes_more_of_itself_ends() -> None:
    waiting, done = dict.fromkeys(range(3)), []

    def do(key: int) -> None:
        done.append(key)
        waiting[key + 3] = None

    await drained(waiting, do, 2)
    assert (done, list(waiting)) == ([0, 1, 2], [3, 4, 5])


async def test_works_that_share_slices_do_no_more_in_a_turn_than_one() -> None:
    shared, done, turns = SharedSlices(10), [], []

    async def work(name: str) -> None:
        async with shared.one:
            for _ in range(3):
                await shared.room(4)
                done.extend([name] * 4)

    async def other() -> None:
        while len(done) < 24:
            turns.append(len(done))
            await asyncio.sleep(0)

    await asyncio.gather(work("a"), work("b"), other())
    assert done == ["a"] * 12 + ["b"] * 12
    assert max(after - before for before, after in zip(turns, [*turns[1:], 24], strict=True)) <= 8
