import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.records.checkpoints import Checkpoint
from mirror_connect.connectors.translation.group_moves import moves

ORDERS = TopicPartition("A.orders", 0)
CHECKPOINT = Checkpoint("g", "A.orders", 0, upstream=70, downstream=60, metadata="a note")


@pytest.mark.kafka_test("MirrorCheckpointTaskTest.testSyncOffset")
@pytest.mark.kafka_test("MirrorCheckpointTaskTest.testSyncOffsetForTargetGroupWithNullOffsetAndMetadata")
@pytest.mark.parametrize(
    ("at_target", "moved"),
    [
        pytest.param({}, True, id="none_there"),
        pytest.param({("A.other", 0): (99, "")}, True, id="another_topic_alone"),
        pytest.param({ORDERS: (59, "")}, True, id="behind"),
        pytest.param({ORDERS: (60, "another note")}, False, id="there_already"),
        pytest.param({ORDERS: (61, "")}, False, id="ahead"),
    ],
)
def test_only_what_is_missing_or_behind_is_moved(
    at_target: dict[tuple[str, int], tuple[int, str]], moved: bool
) -> None:
    assert moves({ORDERS: CHECKPOINT}, at_target) == ({ORDERS: (60, "a note")} if moved else {})
