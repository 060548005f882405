"""Applies a chain that looks into JSON to the records of a batch, with the steps on bytes beside it.

A key or value is parsed when the first step takes it, at most once, and written again only if a step has changed it. So
what no step changes stays as it is, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

from mirror_connect.connectors.json_steps.connect_schema import Schema
from mirror_connect.connectors.json_steps.with_schemas import changed as changed_with_schema
from mirror_connect.connectors.record_errors import OriginalRecord, RecordError, StepError
from mirror_connect.connectors.record_steps import (
    PLAIN_JSON,
    Action,
    Condition,
    JsonChange,
    JsonForm,
    JsonStep,
    Part,
    Step,
    Steps,
)
from mirror_connect.kafka_io.records import json_envelope, json_text, varint
from mirror_connect.kafka_io.records.record_batch import BatchView, CorruptBatchError
from mirror_connect.kafka_io.records.record_transforms import (
    FEWEST_BYTES,
    MOST_TRANSFORMED,
    TOO_LARGE,
    Header,
    behind,
    headers_of,
    inserted,
)

# Gets a record that can't be transformed, which is then left out. Without one the error is raised.
OnError = Callable[[RecordError], None]
_UNREAD: Final = object()
_NULL: Final = varint.encoded(-1)
# Null as JSON has it; JsonConverter takes nothing but blanks for null, too.
_NULLS: Final = frozenset({b"", b"null"})
_LONGEST_NULL: Final = 64


class Transformed(NamedTuple):
    """The records of a batch after a chain. `failed`: the error before which they end; None: they are whole."""

    data: bytes
    kept: int
    filtered: int
    failed: RecordError | None


@lru_cache(maxsize=1000)
def looks_into_json(steps: Steps) -> bool:
    """Whether any of the steps does."""
    return any(isinstance(each, JsonStep) for each in steps)


@lru_cache(maxsize=1000)
def _reads_values(steps: Steps) -> JsonStep | None:
    """The first step that looks into values."""
    return next((each for each in steps if isinstance(each, JsonStep) and each.part is not Part.KEY), None)


def transform_json(
    data: bytes, view: BatchView, from_offset: int, steps: Steps, on_error: OnError | None
) -> Transformed:
    """The decompressed records `data` of a batch after these steps; those below `from_offset` stay as they are.

    CorruptBatchError for records that can't be read.
    """
    parts: list[bytes] = []
    kept = filtered = size = at = 0
    base, base_timestamp = view.base_offset, view.base_timestamp
    common = view.max_timestamp if view.log_append_time else None
    try:
        for _ in range(view.count):
            length, body = varint.decode(data, at)
            following = body + length
            if length < FEWEST_BYTES or following > len(data):
                raise ValueError("a record in it has an impossible length")
            delta, offset_at = varint.decode(data, body + 1)
            offset, rest_at = varint.decode(data, offset_at)
            offset += base
            before = data[rest_at:following]
            rest: bytes | None = before
            if offset >= from_offset:
                try:
                    rest = transformed_json(before, steps, offset, base_timestamp + delta if common is None else common)
                    filtered += rest is None
                except RecordError as error:
                    if on_error is None:
                        return Transformed(b"".join(parts), kept, filtered, error)
                    on_error(error)
                    rest = None
            if rest is before:
                parts.append(data[at:following])
            elif rest is not None:
                parts += (varint.encoded(rest_at - body + len(rest)), data[body:rest_at], rest)
            kept += rest is not None
            size += 0 if rest is None else len(rest)
            if size > MOST_TRANSFORMED:
                raise OverflowError
            at = following
    except IndexError:
        raise CorruptBatchError(base, "a record in it is cut off") from None
    except ValueError as error:
        raise CorruptBatchError(base, str(error)) from None
    except OverflowError:
        raise CorruptBatchError(base, TOO_LARGE) from None
    if at != len(data):
        raise CorruptBatchError(base, "there are more bytes in it than records")
    return Transformed(b"".join(parts), kept, filtered, None)


def transformed_json(rest: bytes, steps: Steps, offset: int, timestamp: int) -> bytes | None:
    """A record's bytes behind its deltas after these steps, or None if they drop it; the same object if nothing changes.

    RecordError. ValueError or IndexError if they can't be read.
    """
    record = _Record(rest)
    alias = ""
    try:
        for step in steps:
            # Most steps have no condition.
            if (step.condition is Condition.ALWAYS or record.meets(step, steps)) == step.negated:
                continue
            if isinstance(step, JsonStep):
                alias = step.alias
                record.change(step, timestamp)
            elif step.action is Action.FILTER:
                return None
            else:
                record.headers = _with_headers(record.headers, step)
        return record.made()
    except (StepError, ValueError, ArithmeticError, RecursionError) as error:
        # It is this record's, whatever a step or the JSON of it can't take. Its bytes were read before.
        if not alias and (reader := _reads_values(steps)) is not None:
            alias = reader.alias  # a condition could not be decided
        raise RecordError(
            offset,
            alias,
            _reason(error),
            key=record.raw_key,
            value=record.raw_value,
            original=OriginalRecord(timestamp, rest),
        ) from None


def _reason(error: Exception) -> str:
    """Half a sentence. What Python says may show what the record holds."""
    if isinstance(error, StepError):
        return str(error)
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return "it has a number or text that this transformation can't take"


class _Record:
    """One record on its way through the steps. `raw_key`, `raw_value`: as they came; None is null."""

    __slots__ = (
        *("_before", "_headers_at", "_key", "_key_changed", "_key_form", "_key_schema", "_rest"),
        *("_value", "_value_at", "_value_changed", "_value_form", "_value_schema"),
        *("headers", "raw_key", "raw_value"),
    )

    def __init__(self, rest: bytes) -> None:
        self._rest = rest
        length, at = varint.decode(rest, 0)
        self._value_at = value_at = behind(rest, 0)
        self.raw_key = None if length < 0 else rest[at:value_at]
        length, at = varint.decode(rest, value_at)
        self._headers_at = headers_at = behind(rest, value_at)
        self.raw_value = None if length < 0 else rest[at:headers_at]
        self._key: Any = _UNREAD
        self._value: Any = _UNREAD
        # None: without a schema, as all JSON is whose form has none.
        self._key_schema: Schema | None = None
        self._value_schema: Schema | None = None
        self._key_form = self._value_form = PLAIN_JSON
        self._key_changed = self._value_changed = False
        # They are looked at in any case, as a record that can't be read is corrupt.
        self.headers = self._before = headers_of(rest, headers_at)

    def meets(self, step: Step | JsonStep, steps: Steps) -> bool:
        """Whether the record meets the condition of one of the steps. StepError for an envelope that can't be read."""
        if step.condition is Condition.HAS_HEADER:
            return any(name == step.has for name, _ in self.headers)
        if self._value is _UNREAD:
            raw, reader = self.raw_value, _reads_values(steps)
            if raw is None or reader is None:
                return raw is None
            if not reader.value.schemas:
                return len(raw) < _LONGEST_NULL and raw.strip() in _NULLS
            if b"null" not in raw:
                return False
            self._read_value(reader)
        return self._value is None

    def change(self, step: JsonStep, timestamp: int) -> None:
        """Applies a step. StepError."""
        if step.part is Part.KEY:
            if self._key is _UNREAD:
                self._key_form = step.key
                self._key_schema, self._key = _read("key", self.raw_key, step.key)
            before = self._key_schema
            schema, changed = _changed(step.change, before, self._key, timestamp)
            self._key_changed = self._key_changed or changed is not self._key or schema is not before
            self._key_schema, self._key = schema, changed
            return
        if self._value is _UNREAD:
            self._read_value(step)
        before = self._value_schema
        schema, changed = _changed(step.change, before, self._value, timestamp)
        if step.part is Part.KEY_FROM_VALUE:
            self._key_schema, self._key, self._key_form, self._key_changed = schema, changed, step.key, True
        else:
            self._value_changed = self._value_changed or changed is not self._value or schema is not before
            self._value_schema, self._value = schema, changed

    def _read_value(self, step: JsonStep) -> None:
        self._value_form = step.value
        self._value_schema, self._value = _read("value", self.raw_value, step.value)

    def made(self) -> bytes:
        """Its bytes after the steps. StepError."""
        rest = self._rest
        as_they_were = self.headers is self._before
        if as_they_were and not self._key_changed and not self._value_changed:
            return rest
        return b"".join(
            (
                _field("key", self._key_schema, self._key, self._key_form)
                if self._key_changed
                else rest[: self._value_at],
                _field("value", self._value_schema, self._value, self._value_form)
                if self._value_changed
                else rest[self._value_at : self._headers_at],
                rest[self._headers_at :] if as_they_were else _encoded(self.headers),
            )
        )


def _read(part: str, raw: bytes | None, form: JsonForm) -> tuple[Schema | None, Any]:
    try:
        return json_envelope.read(raw, form) if form.schemas else (None, json_text.read(raw))
    except StepError as error:
        raise StepError(f"the {part} {error}") from None


def _changed(change: JsonChange, schema: Schema | None, value: Any, timestamp: int) -> tuple[Schema | None, Any]:
    if schema is None:
        return None, change.apply(value, timestamp)
    return changed_with_schema(change, schema, value, timestamp)


def _field(part: str, schema: Schema | None, value: Any, form: JsonForm) -> bytes:
    """A key or value as it is in a record: its length, then its JSON."""
    try:
        raw = json_envelope.written(schema, value, form)
    except StepError as error:
        raise StepError(f"the new {part} {error}") from None
    return _NULL if raw is None else varint.encoded(len(raw)) + raw


def _encoded(headers: list[Header]) -> bytes:
    return b"".join((varint.encoded(len(headers)), *(whole for _, whole in headers)))


def _with_headers(headers: list[Header], step: Step) -> list[Header]:
    if step.action is Action.INSERT_HEADER:
        return [*headers, inserted(step)]
    left = [each for each in headers if each[0] not in step.headers]
    return left if len(left) < len(headers) else headers
