"""The settings of Kafka's transformations that look into JSON keys and values. Names, order and texts are Kafka 4.3.1's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mirror_connect.connectors.config.table import (
    BOOLEAN,
    HIGH,
    LIST,
    LOW,
    MEDIUM,
    REQUIRED,
    STRING,
    Key,
    Quote,
)
from mirror_connect.connectors.config.validators import distinct, not_empty, one_of, one_of_in_any_case
from mirror_connect.connectors.config.values import java_text, trim

CAST_TYPES: Final = ("INT8", "INT16", "INT32", "INT64", "FLOAT32", "FLOAT64", "BOOLEAN", "STRING")
# Types of Connect that nothing can be cast to.
_OTHER_TYPES: Final = ("ARRAY", "BYTES", "MAP", "STRUCT")
TIMESTAMP_TYPES: Final = ("string", "unix", "Date", "Time", "Timestamp")
PRECISIONS: Final = ("nanoseconds", "microseconds", "milliseconds", "seconds")


class WrongSpec(Exception):
    """A list of renames or casts has an entry of another form; the text is Kafka's. `invalid`: it quotes the list."""

    def __init__(self, text: str, *, invalid: str | None = None) -> None:
        super().__init__(text)
        self.invalid = invalid


def renames_of(entries: Sequence[str]) -> dict[str, str]:
    """Former name → new name, of entries `former:new`. WrongSpec."""
    found = {}
    for entry in entries:
        parts = _split(entry)
        if len(parts) != 2:
            raise WrongSpec(f"Invalid rename mapping: {entry}", invalid=java_text(list(entries)))
        found[parts[0]] = parts[1]
    return found


def casts_of(entries: Sequence[str]) -> dict[str | None, str]:
    """Field → type, of entries `field:type`; None → type if the list is one type for the whole. WrongSpec."""
    if not entries:
        raise WrongSpec("Must specify at least one field to cast.")
    found: dict[str | None, str] = {}
    for entry in entries:
        parts = _split(entry)
        if len(parts) > 2:
            raise WrongSpec(f"Invalid rename mapping: {entry}", invalid=java_text(list(entries)))
        found[trim(parts[0]) if len(parts) == 2 else None] = _cast_type(trim(parts[-1] if parts else ""))
    if None in found and len(entries) > 1:
        raise WrongSpec(
            "Cast transformations that specify a type to cast the entire value to may only specify a single cast in their "
            "spec"
        )
    return found


def _cast_type(text: str) -> str:
    name = text.upper()
    if name in CAST_TYPES:
        return name
    if name in _OTHER_TYPES:
        raise WrongSpec(
            f"Cast transformation does not support casting to {name}; supported types are [{', '.join(CAST_TYPES)}]"
        )
    raise WrongSpec(
        "Invalid value java.lang.IllegalArgumentException: No enum constant "
        f"org.apache.kafka.connect.data.Schema.Type.{name} for configuration Invalid type found in casting spec: {text}"
    )


def _split(text: str) -> list[str]:
    """Java's `split(":")`: without what is empty at the end, but for an empty text."""
    parts = text.split(":")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return [] if parts == [""] and text else parts


def _renames(name: str, value: Any, quote: Quote) -> str | None:
    return _checked(renames_of, "renames", value, quote)


def _casts(name: str, value: Any, quote: Quote) -> str | None:
    # Kafka names the setting of ReplaceField in texts of Cast.
    return _checked(casts_of, "renames", value or [], quote)


def _checked(read: Any, setting: str, value: Any, quote: Quote) -> str | None:
    try:
        read(value or [])
    except WrongSpec as error:
        if quote(value) != java_text(value):
            # A provider gave the value, and the text has parts of it.
            return f"Invalid value {quote(value)} for configuration {setting}: an entry of it has another form"
        return (
            str(error)
            if error.invalid is None
            else f"Invalid value {error.invalid} for configuration {setting}: {error}"
        )
    return None


_NULLS: Final = Key(
    "replace.null.with.default",
    BOOLEAN,
    True,
    MEDIUM,
    "Whether a null becomes the default that the schema has. JSON without schemas has no defaults.",
)
_FIELD_LIST: Final = distinct(empty=False)

OF_JSON: Final[Mapping[str, tuple[Key, ...]]] = {
    "Cast": (
        Key("spec", LIST, REQUIRED, HIGH,
            "Pairs field:type, or one type for the whole: int8, int16, int32, int64, float32, float64, boolean, string.",
            validator=_casts),
        _NULLS,
    ),
    "ExtractField": (
        Key("field", STRING, REQUIRED, MEDIUM, "Name of the field that takes the place of the whole."),
        _NULLS,
        Key("field.syntax.version", STRING, "V1", HIGH,
            "V1: field is a name. V2: it is a path, with dots between names and backticks around those that have dots.",
            validator=one_of_in_any_case("V1", "V2")),
    ),
    "Flatten": (
        Key("delimiter", STRING, ".", MEDIUM, "What stands between the names of nested fields."),
    ),
    "HoistField": (
        Key("field", STRING, REQUIRED, MEDIUM, "Name of the one field of the new object, which holds the whole."),
    ),
    "InsertField": (
        Key("topic.field", STRING, None, MEDIUM, "Field that gets the name of the remote topic."),
        Key("partition.field", STRING, None, MEDIUM, "Field that gets the number of the partition."),
        Key("offset.field", STRING, None, MEDIUM, "Of sink connectors only."),
        Key("timestamp.field", STRING, None, MEDIUM, "Field that gets the record's timestamp, in milliseconds."),
        Key("static.field", STRING, None, MEDIUM, "Field that gets static.value."),
        Key("static.value", STRING, None, MEDIUM, "Value of static.field, a text."),
        _NULLS,
    ),
    "MaskField": (
        Key("fields", LIST, REQUIRED, HIGH, "Names of the fields to mask.", validator=_FIELD_LIST),
        Key("replacement", STRING, None, LOW,
            "What texts and numbers become. Without it: an empty text, 0, false, an empty list or an empty object.",
            validator=not_empty),
        _NULLS,
    ),
    "ReplaceField": (
        Key("exclude", LIST, [], MEDIUM, "Fields to leave out; wins over include.", validator=distinct()),
        Key("include", LIST, [], MEDIUM, "Fields to keep; empty: all.", validator=distinct()),
        Key("renames", LIST, [], MEDIUM, "Pairs former:new.", validator=_renames),
        _NULLS,
    ),
    "TimestampConverter": (
        Key("field", STRING, "", HIGH, "The field with the timestamp; empty: the whole is one."),
        Key("target.type", STRING, REQUIRED, HIGH, "What it becomes. JSON without schemas has no Date, Time or Timestamp.",
            validator=one_of(*TIMESTAMP_TYPES)),
        Key("format", STRING, "", MEDIUM, "The form of texts, as Java's SimpleDateFormat has it."),
        Key("unix.precision", STRING, "milliseconds", LOW, "The unit of numbers.", validator=one_of(*PRECISIONS)),
        _NULLS,
    ),
    "ValueToKey": (
        Key("fields", LIST, REQUIRED, HIGH, "Fields of the value that make the new key.", validator=_FIELD_LIST),
        _NULLS,
    ),
}  # fmt: skip
