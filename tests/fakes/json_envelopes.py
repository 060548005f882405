"""Envelopes of Kafka's JsonConverter with schemas, made up by a seed: for comparing with Kafka's own classes."""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tests.fakes.json_records import FIELDS, FORMATS, Configured, a_date, a_time

_NUMBERS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_PACKAGE: Final = "org.apache.kafka.connect.data."
_LOGICAL: Final = {"Date": "int32", "Time": "int32", "Timestamp": "int64", "Decimal": "bytes"}
_TEXTS: Final = ("", "x", "grün", "😀", "12", "-7", "300", "1.5", "NaN", "true", 'a"b\\c', "\u0000\u001f", "2020-01-02")
_LEAVES: Final = (*_NUMBERS, "float", "double", "boolean", "string", "string", "bytes", *_LOGICAL)
# A number as it is to stand in JSON, with its zeros.
_RAW: Final = re.compile(r'"@([^"@]+)@"')


_WRONG_SCHEMAS: Final = (
    *({"type": "int99"}, {"type": "struct"}, {"type": "array"}, {"type": "map", "keys": {"type": "int32"}}, 5),
    {"type": "struct", "fields": [{"type": "int8", "field": "a"}, {"type": "int8", "field": "a"}]},
    {"type": "struct", "fields": [{"type": "int8", "field": ""}]},
    {"type": "int32", "optional": True, "parameters": {"a": 1}},
    {"type": "struct", "fields": [{"type": "int8", "field": "a"}], "default": {"a": 1}},
)


class Envelope(NamedTuple):
    """A key or value. `wrong`: its payload is not what its schema says, and Kafka may make something else of it."""

    text: bytes | None
    wrong: bool = False


class EnvelopeRecord(NamedTuple):
    """A record of two of them."""

    key: Envelope
    value: Envelope
    timestamp: int


def converter(chance: random.Random) -> dict[str, str]:
    """Settings of a JsonConverter, mostly with schemas."""
    return {
        "schemas.enable": "false" if chance.random() < 0.1 else "true",
        "decimal.format": chance.choice(("BASE64", "NUMERIC")),
        "replace.null.with.default": chance.choice(("true", "true", "false")),
    }


def a_leaf_schema(chance: random.Random) -> dict[str, Any]:
    """The schema of anything but a list, map or struct."""
    kind = chance.choice(_LEAVES)
    if kind in _LOGICAL:
        found: dict[str, Any] = {"type": _LOGICAL[kind], "name": f"{_PACKAGE}{kind}", "version": 1}
        if kind == "Decimal":
            found["parameters"] = {"scale": str(chance.choice((0, 2, 2, 5, -2)))}
            if chance.random() < 0.2:
                found["parameters"]["connect.decimal.precision"] = "9"
        return found
    return {"type": kind}


def a_schema(chance: random.Random, depth: int = 0) -> dict[str, Any]:
    """The schema of any type, with whatever a schema may have."""
    draw = chance.random()
    if depth == 0 or (depth < 3 and draw < 0.2):
        names = chance.sample(FIELDS, chance.randrange(1 if depth else 2, len(FIELDS)))
        fields = [{**a_schema(chance, depth + 1), "field": name} for name in names]
        found: dict[str, Any] = {"type": "struct", "fields": fields}
    elif depth < 3 and draw < 0.27:
        found = {"type": "array", "items": a_schema(chance, depth + 1)}
    elif depth < 3 and draw < 0.33:
        keys = {"type": chance.choice(("string", "string", "string", "int32", "int64"))}
        found = {"type": "map", "keys": keys, "values": a_schema(chance, depth + 1)}
    else:
        found = a_leaf_schema(chance)
    if chance.random() < 0.45:
        found["optional"] = chance.random() < 0.8
    if "name" not in found and chance.random() < 0.15:
        found |= {"name": chance.choice(("com.example.Order", "x")), "version": chance.choice((1, 7))}
    if chance.random() < 0.1:
        found["doc"] = "what it is"
    if "parameters" not in found and chance.random() < 0.08:
        found["parameters"] = {"p": "1", "a": "ü"}
    if chance.random() < 0.25 and (found["type"] != "struct" or chance.random() < 0.02):
        found["default"] = a_payload(chance, {**found, "optional": False})
    members = list(found.items())
    if chance.random() < 0.1:
        chance.shuffle(members)
    return dict(members)


def a_payload(chance: random.Random, schema: Mapping[str, Any]) -> Any:
    """A payload as the schema says."""
    if chance.random() < 0.15 and ("default" in schema or schema.get("optional") is True):
        return None
    kind = schema["type"]
    if kind == "struct":
        found = {each["field"]: a_payload(chance, each) for each in schema["fields"]}
        # What is null may be missing.
        found = {name: each for name, each in found.items() if each is not None or chance.random() < 0.7}
        return found | ({"more": 1} if chance.random() < 0.03 else {})
    if kind == "array":
        return [a_payload(chance, schema["items"]) for _ in range(chance.randrange(3))]
    if kind == "map":
        pairs = [(a_payload(chance, schema["keys"]), a_payload(chance, schema["values"])) for _ in range(2)]
        return dict(pairs) if schema["keys"]["type"] == "string" else [list(each) for each in pairs]
    name = str(schema.get("name", "")).removeprefix(_PACKAGE)
    return _LEAF[name if name in _LOGICAL else kind](chance, schema)


def _number(chance: random.Random, schema: Mapping[str, Any]) -> int:
    bits = _NUMBERS[schema["type"]] - 1
    if chance.random() < 0.3:
        return chance.choice((0, -1, 1, (1 << bits) - 1, -(1 << bits)))
    small = chance.randrange(1, bits + 1)
    return chance.randrange(-(1 << small), 1 << small)


def _decimal(chance: random.Random, schema: Mapping[str, Any]) -> str:
    scale = int(schema["parameters"]["scale"])
    unscaled = chance.choice((0, 1, -1, 127, 128, -128, -129, chance.randrange(-(10**17), 10**17)))
    if chance.random() < 0.5:
        bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
        return base64.b64encode(unscaled.to_bytes(bits // 8 + 1, "big", signed=True)).decode()
    return f"@{unscaled}@" if chance.random() < 0.2 or scale <= 0 else f"@{unscaled}e-{scale}@"


def _text(chance: random.Random, _: Mapping[str, Any]) -> str:
    return chance.choice((*_TEXTS, a_date(chance, chance.choice(FORMATS))))


_LEAF: Final[Mapping[str, Callable[[random.Random, Mapping[str, Any]], Any]]] = {
    **dict.fromkeys(_NUMBERS, _number),
    # Of few digits: Java 17 does not write the shortest text of others.
    "float": lambda chance, _: chance.choice((chance.randrange(-8000, 8000) / 8, 3, -2)),
    "double": lambda chance, _: chance.choice((1.5, 0, -7, 1e10, 3e9, 1e-7, 1e19, round(chance.uniform(-1e6, 1e6), 3))),
    "boolean": lambda chance, _: chance.random() < 0.5,
    "string": _text,
    "bytes": lambda chance, _: base64.b64encode(chance.randbytes(chance.randrange(5))).decode(),
    "Date": lambda chance, _: chance.randrange(-200_000, 50_000),
    "Time": lambda chance, _: chance.choice((0, 86_400_000, chance.randrange(86_400_000))),
    "Timestamp": lambda chance, _: chance.choice((0, 86_400_000 * 3, a_time(chance))),
    "Decimal": _decimal,
}


def _spoilt(chance: random.Random, payload: Any) -> Any:
    """The payload with something in it that is of another type."""
    if isinstance(payload, dict) and payload and chance.random() < 0.9:
        name = chance.choice(list(payload))
        return {**payload, name: _spoilt(chance, payload[name])}
    return chance.choice(
        [each for each in (True, "no", 1.5, {"x": 1}, [1], 1 << 70, None) if type(each) is not type(payload)]
    )


def _text_of(value: Any, chance: random.Random) -> bytes:
    separators = chance.choice(((",", ":"), (",", ":"), (", ", ": ")))
    text = json.dumps(value, ensure_ascii=chance.random() < 0.3, separators=separators)
    return _RAW.sub(r"\1", text).encode()


def an_envelope(
    chance: random.Random, schema: Mapping[str, Any], settings: Mapping[str, str], formats: Mapping[str, str]
) -> Envelope:
    """A key or value of the schema as its converter reads it, now and then with something wrong.

    `formats`: of the texts in some fields; an empty name is the whole.
    """
    payload = a_payload(chance, schema)
    if payload is not None and schema["type"] == "string" and "" in formats:
        payload = a_date(chance, formats[""])
    for each in schema.get("fields", ()):
        if each["field"] in formats and each["type"] == "string" and payload is not None:
            payload[each["field"]] = a_date(chance, formats[each["field"]])
    if settings["schemas.enable"] == "false":
        return Envelope(_text_of(payload, chance))
    draw = chance.random()
    envelope = {"schema": schema, "payload": payload}
    if draw < 0.03:
        texts = (
            b"",
            b"null",
            b"{}",
            b'{"schema":{"type":"int32"}}',
            b'{"payload":1}',
            b"[1]",
            b'{"schema":',
            None,
            None,
        )
        return Envelope(chance.choice(texts))
    if draw < 0.04:
        envelope["more"] = 1
    elif draw < 0.08:
        plain = chance.choice((payload, payload, None, [1], 1, "x", {"a": {"b": 1}, "t": 1_600_000_000_000}))
        envelope = {"schema": None, "payload": plain}
    elif draw < 0.09:
        envelope["schema"] = chance.choice(_WRONG_SCHEMAS)
    elif draw < 0.13:
        envelope["payload"] = _spoilt(chance, payload)
    elif draw < 0.2:
        envelope = {"payload": payload, "schema": schema}
    return Envelope(_text_of(envelope, chance), wrong=0.09 <= draw < 0.13)


def envelopes_for(
    chance: random.Random, chain: Sequence[Configured], converters: Mapping[str, Mapping[str, str]], count: int
) -> list[EnvelopeRecord]:
    """Records of a few schemas. Some have what the chain looks for: texts of its format in the fields that it converts."""
    formats = {
        settings["field"]: settings["format"]
        for name, settings in chain
        if name.startswith("Timestamp") and "format" in settings
    }
    schemas = {part: [_schema_for(chance, formats) for _ in range(3)] for part in ("key", "value")}
    return [
        EnvelopeRecord(
            *(
                an_envelope(chance, chance.choice(schemas[part]), converters[part], formats)
                for part in ("key", "value")
            ),
            a_time(chance),
        )
        for _ in range(count)
    ]


def with_nulls(chance: random.Random, chain: Sequence[Configured]) -> list[Configured]:
    """The chain with what counts for schemas: replace.null.with.default. No rename is of a field that is left out.

    Kafka then gives another field's value, and here the record fails.
    """
    found = []
    for name, settings in chain:
        more = dict(settings)
        if not name.startswith(("Flatten", "Hoist")) and chance.random() < 0.4:
            more["replace.null.with.default"] = chance.choice(("true", "false"))
        left_out = {each for each in more.get("exclude", "").split(",") if each}
        kept = {each for each in more.get("include", "").split(",") if each}
        former = {each.partition(":")[0] for each in more.get("renames", "").split(",") if each}
        if former & left_out or (kept and former - kept):
            del more["renames"]
        found.append((name, more))
    return found


def _schema_for(chance: random.Random, formats: Mapping[str, str]) -> dict[str, Any]:
    if chance.random() < 0.15:
        return a_schema(chance, depth=3 if "" in formats or chance.random() < 0.7 else 1)
    schema = a_schema(chance)
    for each in schema.get("fields", ()):
        if each["field"] in formats and chance.random() < 0.8:
            kind = chance.choice(
                ({"type": "string"}, {"type": "int64"}, {"type": "int64", "name": f"{_PACKAGE}Timestamp"})
            )
            for former in ("type", "name", "version", "parameters", "default", "fields", "items", "keys", "values"):
                each.pop(former, None)
            each.update(kind)
    return schema
