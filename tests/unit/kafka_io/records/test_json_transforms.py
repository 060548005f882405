"""What a step can't take is an error of its record, whatever Python raises. What can't be read is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mirror_connect.connectors.json_steps.configured import json_change
from mirror_connect.connectors.record_errors import RecordError
from mirror_connect.connectors.record_steps import JsonChange, JsonForm, JsonStep, Part
from mirror_connect.kafka_io.records import varint
from mirror_connect.kafka_io.records.json_transforms import transformed_json

MASK = json_change("MaskField", {"fields": "card"}, "")


def record(value: bytes) -> bytes:
    return varint.encoded(-1) + varint.encoded(len(value)) + value + b"\x00"


def transformed(value: bytes, change: JsonChange, form: JsonForm) -> bytes | None:
    return transformed_json(record(value), (JsonStep("mask", Part.VALUE, change, value=form),), 7, 0)


class Raises(JsonChange):
    def __init__(self, error: Exception) -> None:
        self.error = error

    def apply(self, value: Any, timestamp: int) -> Any:
        raise self.error


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ValueError("4111"), "can't take"),
        (OverflowError("4111"), "can't take"),
        (UnicodeEncodeError("utf-8", "4111", 0, 1, "4111"), "can't take"),
        (RecursionError("4111"), "nested too deeply"),
    ],
)
def test_what_a_step_raises_is_an_error_of_the_record_without_a_part_of_it(error: Exception, why: str) -> None:
    with pytest.raises(RecordError, match=f"offset 7, transformation mask: .*{why}") as raised:
        transformed(b'{"card":"4111"}', Raises(error), JsonForm(schemas=False))
    assert "4111" not in str(raised.value)


@pytest.mark.parametrize("data", [b"", b"\x01", record(b"{}")[:-2], record(b"{}") + b"\x00"])
def test_bytes_that_are_no_record_are_none(data: bytes) -> None:
    with pytest.raises((ValueError, IndexError)):
        transformed_json(data, (JsonStep("mask", Part.VALUE, MASK),), 7, 0)


def envelope(digits: int) -> bytes:
    fields = [
        {"type": "string", "optional": True, "field": "card"},
        {
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": {"scale": str(digits)},
            "field": "sum",
        },
    ]
    schema = json.dumps({"type": "struct", "fields": fields}).encode()
    return b'{"schema":%b,"payload":{"card":"4111","sum":0.%b}}' % (schema, b"7" * digits)


def test_a_decimal_of_too_many_digits_is_an_error_of_the_record() -> None:
    base64, numeric = JsonForm(schemas=True), JsonForm(schemas=True, numeric_decimals=True)
    assert transformed(envelope(4300), MASK, base64) is not None
    with pytest.raises(RecordError, match="the new value has a decimal of more than 4300 digits"):
        transformed(envelope(4301), MASK, base64)
    as_number = transformed(envelope(4301), MASK, numeric)
    assert as_number is not None
    assert b"7" * 4301 in as_number


@pytest.mark.parametrize(
    ("kind", "text"), [("float64", b"1.0"), ("string", b'"1"'), ("boolean", b"true"), ("int8", b"1")]
)
def test_an_integer_beyond_64_bits_is_cast_by_its_lower_ones(kind: str, text: bytes) -> None:
    number = 1 + (1 << 1100)
    with pytest.raises(OverflowError):
        float(number)
    cast = json_change("Cast", {"spec": f"n:{kind}"}, "")
    found = transformed(b'{"n":%d}' % number, cast, JsonForm(schemas=False))
    assert found == record(b'{"n":%b}' % text)
