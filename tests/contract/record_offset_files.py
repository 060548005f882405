"""Records which offset files Kafka's FileOffsetBackingStore writes and reads, into tests/fixtures/offset-file-vectors.jsonl.

Again, after `make setup` (some seconds):

    python -m tests.contract.record_offset_files
"""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Sequence
from typing import Any, Final

from deploy.local.java import java_command
from deploy.local.kafka_jars import class_path
from tests.paths import FIXTURES, TESTS

VECTORS: Final = FIXTURES / "offset-file-vectors.jsonl"
KEY: Final = b'["source",{"cluster":"A","partition":%d,"topic":"orders"}]'


def asked() -> list[dict[str, Any]]:
    """What is asked: see RecordOffsetFiles.java."""
    random_numbers = random.Random(1)
    # Java doubles the buckets behind 12, 24, 48 entries.
    counts = {f"{count}_entries": positions(count) for count in (0, 1, 2, 12, 13, 24, 25, 48, 49, 100)}
    shared = [["6b", "6b"], ["6c", "6b"], ["6d", None], ["6e", "6d"], ["6f", ""]]
    return [
        *({"name": name, "kind": "store", "entries": entries} for name, entries in counts.items()),
        {"name": "nulls", "kind": "store", "entries": [["6b", None], ["6c", ""], ["6d", "76"]]},
        {"name": "empty_key", "kind": "store", "entries": [["", "76"]]},
        {"name": "null_key", "kind": "store", "entries": [[None, "76"], ["6b", "77"]]},
        {"name": "long_value", "kind": "store", "entries": [["6b", random_numbers.randbytes(3000).hex()]]},
        *(
            {
                "name": f"shared_{capacity}_{load}",
                "kind": "map",
                "capacity": capacity,
                "load_factor": load,
                "entries": shared,
            }
            for capacity, load in ((0, 0.75), (1, 4.0), (1000, 0.5), (16, 0.01))
        ),
        {"name": "linked", "kind": "linked", "entries": shared},
        {"name": "other", "kind": "other"},
        {"name": "nothing", "kind": "read", "file": ""},
        {"name": "json", "kind": "read", "file": b'{"a": 1}'.hex()},
    ]


def positions(count: int) -> list[list[str | None]]:
    """Entries as a source connector has them, in hex."""
    return [[(KEY % number).hex(), (b'{"offset":%d}' % number).hex()] for number in range(count)]


def answered(questions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The questions with `file`, and in `recorded` what Kafka's class reads from it: entries in hex, or an exception."""
    done = subprocess.run(
        [
            *java_command(),
            "-XX:TieredStopAtLevel=1",
            *("-cp", class_path(), str(TESTS / "java" / "RecordOffsetFiles.java")),
        ],
        input="".join(json.dumps(each) + "\n" for each in questions),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def recorded() -> list[dict[str, Any]]:
    """The vectors as they were recorded."""
    return [json.loads(line) for line in VECTORS.read_text("utf-8").splitlines()]


def record() -> None:
    """Runs Kafka's class and writes the file."""
    answers = answered(asked())
    VECTORS.write_text("".join(json.dumps(each, sort_keys=True) + "\n" for each in answers), "utf-8")
    print(f"{VECTORS}: {len(answers)} files")


if __name__ == "__main__":
    record()
