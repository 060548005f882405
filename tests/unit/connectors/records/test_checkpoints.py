import json
from typing import Any

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.records.binary import UnreadableRecord
from mirror_connect.connectors.records.checkpoints import (
    Checkpoint,
    CheckpointMemory,
    checkpoint_offset_key,
    checkpointed_topic,
)
from mirror_connect.connectors.records.heartbeats import ALWAYS_ZERO
from mirror_connect.connectors.replication_policy import DefaultReplicationPolicy, IdentityReplicationPolicy
from tests.paths import FIXTURES


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FIXTURES / name).read_text().splitlines()]


RECORDS = [record for record in lines("worker-mm2-topics.jsonl") if record["topic"].endswith("internal")]
RECORDS = [record for record in RECORDS if "checkpoints" in record["topic"]]
OFFSETS = [record for record in lines("worker-connect-offsets.jsonl") if "group" in record["decoded"]["key"][1]]


def checkpoint(upstream: int, downstream: int, group: str = "g") -> Checkpoint:
    return Checkpoint(group, "A.t", 0, upstream, downstream)


@pytest.mark.kafka_test("CheckpointTest.testSerde")
@pytest.mark.parametrize("record", RECORDS, ids=lambda record: f"{record['topic']}-{record['offset']}")
def test_a_checkpoint_is_written_and_read_as_kafka_wrote_it(record: dict[str, Any]) -> None:
    written = bytes.fromhex(record["key_hex"]), bytes.fromhex(record["value_hex"])
    key, value = record["decoded"]["key"], record["decoded"]["value"]
    decoded = Checkpoint.decode(*written)
    told = (key["group"], key["topic"], key["partition"], value["upstreamOffset"], value["offset"], value["metadata"])
    assert (decoded.key(), decoded.value(), decoded) == (*written, Checkpoint(*told))


@pytest.mark.parametrize("record", OFFSETS, ids=lambda record: f"{record['partition']}-{record['offset']}")
def test_a_position_is_stored_as_kafka_stores_it(record: dict[str, Any]) -> None:
    connector, source = record["decoded"]["key"]
    of = Checkpoint(source["group"], source["topic"], source["partition"], 0, 0)
    value = None if record["value_hex"] is None else ALWAYS_ZERO.hex()
    assert (checkpoint_offset_key(connector, of).hex(), value) == (record["key_hex"], record["value_hex"])


@pytest.mark.parametrize("value", [None, b"", bytes(20)[:-1], b"\0\1" + bytes(18)])
def test_anything_else_is_refused_with_one_line(value: bytes | None) -> None:
    with pytest.raises(UnreadableRecord, match=r"^value of a checkpoint: [^\n]+$"):
        Checkpoint.decode(checkpoint(0, 0).key(), value)


@pytest.mark.parametrize(
    "found",
    [
        Checkpoint("g", "x" * 250, 0, 0, 0),
        Checkpoint("g", "..", 0, 0, 0),
        Checkpoint("g", "A t", 0, 0, 0),
        Checkpoint("g", "A.t", -1, 0, 0),
        Checkpoint("g", "A.t", 0, -2, 0),
        Checkpoint("g", "A.t", 0, 0, -2),
    ],
)
def test_names_and_numbers_that_nothing_can_have_are_refused(found: Checkpoint) -> None:
    with pytest.raises(UnreadableRecord, match=r"^(key|value) of a checkpoint: [^\n]+$"):
        Checkpoint.decode(found.key(), found.value())


def test_any_position_is_read_and_any_name_of_a_group() -> None:
    found = Checkpoint("grüppe\n" * 100, "A.t", 0, 2**63 - 1, 2**63 - 1)
    assert Checkpoint.decode(found.key(), found.value()) == found


@pytest.mark.kafka_test("MirrorCheckpointTaskTest.testDownstreamTopicRenaming")
@pytest.mark.parametrize(("topic", "name"), [("t", "A.t"), ("C.t", "A.C.t"), ("B.t", "t"), ("B.C.t", "C.t")])
def test_a_topic_that_came_from_the_target_is_the_original_there(topic: str, name: str) -> None:
    assert checkpointed_topic(DefaultReplicationPolicy(), "A", "B", topic) == name


def test_names_stay_with_the_identity_policy() -> None:
    assert checkpointed_topic(IdentityReplicationPolicy(source_alias="A"), "A", "B", "t") == "t"


@pytest.mark.parametrize(
    ("last", "now", "news"),
    [
        pytest.param(None, (5, 3), True, id="the_first"),
        pytest.param((5, 3), (6, 4), True, id="further_downstream"),
        pytest.param((5, 3), (6, 3), False, id="no_further_downstream"),
        pytest.param((5, 3), (6, 2), False, id="back_downstream_by_a_coarser_translation"),
        pytest.param((5, 3), (5, 3), False, id="the_same"),
        pytest.param((5, 3), (4, 2), True, id="group_went_back"),
        pytest.param((5, 3), (4, 3), True, id="group_went_back_a_little"),
    ],
)
@pytest.mark.kafka_test("MirrorCheckpointTaskTest.testCheckpointRecordsMonotonicIfStoreRewinds")
def test_only_more_recent_checkpoints_are_news(last: tuple[int, int] | None, now: tuple[int, int], news: bool) -> None:
    memory = CheckpointMemory({"g"})
    memory.take([checkpoint(*last)] if last else [])
    assert bool(memory.take([checkpoint(*now)])) is news


@pytest.mark.kafka_test("MirrorCheckpointTaskTest.testCheckpointsTaskRestartUsesExistingCheckpoints")
def test_after_a_restart_the_topic_says_what_is_news() -> None:
    memory = CheckpointMemory({"g"})
    memory.load([(checkpoint(250, 201).key(), checkpoint(250, 201).value())])
    news = memory.take([checkpoint(260, 200), checkpoint(400, 376)])
    assert [(each.upstream, each.downstream) for each in news] == [(400, 376)]


@pytest.mark.kafka_test("CheckpointStoreTest.testReadCheckpointsTopic")
def test_of_the_topic_own_groups_are_kept_and_the_last_record_wins() -> None:
    memory = CheckpointMemory({"g"})
    records = [checkpoint(1, 1), checkpoint(7, 7, "other"), checkpoint(5, 4)]
    problems = memory.load([*((each.key(), each.value()) for each in records), (b"x", b"y"), (records[0].key(), None)])
    kept = {group: memory.of_group(group) for group in memory.groups()}
    assert (kept, len(problems)) == ({"g": {TopicPartition("A.t", 0): records[2]}}, 2)


def test_a_position_that_is_too_old_to_translate_is_dropped() -> None:
    assert CheckpointMemory({"g"}).take([checkpoint(5, -1)]) == []
