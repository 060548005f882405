"""Lookups that tasks wait for, that change while they copy, and that can't be read any more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest

from mirror_connect.app.lookups.loaded_lookup import BadLookupError, LoadedLookup
from mirror_connect.app.supervisor import lookup_keeper
from mirror_connect.app.supervisor.lookup_keeper import RETRY_S, LookupKeeper, LookupMissingError
from mirror_connect.app.supervisor.task_run import TaskRun
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.mirror.lookups import Lookup
from mirror_connect.connectors.task_protocol import TaskId

REGIONS = Lookup("regions", "id STRING, n INT", "/etc/regions.csv")
CUSTOMERS = Lookup("customers", "id STRING, n INT", "source.customers")
CONFIG = {"name": "c", "source.cluster.bootstrap.servers": "a:1", "source.cluster.sasl.jaas.config": "geheim"}
INTERVAL_S = 60.0


class World:
    """A keeper whose lookups are what `content` says: rows, or an error."""

    def __init__(self) -> None:
        self.now = 100.0
        self.content: Any = [("DE", 1)]
        self.reads: list[tuple[str, Mapping[str, str]]] = []
        self.keeper = LookupKeeper(lambda: self.now, self._read)
        self.runs = [TaskRun(TaskId("c", number), {}, frozenset(), since=0.0) for number in range(2)]

    def _read(self, lookup: Lookup, client: Mapping[str, str], _: str, known: object) -> LoadedLookup | None:
        self.reads.append((lookup.name, client))
        if isinstance(self.content, Exception):
            raise self.content
        stamp = repr(self.content)
        table = pa.table({"id": [each[0] for each in self.content], "n": [each[1] for each in self.content]})
        return None if stamp == known else LoadedLookup(table, stamp)

    async def rows(self, run: TaskRun, lookup: Lookup = REGIONS, *keys: str) -> list[tuple[str, int]]:
        content = await self.keeper.rows(run, lookup, CONFIG, keys or ("id",), INTERVAL_S)
        with pa.ipc.open_stream(content) as stream:
            return [(each["id"], each["n"]) for each in stream.read_all().to_pylist()]

    async def look(self, seconds: float = 0.0) -> None:
        """The watch, after a while; and what it begins has ended."""
        self.now += seconds
        self.keeper.look(self.runs)
        for _ in range(1000):
            if all(kept.looking is None for kept in self.keeper._kept.values()):
                break
            await asyncio.sleep(0.005)
        self.keeper.look(self.runs)


def in_world(test: Callable[[World], Any]) -> Callable[[], Any]:
    async def run() -> None:
        world = World()
        try:
            await test(world)
        finally:
            world.keeper.close()

    run.__name__ = test.__name__
    return run


@in_world
async def test_tasks_of_a_connector_share_what_is_read_once(world: World) -> None:
    assert await asyncio.gather(*map(world.rows, world.runs)) == [[("DE", 1)]] * 2
    assert await world.rows(world.runs[0], REGIONS, "n") == [("DE", 1)]
    assert world.reads == [("regions", {})]
    assert await world.rows(world.runs[0], CUSTOMERS) == [("DE", 1)]
    name, client = world.reads[-1]
    assert (name, client["bootstrap.servers"]) == ("customers", "a:1")


@in_world
async def test_a_task_waits_for_a_lookup_that_can_not_be_read_and_it_is_tried_again(world: World) -> None:
    world.content = ClusterUnreachable("no broker answers")
    for _ in range(3):
        with pytest.raises(LookupMissingError, match=r"Lookup regions .*no broker answers"):
            await world.rows(world.runs[0])
    # Not for each request.
    assert len(world.reads) == 1
    world.content = [("FR", 2)]
    await world.look(RETRY_S)
    assert await world.rows(world.runs[0]) == [("FR", 2)]
    assert not any(world.runs[0].stale.values())


@in_world
async def test_rows_with_one_key_are_refused_in_a_file_and_the_last_one_counts_in_a_topic(world: World) -> None:
    world.content = [("DE", 1), ("DE", 2)]
    for _ in range(3):
        with pytest.raises(LookupMissingError, match="2 rows have the same id, the first is row 1"):
            await world.rows(world.runs[0])
    assert await world.rows(world.runs[0], REGIONS, "id", "n") == [("DE", 1), ("DE", 2)]
    assert await world.rows(world.runs[0], CUSTOMERS) == [("DE", 2)]
    world.content = [("DE", 1)]
    await world.look(RETRY_S)
    assert await world.rows(world.runs[0]) == [("DE", 1)]


@in_world
async def test_a_changed_lookup_ends_the_epochs_that_have_another_one(world: World) -> None:
    first, second = world.runs
    for run in world.runs:
        await world.rows(run)
        run.begin_attempt("1", 0.0)
    await world.look(INTERVAL_S)
    assert len(world.reads) == 2
    assert not any(run.is_to_end_its_epoch for run in world.runs)
    world.content = [("DE", 3)]
    await world.look(INTERVAL_S - 1)
    assert not any(run.is_to_end_its_epoch for run in world.runs)
    await world.look(1)
    assert all(run.is_to_end_its_epoch for run in world.runs)
    # The next epoch of one has it.
    first.end_attempt(0.0)
    assert await world.rows(first) == [("DE", 3)]
    first.begin_attempt("2", 0.0)
    await world.look(1)
    assert not first.is_to_end_its_epoch
    assert second.is_to_end_its_epoch


@in_world
async def test_rows_grow_older_until_they_are_found_to_be_the_present_ones(world: World) -> None:
    world.content = BadLookupError("it can't be read: No such file")
    with pytest.raises(LookupMissingError):
        await world.rows(world.runs[0])
    # There are no rows.
    assert world.keeper.ages("c") == {}
    world.content = [("DE", 1)]
    await world.look(RETRY_S)
    world.now += 7
    assert world.keeper.ages("c") == {"regions": 7}
    assert world.keeper.ages("other") == {}
    await world.look(INTERVAL_S)
    assert world.keeper.ages("c") == {"regions": 0}
    world.content = BadLookupError("it can't be read: No such file")
    for looks in (1, 2):
        await world.look(INTERVAL_S)
        assert world.keeper.ages("c") == {"regions": looks * INTERVAL_S}
    # Nothing has changed, and they are the present ones again.
    world.content = [("DE", 1)]
    await world.look(RETRY_S)
    assert world.keeper.ages("c") == {"regions": 0}


@in_world
async def test_the_log_names_connector_and_lookup_once_for_each_reason(world: World) -> None:
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger(lookup_keeper.__name__)
    logger.addHandler(handler)
    try:
        await world.rows(world.runs[0])
        world.content = BadLookupError("it can't be read: No such file")
        for _ in range(3):
            await world.look(INTERVAL_S)
        world.content = RuntimeError("a bug with geheim")
        await world.look(INTERVAL_S)
    finally:
        logger.removeHandler(handler)
    place = "spark.transform.lookup.regions=/etc/regions.csv"
    assert lines[0] == f"Connector c: Lookup regions ({place}): it can't be read: No such file"
    assert lines[1].startswith("Connector c: lookup regions could not be read: RuntimeError\n  File ")
    assert lines[2:] == [f"Connector c: Lookup regions ({place}): RuntimeError while it was read; see the log"]
    # An error's text may show a row.
    assert "geheim" not in lines[1]


@in_world
async def test_tasks_go_on_with_what_was_read_while_the_next_can_not_be(world: World) -> None:
    [first, second] = world.runs
    for run in world.runs:
        await world.rows(run)
        run.begin_attempt("1", 0.0)
    for content, reason in (
        (BadLookupError("it can't be read: No such file"), "No such file"),
        ([("DE", 1), ("DE", 2)], "2 rows have the same id"),
        (RuntimeError("a bug with geheim"), "RuntimeError"),
    ):
        world.content = content
        await world.look(INTERVAL_S)
        problem = first.stale["regions"]
        assert problem is not None
        line = problem.line
        assert reason in line
        assert "geheim" not in line
        assert "DE" not in line
        assert not first.is_to_end_its_epoch
        assert await world.rows(second) == [("DE", 1)]
    world.content = [("DE", 1)]
    await world.look(RETRY_S)
    assert not any(first.stale.values())
    assert not first.is_to_end_its_epoch


@in_world
async def test_what_no_run_uses_is_forgotten(world: World) -> None:
    await world.rows(world.runs[0])
    world.runs = world.runs[1:]
    await world.look()
    await world.look(INTERVAL_S)
    assert (len(world.reads), world.keeper._kept) == (1, {})
