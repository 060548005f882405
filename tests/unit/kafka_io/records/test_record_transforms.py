"""Steps of transformations on the records of a batch: against a plain reading of aiokafka's, and compiled against Python."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from mirror_connect.connectors.record_steps import Action, Condition, Step, Steps
from mirror_connect.kafka_io.records import compiled, varint
from mirror_connect.kafka_io.records.compression import decompress
from mirror_connect.kafka_io.records.record_batch import CorruptBatchError
from mirror_connect.kafka_io.records.record_rewrite import rewrite
from mirror_connect.kafka_io.records.record_transforms import MOST_HEADERS, MOST_TRANSFORMED, transform
from tests.fakes.encoded_batches import NOW, Plain, encode, some_records
from tests.fakes.rewritten_batches import (
    LOG_APPEND_TIME,
    encoded_record,
    every_codec,
    offsets_of,
    only,
    records_of,
    seeds,
)

TOMBSTONES = Step(Action.FILTER, Condition.IS_TOMBSTONE)
DROP_A = Step(Action.DROP_HEADERS, headers=(b"a",))
INSERT = Step(Action.INSERT_HEADER, headers=(b"from",), value=b"primary")

names = some.sampled_from([b"a", b"none", "größe".encode(), b"from", b"new", b""])
steps = some.builds(
    Step,
    some.sampled_from([Action.DROP_HEADERS, Action.FILTER]),
    some.sampled_from(Condition),
    some.booleans(),
    names,
    some.lists(names, max_size=2).map(tuple),
) | some.builds(
    Step,
    some.just(Action.INSERT_HEADER),
    some.sampled_from(Condition),
    some.booleans(),
    names,
    names.map(lambda name: (name,)),
    some.binary(max_size=200),
)
chains = some.lists(steps, max_size=5).map(tuple)


def expected(records: Sequence[Plain], chain: Steps) -> list[Plain]:
    """The records after the steps, as one writes it down for people."""
    found = []
    for record in records:
        headers: list[tuple[str, bytes | None]] | None = list(record.headers)
        for step in chain:
            assert headers is not None
            takes = {
                Condition.ALWAYS: True,
                Condition.IS_TOMBSTONE: record.value is None,
                Condition.HAS_HEADER: step.has.decode() in dict(headers),
            }[step.condition]
            if takes == step.negated:
                continue
            if step.action is Action.FILTER:
                headers = None
                break
            dropped = [name.decode() for name in step.headers]
            if step.action is Action.DROP_HEADERS:
                headers = [each for each in headers if each[0] not in dropped]
            else:
                headers.append((dropped[0], step.value))
        if headers is not None:
            found.append(record._replace(headers=tuple(headers)))
    return found


@given(some.integers(0, 1 << 30), some.integers(1, 30), some.booleans(), chains)
@settings(max_examples=300)
def test_records_come_out_as_the_steps_say(seed: int, count: int, gaps: bool, chain: Steps) -> None:
    records = some_records(seed, count, first=70, gaps=gaps, size=20)
    wanted = expected(records, chain)
    made = list(rewrite(only(encode(records, random.Random(seed).randrange(5))), 70, chain))
    if not wanted:
        assert made == []
        return
    (batch,) = made
    assert [each.content for each in records_of(batch)] == [each.content for each in wanted]
    assert offsets_of(batch) == [each.offset for each in wanted]
    # What was dropped before and behind counts as read.
    assert (batch.first_offset, batch.last_offset) == (records[0].offset, records[-1].offset)


@every_codec
@seeds
def test_records_below_the_wanted_offset_are_left_out_as_ever(codec: int, seed: int) -> None:
    records = some_records(seed, 40)
    (batch,) = rewrite(only(encode(records, codec)), 20, (TOMBSTONES, DROP_A, INSERT))
    wanted = expected(records[20:], (TOMBSTONES, DROP_A, INSERT))
    assert [each.content for each in records_of(batch)] == [each.content for each in wanted]
    assert (batch.first_offset, batch.last_offset) == (20, 39)


@pytest.mark.parametrize("count", [1, 10])
@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("chain", [(INSERT,), (DROP_A,), (TOMBSTONES,), (DROP_A, INSERT)])
def test_records_with_the_brokers_time_are_transformed_and_keep_it(count: int, same: bool, chain: Steps) -> None:
    """Without transformations, records of one time are sent as they were fetched, with another header of the batch."""
    records = [
        each._replace(value=b"v", headers=(("a", b"1"),), timestamp=NOW if same else NOW + number)
        for number, each in enumerate(some_records(3, count))
    ]
    batch = encode(records, attributes=LOG_APPEND_TIME, max_timestamp=NOW + 500)
    (made,) = rewrite(only(batch), 0, chain)
    wanted = [each._replace(timestamp=NOW + 500) for each in expected(records, chain)]
    assert [each.content for each in records_of(made)] == [each.content for each in wanted]


@pytest.mark.parametrize("by", ["C", "Python"])
def test_a_batch_that_would_take_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    if by == "Python":
        monkeypatch.setattr(compiled, "functions", None)
    headers = varint.encode(MOST_HEADERS + 1) + b"\x00\x01" * (MOST_HEADERS + 1)
    with pytest.raises(CorruptBatchError, match=f"more than {MOST_HEADERS} headers"):
        transform(encoded_record(rest=b"\x01\x01" + headers), 1, (DROP_A,), 9)
    enormous = Step(Action.INSERT_HEADER, headers=(b"h",), value=bytes(MOST_TRANSFORMED // 8))
    with pytest.raises(CorruptBatchError, match=f"more than {MOST_TRANSFORMED} bytes"):
        transform(encoded_record() * 9, 9, (enormous,), 9)


def test_what_no_step_changes_is_not_copied() -> None:
    data = decompress(0, only(encode(some_records(1, 5))).records)
    assert transform(data, 5, (Step(Action.DROP_HEADERS, headers=(b"unknown",)),), 0)[0] is data or (
        compiled.functions is None
    )


@pytest.mark.skipif(compiled.functions is None, reason="no C compiler was there at setup")
@given(some.data())
@settings(max_examples=400)
def test_compiled_and_python_give_the_same_bytes_and_errors(draw: some.DataObject) -> None:
    """Also of bytes that a broken or malicious producer may have written."""
    records = some_records(draw.draw(some.integers(0, 1 << 30)), draw.draw(some.integers(1, 8)), size=5)
    content = bytearray(decompress(0, only(encode(records)).records))
    for _ in range(draw.draw(some.integers(0, 3))):
        at = draw.draw(some.integers(0, len(content) - 1))
        content[at : at + draw.draw(some.integers(0, 2))] = draw.draw(some.binary(max_size=12))
        if not content:
            break
    count = draw.draw(some.sampled_from([len(records), len(records), len(records) + 1, 0, -5, (1 << 31) - 1]))
    chain = draw.draw(chains)

    def outcome() -> object:
        try:
            return transform(bytes(content), count, chain, 9)
        except CorruptBatchError as error:
            return str(error)

    with pytest.MonkeyPatch.context() as patch:
        fast = outcome()
        patch.setattr(compiled, "functions", None)
        assert fast == outcome()


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        (b"\x01\x01", "a record in it is cut off"),
        (b"\x10\x01\x00", "a key or value in it is longer than its record"),
        (b"\x01\x01\x01", "a record in it has -1 headers"),
        (b"\x01\x01\x02", "a record in it is cut off"),
        (b"\x01\x01\x02\x01", "a header in it has no name"),
        (b"\x01\x01\x00\x00", "a record in it has bytes behind its headers"),
    ],
)
def test_a_record_that_cannot_be_read_is_named(rest: bytes, reason: str) -> None:
    with pytest.raises(CorruptBatchError, match=reason):
        transform(encoded_record(rest=rest), 1, (INSERT,), 9)


def test_a_record_may_grow_much() -> None:
    record = encoded_record()
    data, kept = transform(
        record * 1000, 1000, (Step(Action.INSERT_HEADER, headers=(b"h" * 500,), value=b"v" * 500),), 0
    )
    assert kept == 1000
    assert len(data) == 1000 * (len(record) + 1 + len(varint.encode(500)) * 2 + 1000)
