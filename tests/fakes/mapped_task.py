"""A source task on clusters in memory that also records where its records came to lie: offset syncs and ranges."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import pytest

from mirror_connect.connectors.records.offset_syncs import OffsetSync
from mirror_connect.connectors.records.source_offsets import parse_source_offset_key, parse_source_offset_value
from mirror_connect.connectors.task_protocol import TaskPartition, TaskSpec
from mirror_connect.connectors.translation.offset_range_index import RangeIndex
from mirror_connect.connectors.translation.offset_ranges import Segment
from mirror_connect.spark_jobs.mapping import offset_mapping, offset_ranges_writer, offset_syncs_writer
from tests.fakes.source_task import OFFSETS, SourceTaskWorld

SYNCS, SYNCS_THERE, RANGES = "mm2-offset-syncs.B.internal", "mm2-offset-syncs.A.internal", "mm2-offset-runs.A.internal"


class MappedWorld(SourceTaskWorld):
    """A source with `orders`, a target with the topics that the connector makes there."""

    def __init__(self) -> None:
        super().__init__(offsets_partitions=5)
        for broker, topics in ((self.source, ("orders", SYNCS)), (self.target, ("A.orders", RANGES, SYNCS_THERE))):
            for topic in topics:
                broker.topic(topic)
        self.source.ids["orders"], self.target.ids["A.orders"] = b"s" * 16, b"t" * 16
        self.target.ids[RANGES] = b"r" * 16

    def patch(self, monkeypatch: pytest.MonkeyPatch, pace_s: float = 0.02) -> None:
        super().patch(monkeypatch, pace_s)
        monkeypatch.setattr(offset_syncs_writer, "PACE_S", pace_s)
        monkeypatch.setattr(offset_syncs_writer, "BACKOFF_S", pace_s)
        monkeypatch.setattr(offset_ranges_writer, "RETRY_S", pace_s)
        monkeypatch.setattr(offset_ranges_writer, "QUIET_S", 0.0)
        monkeypatch.setattr(offset_mapping.OffsetMapping.before_commit, "__defaults__", (0.3,))

    def records(self, count: int) -> None:
        self.source.put("orders", *[(b"k", b"v")] * count)

    def spec(self, **config: str) -> TaskSpec:
        given = {name.replace("__", "."): value for name, value in config.items()}
        return self.spec_of([TaskPartition("orders", 0, "A.orders")], given, commit_interval_ms=60_000)

    def copying(self, spec: TaskSpec) -> AbstractAsyncContextManager[None]:
        return self.running(spec, lambda *_: self.position)

    async def copied(self, count: int) -> None:
        """Copied and committed."""
        await self.until(lambda: self.link.counters.get("records", 0) >= count and self.position == self.end - 1)

    @property
    def end(self) -> int:
        return self.source.logs["orders", 0].end

    @property
    def position(self) -> int | None:
        found = [each for partition in range(5) for each in self.target.records(OFFSETS, partition)]
        assert all(parse_source_offset_key(key) for key, _ in found)
        return parse_source_offset_value(found[-1][1]) if found else None

    def syncs(self, *, there: bool = False) -> list[tuple[int, int]]:
        found = self.target.records(SYNCS_THERE) if there else self.source.records(SYNCS)
        return [(each.upstream, each.downstream) for each in (OffsetSync.decode(*pair) for pair in found)]

    @property
    def segments(self) -> list[Segment]:
        return [Segment.decode(*record) for record in self.target.records(RANGES)]

    @property
    def index(self) -> RangeIndex:
        made = RangeIndex()
        for record in self.segments:
            made.add(record)
        return made

    def topics_written(self) -> list[str]:
        return [batch.topic for request in self.target.producers.requests for batch in request.batches]
