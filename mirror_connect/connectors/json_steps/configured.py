"""From the settings of a transformation that looks into JSON to its step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from mirror_connect.connectors.config.json_transform_settings import OF_JSON, casts_of, renames_of
from mirror_connect.connectors.config.table import ConfigTable
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.json_steps.cast import Cast
from mirror_connect.connectors.json_steps.field_path import WrongPath, path_of
from mirror_connect.connectors.json_steps.fields import (
    ExtractField,
    Flatten,
    HoistField,
    InsertField,
    MaskField,
    ReplaceField,
    ValueToKey,
)
from mirror_connect.connectors.json_steps.java_date_format import JavaDateFormat, WrongFormat
from mirror_connect.connectors.json_steps.timestamps import TimestampConverter
from mirror_connect.connectors.record_steps import JsonChange

_INSERTED: Final = ("topic", "partition", "timestamp", "static")
# Setting (without its prefix) → value.
_Given = Mapping[str, Any]


class WrongChange(ConfigError):
    """Each setting is right by itself, and yet the transformation can't be made of them here."""


def json_change(name: str, config: Mapping[str, str | None], prefix: str) -> JsonChange:
    """The change of a transformation. `name`: its class without package and part; `prefix`: of its settings.

    ConfigError if Kafka's class can't be configured with these settings, or they can't work here. Its text never has the
    value of a setting, which may be a provider's.
    """
    keys = OF_JSON[name]
    given = {each.name: config[prefix + each.name] for each in keys if prefix + each.name in config}
    results = ConfigTable(*keys).validate_all(given)
    for result in results.values():
        if result.errors:
            raise ConfigError(prefix + result.name, None, "its value is wrong")
    return _MADE[name]({result.name: result.parsed for result in results.values()}, prefix)


def _mask(given: _Given, prefix: str) -> JsonChange:
    return MaskField(tuple(given["fields"]), given["replacement"], given["replace.null.with.default"])


def _replace(given: _Given, prefix: str) -> JsonChange:
    return ReplaceField(
        frozenset(given["exclude"]),
        frozenset(given["include"]),
        renames_of(given["renames"]),
        given["replace.null.with.default"],
    )


def _insert(given: _Given, prefix: str) -> JsonChange:
    topic, partition, timestamp, static = (_field_name(given[f"{each}.field"]) for each in _INSERTED)
    # Kafka's sink connectors have offsets. Of a source connector's records it fails.
    if given["offset.field"] is not None:
        raise WrongChange(f"{prefix}offset.field", None, "only sink connectors have it: leave it out")
    if topic is None and partition is None and timestamp is None and static is None:
        raise WrongChange(f"{prefix}static.field", None, "No field insertion configured")
    if static is not None and given["static.value"] is None:
        raise WrongChange(f"{prefix}static.value", None, "No value specified for static field")
    return InsertField(
        topic,
        partition,
        timestamp,
        None if static is None else (static, given["static.value"]),
        required=frozenset(each for each in _INSERTED if (given[f"{each}.field"] or "").endswith("!")),
        replace_nulls=given["replace.null.with.default"],
    )


def _field_name(text: str | None) -> str | None:
    """The name without the mark for an optional or required field, which only schemas know."""
    return text[:-1] if text and text[-1] in "!?" else text


def _extract(given: _Given, prefix: str) -> JsonChange:
    name = f"{prefix}field"
    try:
        path = path_of(_text(given["field"], name), given["field.syntax.version"])
    except WrongPath:
        raise WrongChange(name, None, "Incomplete backtick pair in the path") from None
    if not path:
        raise WrongChange(name, None, "the path is empty")
    return ExtractField(path, given["replace.null.with.default"])


def _hoist(given: _Given, prefix: str) -> JsonChange:
    return HoistField(_text(given["field"], f"{prefix}field"))


def _flatten(given: _Given, prefix: str) -> JsonChange:
    return Flatten(_text(given["delimiter"], f"{prefix}delimiter"))


def _value_to_key(given: _Given, prefix: str) -> JsonChange:
    return ValueToKey(tuple(given["fields"]), given["replace.null.with.default"])


def _cast(given: _Given, prefix: str) -> JsonChange:
    return Cast(casts_of(given["spec"]), given["replace.null.with.default"])


def _timestamps(given: _Given, prefix: str) -> JsonChange:
    field, target, pattern = _text(given["field"], f"{prefix}field"), given["target.type"], given["format"]
    if target == "string" and not (pattern or "").strip():
        raise WrongChange(
            f"{prefix}format",
            None,
            "TimestampConverter requires format option to be specified when using string timestamps",
        )
    form = None
    if pattern and pattern.strip():
        try:
            form = JavaDateFormat.of(pattern)
        except WrongFormat as error:
            raise WrongChange(f"{prefix}format", None, str(error)) from None
    return TimestampConverter(field, target, given["unix.precision"], form, given["replace.null.with.default"])


def _text(value: Any, name: str) -> str:
    if value is None:
        raise WrongChange(name, None, "it has to be set")
    return str(value)


_MADE: Final[Mapping[str, Callable[[_Given, str], JsonChange]]] = {
    "Cast": _cast,
    "ExtractField": _extract,
    "Flatten": _flatten,
    "HoistField": _hoist,
    "InsertField": _insert,
    "MaskField": _mask,
    "ReplaceField": _replace,
    "TimestampConverter": _timestamps,
    "ValueToKey": _value_to_key,
}
