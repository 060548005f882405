"""The records that docs/internal-formats.md shows are those that the code writes."""

from __future__ import annotations

import re

import pytest

from mirror_connect.app.storage.offsets import offset_key, offset_value
from mirror_connect.app.storage.status import Status, TopicStatus, encode_status, encode_topic
from mirror_connect.connectors.acls import AclBinding, Resource
from mirror_connect.connectors.records.checkpoints import Checkpoint, checkpoint_offset_key
from mirror_connect.connectors.records.copied_acls import acl_offset, acl_partition
from mirror_connect.connectors.records.heartbeats import Heartbeat, heartbeat_offset_key
from mirror_connect.connectors.records.offset_syncs import OffsetSync
from mirror_connect.connectors.records.source_offsets import (
    source_offset_headers,
    source_offset_key,
    source_offset_value,
)
from mirror_connect.connectors.translation.offset_ranges import OffsetRange, RangeLogState, Segment
from tests.paths import ROOT

PAGE = (ROOT / "docs" / "internal-formats.md").read_text("utf-8")
# What stands in code blocks: bytes may be spread over lines, each with a remark behind two spaces or more.
HEX = "".join(
    line.split("  ")[0].replace(" ", "")
    for block in re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
    if re.match(r"[0-9a-f]{2}", line)
)
SYNC = OffsetSync("orders", 2, 3, 3)
CHECKPOINT = Checkpoint("billing", "A.orders", 1, 4, 1)
HEARTBEAT = Heartbeat("A", "B", 1795227690435)
SOURCE_ID, TARGET_ID = bytes(range(1, 17)), bytes(range(17, 33))
RANGES = (OffsetRange(0, 0, 100), OffsetRange(101, 100, 50, linked=True))
SEGMENT = Segment("orders", 2, 0, 0, SOURCE_ID, TARGET_ID, RangeLogState(), RANGES)
AT_SOURCE = AclBinding("TOPIC", "LITERAL", "orders", "User:bob", "*", "READ", "ALLOW")
COPY = AclBinding("TOPIC", "LITERAL", "A.orders", "User:bob", "*", "READ", "ALLOW")


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(SYNC, id="offset_sync"),
        pytest.param(CHECKPOINT, id="checkpoint"),
        pytest.param(HEARTBEAT, id="heartbeat"),
        pytest.param(SEGMENT, id="offset_ranges"),
    ],
)
def test_binary_examples_are_what_is_written(record: OffsetSync | Checkpoint | Heartbeat | Segment) -> None:
    assert record.key().hex() + record.value().hex() in HEX


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(source_offset_key("mm2-source", "A", "orders", 2), id="source_offset_key"),
        pytest.param(source_offset_value(3), id="source_offset"),
        pytest.param(source_offset_headers(SOURCE_ID, 5)[0][1], id="topic_id"),
        pytest.param(checkpoint_offset_key("mm2-checkpoint", CHECKPOINT), id="checkpoint_key"),
        pytest.param(heartbeat_offset_key("mm2-heartbeat", "A", "B"), id="heartbeat_key"),
        pytest.param(offset_key("mm2-source", acl_partition(Resource("LITERAL", "A.orders"))), id="copied_acls_key"),
        pytest.param(offset_value(acl_offset({COPY: [AT_SOURCE]})), id="copied_acls"),
        pytest.param(encode_status(Status("RUNNING", "127.0.0.1:8083", 4)), id="status"),
        pytest.param(encode_topic(TopicStatus("A.orders", "mm2-source", 1, 1795227685735)), id="topic_status"),
    ],
)
def test_json_examples_are_what_is_written(text: bytes) -> None:
    assert text.decode() in PAGE
