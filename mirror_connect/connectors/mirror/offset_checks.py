"""What a connector says of source offsets that somebody wants to set: MirrorMaker's rules (MirrorUtils), in its words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mirror_connect.connectors.config.config_values import java_text
from mirror_connect.connectors.records.internal_json import is_integer

OFFSET: Final = "offset"
PARTITION: Final = "partition"
_INT_MAX: Final = 2**31 - 1


class RefusedOffset(Exception):
    """A source partition or offset that is not of the connector's form; the text is MirrorMaker's."""


def check_text(partition: Mapping[str, Any], key: str) -> None:
    """The partition has this key, and its value is text."""
    value = _member(partition, key)
    if not isinstance(value, str):
        raise _invalid(partition, key, value, ", which must be a string")


def check_partition_number(partition: Mapping[str, Any]) -> None:
    """`partition` is the number of a topic's partition."""
    value = _member(partition, PARTITION)
    if not is_integer(value) or value > _INT_MAX:
        raise _invalid(partition, PARTITION, value, ", which must be an integer")
    if value < 0:
        raise _invalid(partition, PARTITION, value, ", which cannot be negative")


def check_offset(partition: Mapping[str, Any], offset: Mapping[str, Any], *, only_zero: bool = False) -> None:
    """`offset` is an integer from 0 on, or 0 alone: some connectors keep offsets that mean nothing."""
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
