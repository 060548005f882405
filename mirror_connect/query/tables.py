"""The tables of the data source `mirror`, and their columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

RECORDS: Final = "records"
RANGES: Final = "ranges"
POSITIONS: Final = "positions"
CHECKPOINTS: Final = "checkpoints"
STATUS: Final = "status"

# As Spark's DDL. Offsets that checkpoints and ranges have are called as in MirrorMaker.
SCHEMAS: Final[Mapping[str, str]] = {
    RECORDS: (
        "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestamp_type STRING, key BINARY, "
        "value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    ),
    RANGES: (
        "topic STRING, partition INT, upstream_offset BIGINT, downstream_offset BIGINT, length BIGINT, linked BOOLEAN, "
        "unsure BOOLEAN, settled BOOLEAN, segment BIGINT, source_topic_id STRING, target_topic_id STRING"
    ),
    POSITIONS: (
        "connector STRING, cluster STRING, topic STRING, partition INT, offset BIGINT, end_offset BIGINT, lag BIGINT"
    ),
    CHECKPOINTS: (
        "group_id STRING, topic STRING, partition INT, upstream_offset BIGINT, downstream_offset BIGINT, "
        "metadata STRING, timestamp TIMESTAMP"
    ),
    STATUS: "connector STRING, type STRING, task INT, state STRING, worker_id STRING, trace STRING",
}
