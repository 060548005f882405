"""Kafka's FileOffsetBackingStore reads what is written here, and what it writes now is read here. One run of Java."""

from __future__ import annotations

import random
from typing import Any, Final

from mirror_connect.app.standalone.offset_file import decode, encode
from tests.contract.record_offset_files import answered, positions, recorded

COUNTS: Final = (0, 1, 12, 13, 200)


def made_up(count: int) -> dict[bytes, bytes | None]:
    numbers = random.Random(count)
    found: dict[bytes, bytes | None] = {}
    while len(found) < count:
        found[numbers.randbytes(numbers.randrange(200))] = numbers.choice((None, b"", numbers.randbytes(30)))
    return found


def stored_as(count: int) -> dict[bytes, bytes | None]:
    return {bytes.fromhex(key or ""): bytes.fromhex(value or "") for key, value in positions(count)}


def test_kafkas_class_and_ours_read_each_others_files() -> None:
    written = [made_up(count) for count in COUNTS]
    to_read: list[dict[str, Any]] = [{"kind": "read", "file": encode(each).hex()} for each in written]
    to_write = [{"kind": "store", "entries": positions(count)} for count in COUNTS]
    # As a worker does that continues from our file: what it does not change stays, also what is nobody's source offset.
    mine = {b'["mirror-connect.origins",null]': b"{}", b'["gone",{"a":1}]': b"{}", b"no JSON": None}
    to_keep = [{"kind": "store", "before": encode(mine).hex(), "entries": positions(1)}]
    vectors = recorded()
    answers = answered([*to_read, *to_write, *to_keep, *({**each, "kind": "read"} for each in vectors)])
    read, stored = answers[: len(COUNTS)], answers[len(COUNTS) : 2 * len(COUNTS)]
    kept, *again = answers[2 * len(COUNTS) :]

    shown = [{key.hex(): value if value is None else value.hex() for key, value in each.items()} for each in written]
    assert [each["recorded"] for each in read] == shown
    assert [decode(bytes.fromhex(each["file"])) for each in stored] == [stored_as(count) for count in COUNTS]
    assert decode(bytes.fromhex(kept["file"])) == {**mine, **stored_as(1)}
    assert [each["recorded"] for each in again] == [each["recorded"] for each in vectors]
