"""The config topic that a real Kafka Connect 4.3.1 worker wrote (tests/fixtures/worker-connect-configs.jsonl)."""

from __future__ import annotations

import json

from mirror_connect.app.storage.config_records import Entry
from tests.paths import FIXTURES

FIXTURE = FIXTURES / "worker-connect-configs.jsonl"


def recorded(before: int = 1_000_000) -> list[Entry]:
    """Its records below the offset `before`."""
    lines = [json.loads(line) for line in FIXTURE.read_text().splitlines()]
    return [
        (bytes.fromhex(line["key_hex"]), bytes.fromhex(line["value_hex"]) if line["value_hex"] is not None else None)
        for line in lines
        if line["offset"] < before
    ]
