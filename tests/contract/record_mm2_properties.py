"""Records what Kafka's own classes make of properties files, into tests/fixtures/mm2-properties-vectors.jsonl.

Again, after `make setup` (a minute or two):

    python -m tests.contract.record_mm2_properties
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any, Final

from deploy.local.java import java_command
from deploy.local.kafka_jars import class_path
from tests.contract.mm2_texts import CASES, GUIDE, by_chance, odd_properties
from tests.paths import FIXTURES, TESTS

VECTORS: Final = FIXTURES / "mm2-properties-vectors.jsonl"
# For the references in the texts.
ENVIRONMENT: Final = {
    "MM2_TOPICS": "orders,audit",
    "MM2_SECRET": "hunter2 ${env:MM2_TOPICS}",
    "MM2_CLUSTERS": "A,B",
    "MM2_TRUE": "true",
    "MM2_FALSE": "false",
}


def texts() -> list[dict[str, Any]]:
    """What is asked: name, kind and text of each file."""
    mm2 = {**GUIDE, **CASES, **by_chance(25)}
    return [
        {"name": "names", "kind": "names", "text": ""},
        *({"name": name, "kind": "mm2", "text": text} for name, text in mm2.items()),
        *({"name": name, "kind": "properties", "text": text} for name, text in odd_properties(200).items()),
    ]


def recorded(kind: str) -> dict[str, dict[str, Any]]:
    """The answers of one kind by the texts' names: each with `text` and `recorded`."""
    # Some texts hold characters that other functions take for line ends.
    vectors = [json.loads(line) for line in VECTORS.read_text("utf-8").split("\n") if line]
    return {vector["name"]: vector for vector in vectors if vector["kind"] == kind}


def record() -> None:
    """Runs Kafka's classes and writes the file."""
    answers = subprocess.run(
        [*java_command(), "-cp", class_path(), str(TESTS / "java" / "RecordMm2Properties.java")],
        input="".join(json.dumps(text) + "\n" for text in texts()),
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=580,
        check=True,
    ).stdout
    VECTORS.write_text(answers, "utf-8")
    print(f"{VECTORS}: {len(texts())} files")


if __name__ == "__main__":
    record()
