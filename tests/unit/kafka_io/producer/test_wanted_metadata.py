"""Which topics' metadata a producer reads, and when, in simulated time."""

from __future__ import annotations

import asyncio

from mirror_connect.kafka_io.producer.wanted_metadata import WantedMetadata
from tests.fakes.simulated_time import run_simulated

MAX_AGE = 300.0


async def reads(wanted: WantedMetadata, until: float, leaderless: set[str]) -> list[tuple[float, list[str] | None]]:
    """When what is read up to a time, with topics that never have a leader."""
    clock = asyncio.get_running_loop().time
    came: list[tuple[float, list[str] | None]] = []
    while True:
        try:
            async with asyncio.timeout_at(until):
                due = await wanted.due()
        except TimeoutError:
            return came
        came.append((round(clock(), 3), None if due is None else sorted(due)))
        topics = leaderless if due is None else due
        for topic in leaderless & set(topics):
            wanted.want(topic)
        wanted.was_read(topics, leaderless)


def test_all_topics_are_read_each_metadata_max_age_and_nothing_in_between() -> None:
    async def run() -> None:
        assert await reads(WantedMetadata(0.1, 1.0, MAX_AGE), 700.0, set()) == [(300.0, None), (600.0, None)]

    run_simulated(run())


def test_a_topic_that_never_has_a_leader_is_read_alone_and_less_and_less_often() -> None:
    async def run() -> None:
        wanted = WantedMetadata(0.1, 1.0, MAX_AGE)
        wanted.want("a")
        came = await reads(wanted, 4.0, {"a"})
        assert came == [(at, ["a"]) for at in (0.0, 0.1, 0.3, 0.7, 1.5, 2.5, 3.5)]

    run_simulated(run())


def test_another_topic_is_read_at_once_while_one_waits() -> None:
    async def run() -> None:
        wanted = WantedMetadata(0.1, 1.0, MAX_AGE)
        wanted.want("a")
        await reads(wanted, 1.6, {"a"})
        asyncio.get_running_loop().call_at(2.0, wanted.want, "b")
        assert await reads(wanted, 2.6, {"a"}) == [(2.0, ["b"]), (2.5, ["a"])]

    run_simulated(run())


def test_a_topic_whose_leader_was_found_begins_with_the_first_pause_again() -> None:
    async def run() -> None:
        wanted = WantedMetadata(0.1, 1.0, MAX_AGE)
        wanted.want("a")
        await reads(wanted, 2.0, {"a"})
        assert await reads(wanted, 3.0, set()) == [(2.5, ["a"])]
        wanted.want("a")
        assert await reads(wanted, 3.25, {"a"}) == [(3.0, ["a"]), (3.1, ["a"])]

    run_simulated(run())


def test_when_a_broker_is_away_all_topics_are_read_now_and_the_next_time_after_the_whole_age() -> None:
    async def run() -> None:
        wanted = WantedMetadata(0.1, 1.0, MAX_AGE)
        wanted.want("a")
        asyncio.get_running_loop().call_at(10.0, wanted.want_all)
        assert await reads(wanted, 320.0, set()) == [(0.0, ["a"]), (10.0, None), (310.0, None)]

    run_simulated(run())


def test_topics_that_will_be_written_to_are_no_reason_to_read_and_go_along_once() -> None:
    async def run() -> None:
        wanted = WantedMetadata(0.1, 1.0, MAX_AGE)
        wanted.want_along(["later", "and"])
        wanted.want_along(["later"])
        assert await reads(wanted, 100.0, set()) == []
        assert (wanted.along(), wanted.along()) == ({"later", "and"}, set())

    run_simulated(run())
