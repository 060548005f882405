"""A flow whose transformations look into JSON: what they can't take is skipped, or stops the flow just before it."""

from __future__ import annotations

import json
import random

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from mirror_connect.connectors.json_steps.fields import ExtractField, InsertField, MaskField, ReplaceField, ValueToKey
from mirror_connect.connectors.record_errors import SkippedRecords
from mirror_connect.connectors.record_steps import Action, Condition, JsonForm, JsonStep, Part, Step, Steps
from mirror_connect.kafka_io.records.record_batch import LOG_APPEND_TIME, ProducerBatch
from mirror_connect.spark_jobs.copy.partition_flow import PartitionFlow
from tests.fakes.encoded_batches import CODECS, Plain, encode
from tests.fakes.partition_flows import LIMIT, Heard, fetched, flow
from tests.fakes.rewritten_batches import offsets_of, records_of

MASK = JsonStep("mask", Part.VALUE, MaskField(("card",)))
MASKS: Steps = (MASK,)
BAD = b'{"card": '


def value(number: int) -> bytes:
    return json.dumps({"card": f"4111{number}", "n": number}).encode()


def plain(
    offset: int,
    content: bytes | None,
    *,
    key: bytes | None = b"k",
    headers: tuple[tuple[str, bytes | None], ...] = (),
) -> Plain:
    return Plain(offset, 1_000 + offset, key, content, headers)


def take_all(made: PartitionFlow) -> list[ProducerBatch]:
    found = []
    while (batch := made.take(LIMIT, latency_bound=False, append_time=False)) is not None:
        found.append(batch)
        made.acked(batch, -1)
    return found


def of(batches: list[ProducerBatch]) -> list[Plain]:
    return [record for batch in batches for record in records_of(batch)]


def only(steps: Steps, record: Plain) -> Plain:
    """What becomes of one record."""
    made = flow(Heard(), record.offset, steps=steps)
    made.put(fetched(record.offset, record.offset + 1, encode([record])))
    (found,) = of(take_all(made))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_records_before_the_one_that_fails_are_copied_and_the_flow_begins_again_at_it(seed: int) -> None:
    chance = random.Random(seed)
    records = [plain(offset, value(offset)) for offset in range(200)]
    at = chance.randrange(200)
    records[at] = plain(at, BAD)
    heard = Heard()
    made = flow(heard, 0, steps=MASKS)
    sizes, batches, begin = [1, 3, 40], [], 0
    while begin < 200:
        some = records[begin : begin + chance.choice(sizes)]
        batches.append(encode(some, chance.choice([*CODECS.values()])))
        begin += len(some)
    made.put(fetched(0, 200, *batches))
    assert [json.loads(each.value or b"") for each in of(take_all(made))] == [{"card": "", "n": n} for n in range(at)]
    (error,) = heard.failed
    assert (error.offset, error.transformation) == (at, "mask")
    assert made.source_offset == at - 1
    assert made.next_offset == at
    assert not made.waiting()

    # The record's producer was mended, say by a compaction that left another value.
    records[at] = plain(at, value(at))
    assert made.restart() == at
    made.put(fetched(at, 200, encode(records[at // 3 : 200])))
    assert [json.loads(each.value or b"")["n"] for each in of(take_all(made))] == list(range(at, 200))
    assert made.source_offset == 199


@pytest.mark.parametrize("seed", range(6))
def test_records_that_fail_are_skipped_and_told_if_that_is_wanted(seed: int) -> None:
    chance = random.Random(seed)
    bad = set(chance.sample(range(300), 90))
    records = [plain(offset, BAD if offset in bad else value(offset)) for offset in range(300)]
    heard = Heard()
    made = flow(heard, 0, steps=MASKS, tolerant=True)
    made.put(fetched(0, 300, encode(records[:150]), encode(records[150:])))
    batches = take_all(made)
    assert [offset for batch in batches for offset in offsets_of(batch)] == [n for n in range(300) if n not in bad]
    assert heard.failed == []
    assert sum(each.count for each in heard.skipped) == 90
    told = [error.offset for each in heard.skipped for error in each.kept]
    first = sorted(each for each in bad if each < 150), sorted(each for each in bad if each >= 150)
    assert told == [offset for part in first for offset in part[: SkippedRecords.MOST_KEPT]]
    assert made.source_offset == 299
    # They are no filtered ones.
    assert made.measures.totals.filtered == 0


def test_a_number_that_a_step_can_not_write_stalls_no_partition() -> None:
    fields = b'{"type":"string","field":"card"},{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal",'
    fields += b'"parameters":{"scale":"5000"},"field":"sum"}'
    text = b'{"schema":{"type":"struct","fields":[%b]},"payload":{"card":"4","sum":0.%b}}'
    long, short = (text % (fields, b"1" * digits) for digits in (5_000, 1))
    short = short.replace(b'"5000"', b'"1"')
    heard = Heard()
    mask = JsonStep("mask", Part.VALUE, MaskField(("card",)), value=JsonForm(schemas=True))
    made = flow(heard, 0, steps=(mask,), tolerant=True)
    made.put(fetched(0, 3, encode([plain(0, short), plain(1, long), plain(2, short)])))
    assert [offset for batch in take_all(made) for offset in offsets_of(batch)] == [0, 2]
    assert [error.offset for each in heard.skipped for error in each.kept] == [1]


def test_what_was_copied_before_is_not_judged_again() -> None:
    heard = Heard()
    made = flow(heard, 2, steps=MASKS)
    made.put(fetched(2, 4, encode([plain(0, BAD), plain(1, BAD), plain(2, value(2)), plain(3, value(3))])))
    assert [each.timestamp for each in of(take_all(made))] == [1_002, 1_003]
    assert heard.failed == []


@pytest.mark.parametrize("tolerant", [False, True])
@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_sets_fail_at_the_same_record(magic: int, *, tolerant: bool) -> None:
    heard = Heard()
    made = flow(heard, 1, steps=MASKS, tolerant=tolerant)
    old = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
    for number, content in enumerate((BAD, value(1), BAD, value(3))):
        old.append(number, 1_000, b"k", content)
    made.put(fetched(1, 4, bytes(old.build())))
    taken = [json.loads(each.value or b"")["n"] for each in of(take_all(made))]
    assert taken == ([1, 3] if tolerant else [1])
    assert made.source_offset == (3 if tolerant else 1)
    assert [error.offset for error in heard.failed] == ([] if tolerant else [2])


def test_what_no_step_changes_keeps_its_bytes() -> None:
    odd = b' {"b" : 1.10, "a":18446744073709551617 , "a.b": "\\u00fc" } '
    steps: Steps = (JsonStep("out", Part.VALUE, ReplaceField(frozenset({"card"}), frozenset(), {})),)
    assert only(steps, plain(5, odd)).value == odd
    assert only(steps, plain(5, None)).value is None
    assert only(steps, plain(5, b"null")).value == b"null"


def test_what_is_written_keeps_order_numbers_and_characters() -> None:
    odd = '{"z": 1, "a": 18446744073709551617, "é": "ü😀", "card": 5, "f": 1e2, "s": "\\ud800"}'
    found = only(MASKS, plain(5, odd.encode())).value
    assert found is not None
    text = found.decode()
    assert text.startswith('{"z":1,"a":18446744073709551617,')
    assert json.loads(text) == {**json.loads(odd), "card": 0}
    short = only(MASKS, plain(5, '{"é": "ü😀", "card": 5}'.encode())).value
    assert short == '{"é":"ü😀","card":0}'.encode()


def test_steps_on_bytes_and_on_json_keep_their_order() -> None:
    """A value that becomes null on the way is a tombstone for what comes later, and not for what came before."""
    extract = JsonStep("extract", Part.VALUE, ExtractField(("inner",)))
    drop = Step(Action.FILTER, Condition.IS_TOMBSTONE)
    mark = Step(Action.INSERT_HEADER, Condition.IS_TOMBSTONE, negated=True, headers=(b"seen",), value=b"1")
    record = plain(5, b'{"a": 1}')
    assert only((drop, extract), record).value is None
    assert only((mark, extract), record).headers == (("seen", b"1"),)
    assert only((extract, mark), record).headers == ()
    made = flow(Heard(), 5, steps=(extract, drop))
    made.put(fetched(5, 6, encode([record])))
    assert take_all(made) == []
    assert made.source_offset == 5
    assert made.measures.totals.filtered == 1


@pytest.mark.parametrize(
    ("content", "taken"), [(None, True), (b"null", True), (b" null\n", True), (b"", True), (b"{}", False)]
)
def test_null_as_json_has_it_is_a_tombstone_where_values_are_json(content: bytes | None, *, taken: bool) -> None:
    mark = Step(Action.INSERT_HEADER, Condition.IS_TOMBSTONE, headers=(b"gone",), value=b"1")
    has = JsonStep("has", Part.VALUE, MaskField(("a",)), Condition.HAS_HEADER, has=b"never")
    assert only((mark, has), plain(5, content)).headers == (() if content == b"{}" else (("gone", b"1"),))
    keys = JsonStep("keys", Part.KEY, MaskField(("a",)), Condition.HAS_HEADER, has=b"never")
    assert only((mark, keys), plain(5, content)).headers == ((("gone", b"1"),) if content is None else ())


def test_a_header_decides_whether_a_step_looks_into_the_record() -> None:
    marked = JsonStep("mask", Part.VALUE, MaskField(("card",)), Condition.HAS_HEADER, has=b"private")
    assert only((marked,), plain(5, b"no JSON")).value == b"no JSON"
    assert only((marked,), plain(5, value(5), headers=(("private", None),))).value == b'{"card":"","n":5}'
    others = JsonStep("mask", Part.VALUE, MaskField(("card",)), Condition.HAS_HEADER, negated=True, has=b"public")
    assert only((others,), plain(5, b"no JSON", headers=(("public", b""),))).value == b"no JSON"


def test_keys_are_made_of_values_and_masked_by_themselves() -> None:
    steps: Steps = (
        JsonStep("key", Part.KEY_FROM_VALUE, ValueToKey(("n",))),
        JsonStep("hide", Part.KEY, MaskField(("n",))),
    )
    assert only(steps[:1], plain(5, value(5), key=b"no JSON")).key == b'{"n":5}'
    found = only(steps, plain(5, value(5)))
    assert (found.key, found.value) == (b'{"n":0}', value(5))


@pytest.mark.parametrize("append_time", [False, True])
def test_the_time_that_is_inserted_is_the_one_that_consumers_see(*, append_time: bool) -> None:
    steps: Steps = (JsonStep("t", Part.VALUE, InsertField(timestamp="at", topic="to", place=("A.orders", 0))),)
    attributes = {"attributes": LOG_APPEND_TIME, "max_timestamp": 9_999} if append_time else {}
    made = flow(Heard(), 5, steps=steps)
    made.put(fetched(5, 6, encode([plain(5, b"{}")], **attributes)))
    (found,) = of(take_all(made))
    assert json.loads(found.value or b"") == {"to": "A.orders", "at": 9_999 if append_time else 1_005}
