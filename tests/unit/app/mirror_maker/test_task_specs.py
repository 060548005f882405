"""Tasks begin where the group stands, and need no right but to the topics."""

from __future__ import annotations

import pytest

from mirror_connect.app.mirror_maker.positions import Positions
from mirror_connect.app.mirror_maker.task_specs import GroupTaskSpecs
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.mirror.mirror_source import OVERSIZE_RECORDS, MirrorSource
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.task_protocol import MIRROR_MAKER_1, SourceOffset, TaskId, TaskPartition, TaskSpec

TASK = TaskId("mm", 0)
FIRST, FIFTH, NEW = TopicPartition("t", 0), TopicPartition("t", 5), TopicPartition("u", 0)
CONSUMER = {"bootstrap.servers": "a:1", "group.id": "g", "session.timeout.ms": "6000", "fetch.max.bytes": "9"}


@pytest.fixture
def positions() -> Positions:
    found = Positions()
    found.assign([FIRST, FIFTH, NEW], {FIRST: 0, FIFTH: 12})
    return found


async def built(positions: Positions, partitions: str, *, skips_oversize: bool = False) -> TaskSpec:
    specs = GroupTaskSpecs("mm", CONSUMER, {"bootstrap.servers": "b:1"}, positions, skips_oversize=skips_oversize)
    specs.counts = {"t": 4}
    config = specs.config(partitions)
    return await specs.build("run", TASK, config, await specs.resolve("run", TASK, config), 3)


async def test_a_spec_has_the_same_topics_and_the_partitions_of_the_target(positions: Positions) -> None:
    spec = await built(positions, "t-0,t-5,u-0")
    # Topic u is not on the target yet.
    assert spec.assigned == (TaskPartition("t", 0, "t"), TaskPartition("t", 5, "t", remote_partition=1))
    assert (spec.assignment_version, spec.reports_offsets, spec.transactional_id) == (3, True, "")
    assert spec.program == MIRROR_MAKER_1
    assert spec.source == {"bootstrap.servers": "a:1", "fetch.max.bytes": "9"}


@pytest.mark.parametrize(("skips", "chosen"), [(True, "skip"), (False, "wait")])
async def test_records_that_are_too_large_are_skipped_only_if_that_was_chosen(
    positions: Positions, skips: bool, chosen: str
) -> None:
    spec = await built(positions, "", skips_oversize=skips)
    settings = MirrorSource().settings(spec.config)
    assert settings.text(OVERSIZE_RECORDS) == chosen
    assert not settings.boolean("emit.offset-syncs.enabled")


async def test_source_offsets_are_the_last_ones_before_the_groups(positions: Positions) -> None:
    specs = GroupTaskSpecs("mm", CONSUMER, {"bootstrap.servers": "b:1"}, positions, skips_oversize=False)
    spec = await built(positions, "t-0,t-5,u-0")
    assert await specs.source_offsets(spec, [FIRST, FIFTH, NEW]) == [
        SourceOffset("t", 0, -1),
        SourceOffset("t", 5, 11),
        SourceOffset("u", 0, None),
    ]
    specs.copied(TASK, [SourceOffset("t", 5, 20), SourceOffset("t", 0, None)])
    assert positions.to_commit() == {FIFTH: 21}


async def test_a_partition_that_another_member_has_begins_nowhere(positions: Positions) -> None:
    specs = GroupTaskSpecs("mm", CONSUMER, {"bootstrap.servers": "b:1"}, positions, skips_oversize=False)
    spec = await built(positions, "t-0")
    positions.drop()
    with pytest.raises(ClusterUnreachable, match="another member"):
        await specs.source_offsets(spec, [FIRST])
