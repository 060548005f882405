"""Keys and values as Kafka's JsonConverter has them with schemas.enable=true: `{"schema": …, "payload": …}`.

The schema is most of such a text, and nearly always the one of the record before. So its text is compared, and not parsed.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, Final

from mirror_connect.connectors.json_steps.connect_schema import Schema
from mirror_connect.connectors.json_steps.kept_schemas import KEPT, Known
from mirror_connect.connectors.json_steps.payload import reader_of, writer_of
from mirror_connect.connectors.json_steps.schema_json import schema_of, schema_text
from mirror_connect.connectors.record_errors import StepError
from mirror_connect.connectors.record_steps import JsonForm
from mirror_connect.kafka_io.records import json_text

_BEGIN: Final = b'{"schema":'
_MIDDLE: Final = ',"payload":'
_decoder: Final = json.JSONDecoder(parse_float=Decimal, parse_constant=json_text.no_constant)
_NO_ENVELOPE: Final = (
    "is no envelope of a schema and a payload, which schemas.enable=true needs. If it is plain JSON, set "
    "schemas.enable=false"
)


def read(data: bytes | None, form: JsonForm) -> tuple[Schema | None, Any]:
    """The schema and the value of an envelope; None and None if there is no text. StepError.

    Without a schema the value is parsed JSON as json_text.read gives it.
    """
    if data is None:
        return None, None
    try:
        return _read(data, form)
    except RecursionError:
        raise StepError("is JSON that is nested too deeply") from None


def _read(data: bytes, form: JsonForm) -> tuple[Schema | None, Any]:
    for known in KEPT.newest[form.replace_nulls]:
        if data.startswith(known.begin) and data.endswith(b"}"):
            try:
                payload = _decoder.decode(data[len(known.begin) : -1].decode())
            except (ValueError, ArithmeticError):
                break  # what is wrong is told below
            return known.schema, reader_of(known.schema, replace_nulls=form.replace_nulls)(payload)
    envelope = json_text.decoded(data, _decoder.decode)
    if type(envelope) is not dict or len(envelope) != 2 or not envelope.keys() >= {"schema", "payload"}:
        raise StepError(_NO_ENVELOPE)
    if envelope["schema"] is None:
        # As a whole once more: its numbers are those of JSON without schemas.
        return None, json_text.read(data)["payload"]
    schema = _remembered(envelope["schema"], data, form)
    return schema, reader_of(schema, replace_nulls=form.replace_nulls)(envelope["payload"])


def _remembered(node: Any, data: bytes, form: JsonForm) -> Schema:
    replace_nulls = form.replace_nulls
    name = repr(node)
    schema = KEPT.find(name, replace_nulls=replace_nulls)
    if schema is None:
        schema = schema_of(node, replace_nulls=replace_nulls)
        if not KEPT.keep(name, schema, replace_nulls=replace_nulls):
            return schema
    if data.startswith(_BEGIN + b"{"):
        text = data.decode()
        first, end = _decoder.raw_decode(text, len(_BEGIN))
        # An object may have two members of one name, of which the last counts.
        if text.startswith(_MIDDLE, end) and repr(first) == name:
            known = Known(text[: end + len(_MIDDLE)].encode(), schema)
            KEPT.keep_begin(known, replace_nulls=replace_nulls)
    return schema


def written(schema: Schema | None, value: Any, form: JsonForm) -> bytes | None:
    """The text of a value; None makes a tombstone of the record. StepError."""
    if schema is None:
        plain = json_text.written(value)
        return plain if plain is None or not form.schemas else b'{"schema":null,"payload":%b}' % plain
    numeric, replace_nulls = form.numeric_decimals, form.replace_nulls
    try:
        text = writer_of(schema, numeric=numeric, replace_nulls=replace_nulls)(value)
        if form.schemas:
            of_schema = schema_text(schema, numeric=numeric, replace_nulls=replace_nulls)
            text = f'{{"schema":{of_schema},"payload":{text}}}'
    except RecursionError:
        raise StepError("is nested too deeply for JSON") from None
    # Half of a surrogate pair has no form in UTF-8, but an escape.
    return text.encode(errors="backslashreplace")
