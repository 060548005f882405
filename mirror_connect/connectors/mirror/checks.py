"""Checks that the mirror connectors share: of settings, and of source offsets that a client wants to set.

They refuse settings that Java accepts, but then fails on at the start or ignores silently. Source offsets are checked by
MirrorMaker's rules (MirrorUtils) and in its words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mirror_connect.connectors.config.table import LIST, ValidatedKey
from mirror_connect.connectors.config.values import java_text, parse
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.filters import NameFilter
from mirror_connect.connectors.records.internal_json import is_integer
from mirror_connect.connectors.user_code.user_class import is_user_class

OFFSET: Final = "offset"
PARTITION: Final = "partition"
_INT_MAX: Final = 2**31 - 1
# List → setting of the class that reads it.
_READ_BY: Final = {
    "topics": "topic.filter.class",
    "topics.exclude": "topic.filter.class",
    "groups": "group.filter.class",
    "groups.exclude": "group.filter.class",
    "config.properties.exclude": "config.property.filter.class",
}

_OF_TRANSFORMS: Final = ("transforms", "predicates")


class RefusedOffset(Exception):
    """A source partition or offset has not the connector's form; the text is MirrorMaker's."""


def check_expressions(
    results: dict[str, ValidatedKey],
    config: Mapping[str, str | None],
    as_written: Mapping[str, str | None],
    names: Sequence[str],
) -> None:
    """Adds an error for each list with a broken regular expression. The list may be declared or only read."""
    for name in names:
        if is_user_class(config.get(_READ_BY[name])):
            continue  # the class defines what the list means
        declared = results.get(name)
        entries = declared.parsed if declared else parse(config.get(name), LIST)[1]
        if (declared and declared.errors) or not isinstance(entries, list):
            continue
        try:
            NameFilter.compile(name, entries)
        except ConfigError as error:
            referenced = as_written.get(name) != config.get(name)
            text = ConfigError(name, as_written.get(name), "Not a regular expression") if referenced else error
            undeclared = ValidatedKey(name, None, java_text(as_written.get(name)), None, [])
            results.setdefault(name, undeclared).errors.append(str(text))


def refuse_transforms(results: dict[str, ValidatedKey]) -> None:
    """Refuses transformations of records that this product reads itself: checkpoints and heartbeats."""
    if results["transforms"].parsed and not results["transforms"].errors:
        results["transforms"].errors.append(
            f"Invalid value {results['transforms'].value} for configuration transforms: "
            "this connector writes records in MirrorMaker's own format, which its readers need: leave it out"
        )


def without_transforms(config: Mapping[str, str | None]) -> dict[str, str | None]:
    """A config without its transformations, for the connectors that apply none."""
    return {name: value for name, value in config.items() if not name.startswith(_OF_TRANSFORMS)}


def idle_transforms(config: Mapping[str, str]) -> list[str]:
    """A line about a flow's transformations, for the connectors that apply none."""
    if not parse(config.get("transforms"), LIST)[1]:
        return []
    return [
        f"transforms={config['transforms']} has no effect on this connector, whose records have MirrorMaker's own format: "
        "it applies to what the source connector copies"
    ]


def check_text(partition: Mapping[str, Any], key: str) -> None:
    """Checks that the partition has this key with a text."""
    value = _member(partition, key)
    if not isinstance(value, str):
        raise _invalid(partition, key, value, ", which must be a string")


def check_partition_number(partition: Mapping[str, Any]) -> None:
    """Checks that `partition` is a partition number."""
    value = _member(partition, PARTITION)
    if not is_integer(value) or value > _INT_MAX:
        raise _invalid(partition, PARTITION, value, ", which must be an integer")
    if value < 0:
        raise _invalid(partition, PARTITION, value, ", which cannot be negative")


def check_offset(partition: Mapping[str, Any], offset: Mapping[str, Any], *, only_zero: bool = False) -> None:
    """Checks that `offset` is an integer, not negative. `only_zero`: it must be 0, because the offset has no use."""
    what = f"Source offset {java_text(offset)} for source partition {java_text(partition)}"
    if OFFSET not in offset:
        raise RefusedOffset(f"{what} is missing the '{OFFSET}' key, which is required")
    value = offset[OFFSET]
    wrong = f"{what} has an invalid value {java_text(value)} for the '{OFFSET}' key"
    if not is_integer(value):
        raise RefusedOffset(f"{wrong}, which must be an integer")
    if only_zero and value != 0:
        raise RefusedOffset(f"{wrong}; the only accepted value is 0")
    if value < 0:
        raise RefusedOffset(f"{wrong}, which cannot be negative")


def _member(partition: Mapping[str, Any], key: str) -> Any:
    if key not in partition:
        raise RefusedOffset(f"Source partition {java_text(partition)} is missing the '{key}' key, which is required")
    return partition[key]


def _invalid(partition: Mapping[str, Any], key: str, value: object, rule: str) -> RefusedOffset:
    whole = java_text(partition)
    return RefusedOffset(f"Source partition {whole} has an invalid value {java_text(value)} for the '{key}' key{rule}")
