from collections.abc import Sequence

import pytest

from mirror_connect.connectors.partitions import CommittedOffset, TopicPartition
from mirror_connect.connectors.records.binary import UnreadableRecord
from mirror_connect.connectors.records.checkpoints import Checkpoint
from mirror_connect.connectors.records.offset_syncs import OffsetSync
from mirror_connect.connectors.replication_policy import replication_policy
from mirror_connect.connectors.translation.offset_ranges import NO_ID, RangeRecorder, Segment
from mirror_connect.connectors.translation.offset_translation import OffsetTranslator, offsets_to_commit

ORDERS = TopicPartition("orders", 0)
A_ORDERS, A_OTHER = TopicPartition("A.orders", 0), TopicPartition("A.other", 0)
CHECKPOINT = Checkpoint("g", "A.orders", 0, upstream=70, downstream=60, metadata="a note")
OLD, NEW = bytes([1] * 16), bytes([2] * 16)


def translator(
    *syncs: tuple[int, int],
    ranges: Sequence[tuple[int, int, int]] = (),
    policy: str = "Default",
    ready: bool = True,
    must_read_to_end: bool = False,
) -> OffsetTranslator:
    """`ranges`: (upstream, count, downstream), all of topic `orders` while its ids were OLD."""
    name = f"org.apache.kafka.connect.mirror.{policy}ReplicationPolicy"
    config = {"replication.policy.class": name, "source.cluster.alias": "A"}
    made = OffsetTranslator(
        replication_policy(config), ("A", "B"), lambda topic: topic != "secret", must_read_to_end=must_read_to_end
    )
    for sync in syncs:
        record = OffsetSync("orders", 0, *sync)
        made.add_sync(record.key(), record.value())
    recorder = RangeRecorder("orders", 0, OLD, OLD)
    recorder.resume(None, reading_from=0)
    for upstream, count, downstream in ranges:
        recorder.acked(upstream, count, downstream)
    for key, value in recorder.changed():
        made.add_ranges(key, value)
    if ready:
        made.syncs_read_to_end()
    return made


def downstream(
    made: OffsetTranslator,
    upstream: int,
    topic: str = "orders",
    source: bytes | None = OLD,
    target: bytes | None = OLD,
) -> list[int]:
    found = made.checkpoints(
        "g", {TopicPartition(topic, 0): CommittedOffset(upstream)}, lambda _: source, lambda _: target
    )
    return [each.downstream for each in found]


@pytest.mark.kafka_test("MirrorCheckpointTaskTest.testCheckpoint")
def test_a_checkpoint_holds_what_was_committed_and_where_that_is() -> None:
    found = translator((100, 200)).checkpoints(
        "g", {ORDERS: CommittedOffset(150, "note")}, lambda _: None, lambda _: None
    )
    assert found == [Checkpoint("g", "A.orders", 0, 150, 201, "note")]


def test_ranges_say_the_very_record_and_syncs_where_there_are_none() -> None:
    made = translator((0, 100), ranges=[(0, 50, 100)])
    assert [downstream(made, upstream) for upstream in (0, 20, 50)] == [[100], [120], [150]]
    assert downstream(translator((0, 100)), 20) == [101]


@pytest.mark.parametrize("source", [NEW, OLD], ids=["both_made_anew", "target_made_anew"])
def test_ranges_into_a_topic_that_was_made_anew_are_not_used(source: bytes) -> None:
    made = translator((0, 100), ranges=[(0, 50, 100)])
    assert downstream(made, 20, source=source, target=NEW) == [101]


def test_neither_ranges_nor_syncs_of_a_source_topic_that_was_made_anew_are_used() -> None:
    made = translator((0, 100), (40, 140), ranges=[(0, 50, 100)])
    assert [downstream(made, upstream, source=NEW) for upstream in (0, 20, 40, 500)] == [[], [], [], []]


def test_syncs_of_the_new_topic_are_used_while_ranges_are_still_the_former_ones() -> None:
    # The first one has a lower upstream offset than those before: the store begins anew with it.
    made = translator((0, 100), (40, 140), (0, 150), (20, 170), ranges=[(0, 50, 100)])
    assert [downstream(made, upstream, source=NEW) for upstream in (0, 20, 30)] == [[150], [170], [171]]


def test_ranges_are_used_where_ids_are_not_known() -> None:
    made = translator((0, 100), ranges=[(0, 50, 100)])
    assert downstream(made, 20, source=None, target=None) == [120]


@pytest.mark.kafka_test("MirrorCheckpointTaskTest.testNoCheckpointForTopicWithoutOffsetSyncs")
def test_what_nobody_knows_of_has_no_checkpoint() -> None:
    assert downstream(translator((0, 0)), 5, topic="other") == []


def test_what_is_older_than_every_sync_has_no_checkpoint() -> None:
    assert downstream(translator((100, 100)), 50) == []


def test_nothing_is_translated_before_the_syncs_are_read() -> None:
    assert downstream(translator((0, 0), ready=False), 5) == []


def test_where_older_checkpoints_are_not_known_only_the_newest_sync_counts() -> None:
    assert downstream(translator((0, 0), (1000, 1000), must_read_to_end=True), 500) == []


@pytest.mark.kafka_test("MirrorCheckpointTaskTest.testDownstreamTopicRenaming")
@pytest.mark.parametrize(
    ("policy", "topic", "remote"),
    [("Default", "orders", "A.orders"), ("Default", "B.orders", "orders"), ("Identity", "orders", "orders")],
)
def test_a_topic_is_called_as_on_the_target(policy: str, topic: str, remote: str) -> None:
    assert translator(policy=policy).remote_topic(TopicPartition(topic, 0)) == remote


def routed(made: OffsetTranslator, since: int, *parts: tuple[bytes, str, tuple[int, int, int]]) -> Segment | None:
    """Adds ranges of tasks that follow each other: target's id, name by a route, (upstream, count, downstream).

    Returns the last segment.
    """
    newest = None
    for target, remote, acked in parts:
        recorder = RangeRecorder("orders", 0, OLD, target, remote)
        recorder.resume(newest, reading_from=since if newest is None else acked[0])
        recorder.acked(*acked)
        ((key, value),) = recorder.changed()
        newest = Segment.decode(key, value)
        made.add_ranges(key, value)
    return newest


def test_a_topic_is_called_as_its_ranges_say_where_a_route_named_it() -> None:
    made = translator((0, 0))
    routed(made, 0, (NEW, "sales", (0, 50, 0)))
    assert made.remote_topics({ORDERS: CommittedOffset(3), TopicPartition("secret", 0): CommittedOffset(3)}) == {
        "sales"
    }
    asked = []
    (found,) = made.checkpoints(
        "g", {ORDERS: CommittedOffset(7)}, lambda _: OLD, lambda topic: asked.append(topic) or NEW
    )
    assert (found.topic, found.downstream, asked) == ("sales", 7, ["sales"])


@pytest.mark.parametrize("ids", [(OLD, NEW), (NO_ID, NO_ID)], ids=["ids", "brokers_without_ids"])
def test_after_another_route_no_group_goes_by_offsets_in_the_former_topic(ids: tuple[bytes, bytes]) -> None:
    """At 100 the route changed: records from there on are in another topic, from its offset 0 on."""
    made = translator((0, 0), (90, 90), (100, 0))
    routed(made, 0, (ids[0], "sales", (0, 100, 0)), (ids[1], "deals", (100, 20, 0)))
    target = ids[1] if ids[1] != NO_ID else None
    assert made.remote_topic(ORDERS) == "deals"
    assert [downstream(made, upstream, target=target) for upstream in (95, 100, 110)] == [[], [0], [10]]


def test_after_another_route_a_partition_of_which_all_is_dropped_so_far_has_only_the_new_topic() -> None:
    made = translator((0, 0), (90, 90))
    sold = routed(made, 0, (OLD, "sales", (0, 100, 0)))
    recorder = RangeRecorder("orders", 0, OLD, NEW, "deals")
    recorder.resume(sold, reading_from=100)
    recorder.passed()
    for key, value in recorder.changed():
        made.add_ranges(key, value)
    assert made.remote_topic(ORDERS) == "deals"
    assert [downstream(made, upstream, target=NEW) for upstream in (95, 100, 110)] == [[], [0], [0]]


def test_after_the_route_was_taken_away_the_policy_names_the_topic_again() -> None:
    made = translator((0, 0), (90, 90), (100, 0))
    routed(made, 0, (OLD, "sales", (0, 100, 0)), (NEW, "", (100, 20, 0)))
    assert made.remote_topic(ORDERS) == "A.orders"
    assert [downstream(made, upstream, target=NEW) for upstream in (95, 110)] == [[], [10]]


def test_topics_that_are_not_wanted_are_left_out() -> None:
    made = translator((0, 0))
    secret = OffsetSync("secret", 0, 0, 0)
    made.add_sync(secret.key(), secret.value())
    assert (
        downstream(made, 0, topic="secret"),
        made.accepted({TopicPartition("secret", 0): CommittedOffset(1), ORDERS: CommittedOffset(1)}),
    ) == (
        [],
        {"orders"},
    )


@pytest.mark.parametrize("which", ["add_sync", "add_ranges"])
def test_a_record_that_cannot_be_read_is_said_to_be_one(which: str) -> None:
    with pytest.raises(UnreadableRecord):
        getattr(translator(), which)(b"\0", None)


@pytest.mark.kafka_test("MirrorCheckpointTaskTest.testSyncOffset")
@pytest.mark.kafka_test("MirrorCheckpointTaskTest.testSyncOffsetForTargetGroupWithNullOffsetAndMetadata")
@pytest.mark.parametrize(
    ("at_target", "moved"),
    [
        pytest.param({}, True, id="none_there"),
        pytest.param({A_OTHER: CommittedOffset(99)}, True, id="another_topic_alone"),
        pytest.param({A_ORDERS: CommittedOffset(59)}, True, id="behind"),
        pytest.param({A_ORDERS: CommittedOffset(60, "another note")}, False, id="there_already"),
        pytest.param({A_ORDERS: CommittedOffset(61)}, False, id="ahead"),
    ],
)
def test_only_what_is_missing_or_behind_is_moved(at_target: dict[TopicPartition, CommittedOffset], moved: bool) -> None:
    committed = {A_ORDERS: CommittedOffset(60, "a note")}
    assert offsets_to_commit({A_ORDERS: CHECKPOINT}, at_target) == (committed if moved else {})
