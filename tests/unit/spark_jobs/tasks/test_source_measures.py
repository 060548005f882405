"""What a whole source task tells of its partition, between clusters in memory."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.task_measures import PartitionMeasures
from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.kafka_io.consumer import log_ends
from mirror_connect.spark_jobs.tasks import mirror_source, source_parts
from tests.fakes.source_task import SourceTaskWorld

CONFIG = {"emit.offset-syncs.enabled": "false"}
COPIED = TaskPartition("orders", 0, "A.orders")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> SourceTaskWorld:
    world = SourceTaskWorld()
    world.source.topic("orders")
    world.target.topic("A.orders")
    world.patch(monkeypatch)
    monkeypatch.setattr(mirror_source, "MEASURE_S", 0.01)
    monkeypatch.setattr(log_ends, "LOOK_EVERY_S", 0.01)
    return world


def told(world: SourceTaskWorld) -> PartitionMeasures | None:
    return next((row for report in reversed(world.link.measures) for row in report.partitions), None)


def lag(world: SourceTaskWorld) -> int | None:
    row = told(world)
    return None if row is None else row.lag


async def test_records_are_counted_up_to_the_last_report(world: SourceTaskWorld) -> None:
    world.source.put("orders", *((b"k", b"%d" % number) for number in range(20)))
    async with world.running(world.spec_of([COPIED], CONFIG)):
        await world.until(lambda: lag(world) == 0)
        world.source.put("orders", (b"k", b"more"))
        await world.until(lambda: len(world.target.records("A.orders")) == 21)
        await world.finish()
        measured = world.link.measures
    row = told(world)
    assert row is not None
    assert (row.records, row.source_offset, row.lag, row.oldest_ms) == (21, 20, 0, None)
    last = measured[-1]
    assert sum(last.latency_counts) == sum(sum(r.latency_counts[1::2]) for m in measured for r in m.partitions) == 21
    assert last.commits > 0
    assert last.committed_ms is not None
    assert world.link.log_lines == []


async def test_while_the_target_is_away_the_lag_grows(world: SourceTaskWorld) -> None:
    async with world.running(world.spec_of([COPIED], CONFIG)):
        await world.until(lambda: lag(world) == 0)
        world.target.away = True
        world.source.put("orders", (b"k", b"v"))
        await world.until(lambda: lag(world) == 1)
        for _ in range(40):
            world.source.put("orders", (b"k", bytes(100_000)))
        await world.until(lambda: lag(world) == 41)
        world.target.away = False
        await world.until(lambda: lag(world) == 0)


async def test_while_the_source_is_away_the_lag_is_unknown_and_never_0(
    world: SourceTaskWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_ends, "UNKNOWN_AFTER_S", 0.5)
    async with world.running(world.spec_of([COPIED], CONFIG)):
        await world.until(lambda: lag(world) == 0)
        world.source.away = True
        await world.until(lambda: lag(world) is None)
        unknown = len(world.link.measures)
        await world.until(lambda: len(world.link.measures) > unknown + 50)
        assert {row.lag for report in world.link.measures[unknown:] for row in report.partitions} <= {None}
        world.source.away = False
        await world.until(lambda: lag(world) == 0)


async def test_a_fault_in_measuring_stops_no_copy(world: SourceTaskWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(source_parts.CopyMeasures, "make_some", fail)
    world.source.put("orders", (b"k", b"v"))
    async with world.running(world.spec_of([COPIED], CONFIG)):
        await world.until(lambda: len(world.target.records("A.orders")) == 1 and bool(world.link.log_lines))
        await world.finish()
    assert world.link.log_lines == ["Its metrics are missing or old: KeyError: 'x'. Report this fault"]
