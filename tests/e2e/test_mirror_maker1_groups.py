"""Several MirrorMaker 1 processes in one group, ours and Kafka 3.9's, and several sources into one target."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import pytest

from deploy.local import LocalCluster
from tests.brokers import started
from tests.e2e.mirror_makers import (
    MirrorMaker,
    consumer_properties,
    copied,
    offsets,
    produce,
    unique,
    values,
    wait_copied,
)
from tests.waiting import wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long]

PARTITIONS: Final = 6
COUNT: Final = 600


def shares(cluster: LocalCluster, group: str, topic: str) -> dict[str, int]:
    """How many partitions of the topic each member has."""
    found: dict[str, int] = {}
    for (name, _), (_, _, member) in offsets(cluster, group).items():
        if name == topic and member != "-":
            found[member] = found.get(member, 0) + 1
    return found


def wait_shares(cluster: LocalCluster, group: str, topic: str, expected: list[int]) -> dict[str, int]:
    """Waits until the members have so many partitions each."""
    found: dict[str, int] = {}

    def shared() -> bool:
        nonlocal found
        found = shares(cluster, group, topic)
        return sorted(found.values()) == expected

    wait_for_state(shared, f"members have {expected} partitions", 90, pause=1.0)
    return found


def in_order(found: list[bytes | None]) -> bool:
    """Whether numbered records are in their order, except for jumps back."""
    numbers = [int((each or b"").rpartition(b"-")[2]) for each in found]
    return all(after <= before or after == before + PARTITIONS for before, after in pairwise(numbers))


def test_two_processes_share_a_group_and_one_takes_over_from_a_killed_one(
    source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    topic, group = unique("mm1"), unique("mm")
    source_cluster.create_topic(topic, PARTITIONS)
    expected = produce(source_cluster, topic, 0, COUNT, PARTITIONS)
    options = ("--whitelist", topic, "--offset.commit.interval.ms", "500")
    files = [consumer_properties(source_cluster, group)]
    with (
        MirrorMaker(files, target_cluster, *options) as first,
        MirrorMaker(files, target_cluster, *options) as second,
    ):
        first.wait_running()
        second.wait_running()
        wait_copied(target_cluster, topic, expected, PARTITIONS)
        wait_shares(source_cluster, group, topic, [3, 3])
        expected |= produce(source_cluster, topic, COUNT, COUNT, PARTITIONS)
        wait_copied(target_cluster, topic, expected, PARTITIONS)
        once = len(values(target_cluster, topic, PARTITIONS)) == len(expected)
        assert once, "an orderly rebalance has repeated records"
        expected |= produce(source_cluster, topic, 2 * COUNT, COUNT, PARTITIONS)
        first.kill()
        expected |= produce(source_cluster, topic, 3 * COUNT, COUNT, PARTITIONS)
        wait_copied(target_cluster, topic, expected, PARTITIONS)
        wait_shares(source_cluster, group, topic, [6])
        assert second.stop() == 0
    for partition in copied(target_cluster, topic, PARTITIONS):
        assert in_order([each.value for each in partition])
    assert {each[1] for each in offsets(source_cluster, group).values()} == {0}


def test_ours_and_kafkas_share_a_group_and_continue_each_others_work_without_a_repeat(
    source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    topic, group = unique("mm1"), unique("mm")
    for cluster in (source_cluster, target_cluster):
        cluster.create_topic(topic, PARTITIONS)
    # The tool shows a member only in partitions with a committed offset.
    options = ("--whitelist", topic, "--offset.commit.interval.ms", "1000")
    files = [consumer_properties(source_cluster, group)]
    expected = produce(source_cluster, topic, 0, COUNT, PARTITIONS)

    def more() -> None:
        expected.update(produce(source_cluster, topic, len(expected), COUNT, PARTITIONS))
        wait_copied(target_cluster, topic, expected, PARTITIONS)

    ours = MirrorMaker(files, target_cluster, *options)
    with MirrorMaker(files, target_cluster, *options, java=True) as java:
        more()
        wait_shares(source_cluster, group, topic, [6])
        with ours:
            ours.wait_running()
            wait_shares(source_cluster, group, topic, [3, 3])
            more()
            java.stop()
            wait_shares(source_cluster, group, topic, [6])
            more()
            java.start()
            wait_shares(source_cluster, group, topic, [3, 3])
            more()
            assert ours.stop() == 0
        more()
        java.stop()
    assert sorted(each or b"" for each in values(target_cluster, topic, PARTITIONS)) == sorted(expected)


@pytest.mark.parametrize(
    ("names", "options"),
    [
        pytest.param(["first", "second", "third"], ["--num.streams", "2", "--whitelist=.*"], id="three"),
        pytest.param(["first"], ["--whitelist", ".*", "--num.streams", "4"], id="one"),
    ],
)
def test_sources_are_copied_into_topics_with_fewer_partitions(
    target_cluster: LocalCluster, names: list[str], options: list[str]
) -> None:
    topic = unique("mm1")
    target_cluster.create_topic(topic, 4)
    with started(*map(LocalCluster, names)) as sources:
        expected: set[bytes] = set()
        for cluster in sources:
            cluster.create_topic(topic, PARTITIONS)
            expected |= produce(cluster, topic, 0, COUNT, PARTITIONS)
        files = [consumer_properties(cluster, "mm") for cluster in sources]
        with MirrorMaker(files, target_cluster, *options) as maker:
            # Two tasks for each source: of six partitions two go where others go too.
            maker.wait_running(2 * len(names))
            wait_copied(target_cluster, topic, expected, 4)
            assert maker.stop() == 0
            log = maker.log_text()
        assert f"Topic {topic} has 6 partitions on the source and 4 partitions on the target" in log
        assert {each[1] for cluster in sources for each in offsets(cluster, "mm").values()} == {0}
    found = copied(target_cluster, topic, 4)
    assert sum(map(len, found)) == len(expected)
    for number, partition in enumerate(found):
        for cluster in sources:
            for source_partition in range(number, PARTITIONS, 4):
                name = cluster.name.encode() + b"-"
                of_one = [each.value for each in partition if (each.value or b"").startswith(name)]
                numbers = [int((each or b"").rpartition(b"-")[2]) for each in of_one]
                of_partition = [each for each in numbers if each % PARTITIONS == source_partition]
                assert of_partition == list(range(source_partition, COUNT, PARTITIONS))
