"""Envelopes are read whole, whatever was read before them, and errors show nothing of what they hold."""

from __future__ import annotations

from typing import Any

import pytest

from mirror_connect.connectors.json_steps.configured import json_change
from mirror_connect.connectors.record_errors import RecordError, StepError
from mirror_connect.connectors.record_steps import Action, Condition, JsonForm, JsonStep, Part, Step, Steps
from mirror_connect.kafka_io.records import varint
from mirror_connect.kafka_io.records.json_envelope import read, written
from mirror_connect.kafka_io.records.json_transforms import transformed_json

FORM = JsonForm(schemas=True)
NUMBER = b'{"schema":{"type":"int32","optional":true},"payload":'
MASK = JsonStep("mask", Part.VALUE, json_change("MaskField", {"fields": "card"}, ""), value=FORM)


def value_of(text: bytes) -> Any:
    return read(text, FORM)[1]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (NUMBER + b"1}", 1),
        (NUMBER + b" 2 } ", 2),
        (NUMBER + b"null}", None),
        (NUMBER + b'3,"payload":4}', 4),
        (NUMBER + b'5,"schema":{"type":"string"},"payload":"x"}', "x"),
        (NUMBER + b"6}", 6),
        (b'{"payload":7,"schema":{"optional":true,"type":"int32"}}', 7),
        (b'{ "schema": {"type":"int32"}, "payload": 8}', 8),
        (NUMBER + b"9.0}", 9),
    ],
)
def test_the_last_member_of_a_name_counts_however_the_text_begins(text: bytes, value: object) -> None:
    # The first one has its beginning remembered.
    assert value_of(NUMBER + b"0}") == 0
    assert value_of(text) == value


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"}", "is no JSON at character 54"),
        (b"1}}", "is no JSON"),
        (b'1,"more":2}', "is no envelope"),
        (b'"4111"}', "an int32 is wanted"),
        (b"2147483648}", "an int32 is wanted"),
        (b"1.5}", "an int32 is wanted"),
        (b"1e999999999}", "an int32 is wanted"),
        (b"1e99999999999999999999}", "NaN, Infinity, or a number"),
        (b"NaN}", "NaN, Infinity, or a number"),
        (b"[" * 100_000 + b"}", "nested too deeply"),
    ],
)
def test_what_its_schema_does_not_say_is_refused_without_a_part_of_it(payload: bytes, why: str) -> None:
    assert value_of(NUMBER + b"0}") == 0
    with pytest.raises(StepError, match=why) as raised:
        value_of(NUMBER + payload)
    assert "4111" not in str(raised.value)


def test_a_schema_that_is_nested_too_deeply_is_refused() -> None:
    schema = b'{"type":"array","items":' * 3000 + b'{"type":"int8"}' + b"}" * 3000
    with pytest.raises(StepError, match="nested too deeply"):
        value_of(b'{"schema":%b,"payload":[]}' % schema)


@pytest.mark.parametrize("data", [b"", b" ", b"null", b"1", b'{"card":"4111"}', b'{"schema":null}'])
def test_plain_json_is_refused_with_what_to_set(data: bytes) -> None:
    with pytest.raises(StepError, match=r"no envelope .*If it is plain JSON, set schemas\.enable=false"):
        read(data, FORM)


def test_a_schema_of_null_is_json_without_a_schema() -> None:
    assert read(b'{"schema":null,"payload":{"a":1.10}}', FORM) == (None, {"a": 1.1})
    assert written(None, {"a": 1.1}, FORM) == b'{"schema":null,"payload":{"a":1.1}}'
    assert written(None, None, FORM) is None


def test_half_of_a_surrogate_pair_stays() -> None:
    schema, value = read(b'{"schema":{"type":"string"},"payload":"\\ud800"}', FORM)
    assert written(schema, value, FORM) == b'{"schema":{"type":"string","optional":false},"payload":"\\ud800"}'


def kept(value: bytes | None, steps: Steps) -> bool:
    field = varint.encoded(-1) if value is None else varint.encoded(len(value)) + value
    return transformed_json(varint.encoded(-1) + field + b"\x00", steps, 0, 0) is not None


@pytest.mark.parametrize(
    ("value", "tombstone"),
    [
        (None, True),
        (b'{"schema":{"type":"string","optional":true},"payload":null}', True),
        (b'{"schema":{"type":"string","optional":true,"default":"x"},"payload":null}', False),
        (b'{"schema":null,"payload":null}', True),
        (b'{"schema":{"type":"string"},"payload":"null"}', False),
        (b'{"schema":{"type":"string"},"payload":"x"}', False),
    ],
)
def test_an_envelope_without_a_payload_is_a_tombstone(value: bytes | None, tombstone: bool) -> None:
    never = JsonStep("mask", Part.VALUE, MASK.change, Condition.HAS_HEADER, has=b"there is none", value=FORM)
    drop = Step(Action.FILTER, Condition.IS_TOMBSTONE)
    assert kept(value, (drop, never)) is not tombstone


def test_a_condition_that_can_not_be_decided_is_an_error_of_the_step_that_reads_values() -> None:
    with pytest.raises(RecordError, match="transformation mask: the value is no JSON"):
        kept(b'{"schema":null', (Step(Action.FILTER, Condition.IS_TOMBSTONE), MASK))
