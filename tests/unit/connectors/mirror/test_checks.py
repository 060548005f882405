"""Errors of the three connectors about offsets to set, in the words of Kafka Connect 4.3.1."""

from __future__ import annotations

from typing import Any

import pytest

from mirror_connect.connectors import ConnectorDefinition, MirrorCheckpoint, MirrorHeartbeat, MirrorSource
from mirror_connect.connectors.mirror.checks import RefusedOffset

SOURCE: dict[str, Any] = {"cluster": "A", "partition": 0, "topic": "orders"}
CHECKPOINT: dict[str, Any] = {"partition": 0, "topic": "A.orders", "group": "billing"}
HEARTBEAT: dict[str, Any] = {"sourceClusterAlias": "A", "targetClusterAlias": "B"}


def without(partition: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in partition.items() if name != key}


@pytest.mark.kafka_test("MirrorSourceConnectorTest.testSuccessfulAlterOffsets")
@pytest.mark.kafka_test("MirrorCheckpointConnectorTest.testSuccessfulAlterOffsets")
@pytest.mark.kafka_test("MirrorHeartBeatConnectorTest.testSuccessfulAlterOffsets")
@pytest.mark.parametrize(
    ("definition", "partition", "offset"),
    [
        pytest.param(MirrorSource(), SOURCE, 0, id="source"),
        pytest.param(MirrorSource(), {**SOURCE, "note": "x"}, 2**63 - 1, id="source_with_a_further_key"),
        pytest.param(MirrorSource(), {**SOURCE, "cluster": ""}, 7, id="source_of_another_cluster"),
        pytest.param(MirrorCheckpoint(), CHECKPOINT, 0, id="checkpoint"),
        pytest.param(MirrorHeartbeat(), HEARTBEAT, 0, id="heartbeat"),
    ],
)
def test_offsets_of_the_connectors_own_form_are_taken(
    definition: ConnectorDefinition, partition: dict[str, Any], offset: int
) -> None:
    definition.check_offset(partition, {"offset": offset})


@pytest.mark.kafka_test("MirrorSourceConnectorTest.testAlterOffsetsIncorrectPartitionKey")
@pytest.mark.kafka_test("MirrorSourceConnectorTest.testAlterOffsetsMissingPartitionKey")
@pytest.mark.kafka_test("MirrorCheckpointConnectorTest.testAlterOffsetsIncorrectPartitionKey")
@pytest.mark.kafka_test("MirrorCheckpointConnectorTest.testAlterOffsetsMissingPartitionKey")
@pytest.mark.kafka_test("MirrorHeartBeatConnectorTest.testAlterOffsetsIncorrectPartitionKey")
@pytest.mark.kafka_test("MirrorHeartBeatConnectorTest.testAlterOffsetsMissingPartitionKey")
@pytest.mark.parametrize(
    ("definition", "partition", "key"),
    [
        *((MirrorSource(), SOURCE, key) for key in SOURCE),
        *((MirrorCheckpoint(), CHECKPOINT, key) for key in CHECKPOINT),
        *((MirrorHeartbeat(), HEARTBEAT, key) for key in HEARTBEAT),
    ],
)
def test_every_key_of_the_partition_is_needed(
    definition: ConnectorDefinition, partition: dict[str, Any], key: str
) -> None:
    with pytest.raises(RefusedOffset, match=f"is missing the '{key}' key, which is required"):
        definition.check_offset(without(partition, key), {"offset": 0})


@pytest.mark.kafka_test("MirrorSourceConnectorTest.testAlterOffsetsIncorrectOffsetKey")
@pytest.mark.kafka_test("MirrorSourceConnectorTest.testAlterOffsetsOffsetValues")
@pytest.mark.kafka_test("MirrorCheckpointConnectorTest.testAlterOffsetsIncorrectOffsetKey")
@pytest.mark.kafka_test("MirrorCheckpointConnectorTest.testAlterOffsetsOffsetValues")
@pytest.mark.kafka_test("MirrorHeartBeatConnectorTest.testAlterOffsetsIncorrectOffsetKey")
@pytest.mark.kafka_test("MirrorHeartBeatConnectorTest.testAlterOffsetsOffsetValues")
@pytest.mark.kafka_test("MirrorSourceConnectorTest.testAlterOffsetsInvalidPartitionPartition")
@pytest.mark.kafka_test("MirrorCheckpointConnectorTest.testAlterOffsetsInvalidPartitionPartition")
@pytest.mark.parametrize(
    ("definition", "partition", "offset", "text"),
    [
        pytest.param(
            MirrorHeartbeat(),
            {**HEARTBEAT, "targetClusterAlias": 7},
            {"offset": 0},
            "Source partition {sourceClusterAlias=A, targetClusterAlias=7} has an invalid value 7 for the "
            "'targetClusterAlias' key, which must be a string",
            id="number_for_text",
        ),
        pytest.param(
            MirrorSource(),
            {**SOURCE, "partition": "0"},
            {"offset": 0},
            "Source partition {cluster=A, partition=0, topic=orders} has an invalid value 0 for the 'partition' key, "
            "which must be an integer",
            id="text_for_a_number",
        ),
        pytest.param(
            MirrorSource(),
            {**SOURCE, "partition": 2**31},
            {"offset": 0},
            "Source partition {cluster=A, partition=2147483648, topic=orders} has an invalid value 2147483648 for the "
            "'partition' key, which must be an integer",
            id="partition_beyond_32_bits",
        ),
        pytest.param(
            MirrorSource(),
            {**SOURCE, "partition": -1},
            {"offset": 0},
            "Source partition {cluster=A, partition=-1, topic=orders} has an invalid value -1 for the 'partition' key, "
            "which cannot be negative",
            id="negative_partition",
        ),
        pytest.param(
            MirrorSource(),
            SOURCE,
            {"offset": -1},
            "Source offset {offset=-1} for source partition {cluster=A, partition=0, topic=orders} has an invalid value "
            "-1 for the 'offset' key, which cannot be negative",
            id="negative_offset",
        ),
        pytest.param(
            MirrorSource(),
            SOURCE,
            {"offset": True},
            "Source offset {offset=true} for source partition {cluster=A, partition=0, topic=orders} has an invalid "
            "value true for the 'offset' key, which must be an integer",
            id="boolean_offset",
        ),
        pytest.param(
            MirrorSource(),
            SOURCE,
            {"position": None},
            "Source offset {position=null} for source partition {cluster=A, partition=0, topic=orders} is missing the "
            "'offset' key, which is required",
            id="no_offset",
        ),
        pytest.param(
            MirrorHeartbeat(),
            HEARTBEAT,
            {"offset": -1},
            "Source offset {offset=-1} for source partition {sourceClusterAlias=A, targetClusterAlias=B} has an invalid "
            "value -1 for the 'offset' key; the only accepted value is 0",
            id="heartbeat_offset_that_is_not_0",
        ),
        pytest.param(
            MirrorCheckpoint(),
            CHECKPOINT,
            {"offset": 1},
            "Source offset {offset=1} for source partition {partition=0, topic=A.orders, group=billing} has an invalid "
            "value 1 for the 'offset' key; the only accepted value is 0",
            id="checkpoint_offset_that_is_not_0",
        ),
    ],
)
def test_other_offsets_are_refused_in_mirrormakers_words(
    definition: ConnectorDefinition, partition: dict[str, Any], offset: dict[str, Any], text: str
) -> None:
    with pytest.raises(RefusedOffset) as refused:
        definition.check_offset(partition, offset)
    assert str(refused.value) == text
