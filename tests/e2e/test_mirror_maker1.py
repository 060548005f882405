"""MirrorMaker 1 by its start script: topics of the same names, positions in a consumer group on the source."""

from __future__ import annotations

from typing import Final

import pytest
from confluent_kafka import Producer

from deploy.local import LocalCluster
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
from tests.waiting import wait_for, wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

CLUSTER_REFUSES: Final = 4
PARTITIONS: Final = 3
EACH: Final = 50


def test_topics_are_copied_under_their_names_and_the_lag_tool_shows_the_group(
    source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    topic, group = unique("mm1"), unique("mm")
    source_cluster.create_topic(topic, PARTITIONS)
    expected = produce(source_cluster, topic, 0, EACH * PARTITIONS)
    options = (f"--whitelist=nothing,{topic}.*", "--num.streams", "2", "--offset.commit.interval.ms", "1000")
    with MirrorMaker([consumer_properties(source_cluster, group)], target_cluster, *options) as maker:
        maker.wait_running()
        wait_copied(target_cluster, topic, expected)
        later = f"{topic}.later"
        source_cluster.create_topic(later, 1)
        wait_copied(target_cluster, later, produce(source_cluster, later, 0, 5, partitions=1), partitions=1)
        wait_for_state(
            lambda: {each[:2] for each in offsets(source_cluster, group).values()} == {(EACH, 0), (5, 0)},
            "the group has no lag",
        )
        member = {each[2] for each in offsets(source_cluster, group).values()}
        assert len(member) == 1
        assert member.pop().startswith(f"{group}-0-")
        log = maker.log_text()
        assert log.count("--num.streams has no effect") == 1
        # The last records are committed at the end, not after the next interval.
        produce(source_cluster, topic, EACH * PARTITIONS, PARTITIONS)
        wait_for(lambda: len(values(target_cluster, topic)) == (EACH + 1) * PARTITIONS, "the last ones are copied")
        assert maker.stop() == 0
    found = copied(target_cluster, topic)
    assert found == copied(source_cluster, topic)
    shown = offsets(source_cluster, group)
    assert {shown[topic, partition] for partition in range(PARTITIONS)} == {(EACH + 1, 0, "-")}


@pytest.mark.long
def test_a_record_that_the_target_refuses_ends_it_with_the_record_named(
    source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    topic, group = unique("mm1"), unique("mm")
    source_cluster.create_topic(topic, 1)
    target_cluster.create_topic(topic, 1, {"max.message.bytes": "2000"})
    before = produce(source_cluster, topic, 0, 5, partitions=1)
    producer = Producer(source_cluster.librdkafka())
    producer.produce(topic, b"x" * 5000, partition=0)
    assert producer.flush(30) == 0
    with MirrorMaker([consumer_properties(source_cluster, group)], target_cluster, "--include", topic) as maker:
        assert maker.wait_ended() == CLUSTER_REFUSES
        last = maker.log_text().strip().splitlines()[-1]
    assert last.startswith(f"mirror-connect: {topic}-0 is stalled at offset 5")
    assert set(values(target_cluster, topic, 1)) == before
    assert offsets(source_cluster, group)[topic, 0][:2] == (5, 1)
    options = ("--include", topic, "--abort.on.send.fail", "false")
    with MirrorMaker([consumer_properties(source_cluster, group)], target_cluster, *options) as maker:
        maker.wait_running()
        wait_copied(target_cluster, topic, produce(source_cluster, topic, 6, 1, partitions=1), 1)
        assert maker.stop() == 0
    assert offsets(source_cluster, group)[topic, 0][:2] == (7, 0)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        pytest.param(
            ["--message.handler", "a.B", "--include", "a"],
            "--message.handler is refused",
            id="handler",
            marks=pytest.mark.long,
        ),
        pytest.param(["--include", "*"], "* is an invalid regex", id="regex", marks=pytest.mark.long),
        pytest.param([], "include list must be specified", id="no_topics"),
    ],
)
def test_a_wrong_command_line_ends_it_with_one_line(
    target_cluster: LocalCluster, options: list[str], named: str
) -> None:
    with MirrorMaker([consumer_properties(target_cluster, "mm")], target_cluster, *options) as maker:
        assert maker.wait_ended() == 2
        lines = maker.log_text().splitlines()
    assert [line for line in lines if line.startswith(f"mirror-connect: {named}")] == lines[-1:]
    assert "Traceback" not in maker.log_text()
