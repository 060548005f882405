"""The settings of converters in a connector's config, and what these converters would do in Kafka Connect.

Nothing is converted here: batches are copied byte for byte. A JsonConverter only says how transformations may read a key or
value as JSON (connectors/mirror/transforms.py). But tools draw forms from these definitions, and a config that
Connect refuses is refused here, too. Names, order and error texts (without the prefix) are those of Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from mirror_connect.connectors.config.java_maps import in_hash_order
from mirror_connect.connectors.config.plugin_version import NoVersion, unavailable
from mirror_connect.connectors.config.table import (
    BOOLEAN,
    HIGH,
    INT,
    LOW,
    REQUIRED,
    STRING,
    ConfigTable,
    Key,
    ValidatedKey,
)
from mirror_connect.connectors.config.validators import one_of, one_of_in_any_case
from mirror_connect.connectors.user_code.known_classes import (
    BYTE_ARRAY_CONVERTER,
    CONVERTER,
    CONVERTER_ALIASES,
    HEADER_CONVERTER,
    KNOWN_CLASSES,
)

_TYPE: Final = Key(
    "converter.type", STRING, REQUIRED, LOW, "What is converted: key, value or header.", None,
    validator=one_of("key", "value", "header"),
)  # fmt: skip
_PLAIN: Final = ConfigTable(_TYPE)
# fmt: off
JSON_CONVERTER_KEYS: Final = (
    Key("schemas.enable", BOOLEAN, True, HIGH,
        "Whether what transformations look into carries its schema: {\"schema\": …, \"payload\": …}.",
        "Schemas", 0, "MEDIUM", "Enable Schemas"),
    Key("schemas.cache.size", INT, 1000, HIGH, "The most schemas to remember. No effect.",
        "Schemas", 1, "MEDIUM", "Schema Cache Size"),
    Key("schema.content", STRING, None, HIGH,
        "A schema for all values. Of sink connectors only: refused where a transformation looks into JSON with schemas.",
        "Schemas", 2, "MEDIUM", "Schema Content"),
    Key("decimal.format", STRING, "BASE64", LOW,
        "How decimals are written where a transformation has changed what holds them: BASE64 or NUMERIC.",
        "Serialization", 0, "MEDIUM", "Decimal Format", one_of_in_any_case("NUMERIC", "BASE64")),
    Key("replace.null.with.default", BOOLEAN, True, LOW,
        "Whether nulls become the defaults of schemas, where a transformation looks into JSON.",
        "Serialization", 1, "MEDIUM", "Replace null with default"),
)
_TABLES: Final[Mapping[str, ConfigTable]] = {
    "SimpleHeaderConverter": ConfigTable(),
    "StringConverter": ConfigTable(
        _TYPE,
        Key("converter.encoding", STRING, "UTF-8", HIGH, "Character set of the texts. No effect.",
            None, -1, "MEDIUM", "Encoding"),
    ),
    "JsonConverter": ConfigTable(_TYPE, *JSON_CONVERTER_KEYS),
}
# fmt: on


CONVERTER_SETTINGS: Final = ("key.converter", "value.converter", "header.converter")
# What Kafka 4.3.1 makes of MirrorMaker's BYTES, by the converter's simple name.
_WRITTEN: Final = {
    "JsonConverter": "as JSON that holds their bytes in base64",
    "SimpleHeaderConverter": "as base64 text of their bytes",
    "StringConverter": "as texts like [B@1b2c3d, without their bytes",
}
_FAILS: Final = "not at all: the task would fail because they are no numbers"
_OTHERWISE: Final = "whatever that class makes of them"


def converter_table(class_name: str) -> ConfigTable | None:
    """The settings of a converter by its full class name; None if there is no such converter."""
    if not KNOWN_CLASSES.get(class_name, frozenset()) & {CONVERTER, HEADER_CONVERTER}:
        return None
    return _TABLES.get(class_name.rpartition(".")[2], _PLAIN)


def check_converters(
    judged: Mapping[str, ValidatedKey], config: Mapping[str, str | None], as_written: Mapping[str, str | None]
) -> dict[str, ValidatedKey]:
    """Validates the settings of each existing converter that the config names, by their full names.

    `judged`: the config validated by the connector's own tables.
    """
    found: dict[str, ValidatedKey] = {}
    for part in ("header", "key", "value"):
        named = judged.get(f"{part}.converter")
        table = converter_table(named.parsed) if named and named.parsed and not named.errors else None
        if named is None or table is None:
            continue
        prefix = f"{part}.converter."
        version = judged[f"{prefix}plugin.version"]
        try:
            # For a version that doesn't exist, Connect silently checks no setting.
            if (
                config.get(version.name, "latest") is None
                or unavailable(named.name, config.get(version.name)) is not None
            ):
                continue
        except NoVersion as error:
            if as_written.get(version.name) == config.get(version.name):
                version.errors.append(str(error))
            continue
        given = {"converter.type": part, **_below(prefix, config)}
        results = table.validate_all(given, {**given, **_below(prefix, as_written)})
        for result in (results[each] for each in in_hash_order(dict.fromkeys(results))):
            name = prefix + result.name
            # A null is an error already, under a name without a definition.
            if result.key is not None and name not in judged:
                key = replace(result.key, name=name, display=result.key.display or result.key.name)
                found[name] = replace(result, name=name, key=key)
    return found


def _below(prefix: str, config: Mapping[str, str | None]) -> dict[str, str]:
    return {
        name.removeprefix(prefix): value
        for name, value in config.items()
        if name.startswith(prefix) and value is not None
    }


def written_by(class_name: str) -> str | None:
    """How Kafka Connect would write MirrorMaker's bytes with this converter; None if it changes nothing."""
    full = CONVERTER_ALIASES.get(class_name, class_name)
    if full == BYTE_ARRAY_CONVERTER:
        return None
    simple = full.rpartition(".")[2]
    numbers = simple.removesuffix("Converter") in ("Boolean", "Double", "Float", "Integer", "Long", "Short")
    return _FAILS if numbers else _WRITTEN.get(simple, _OTHERWISE)


def unapplied_converters(
    config: Mapping[str, str], worker: Mapping[str, str], json_parts: Collection[str] = ()
) -> str | None:
    """One line if the connector's config, or else the worker's, sets converters that would change bytes; otherwise None.

    Connect's default for headers makes no line, because every link has it. `json_parts`: key or value, if a JsonConverter
    says for transformations that it is JSON.
    """
    changes = []
    for setting in CONVERTER_SETTINGS:
        if setting.removesuffix(".converter") in json_parts:
            continue
        given = config.get(setting) or worker.get(setting) or BYTE_ARRAY_CONVERTER
        written = written_by(given)
        if written is None:
            continue
        whose = "" if config.get(setting) else " of the worker"
        changes.append(f"{setting.removesuffix('.converter')}s {written} ({setting}={given}{whose})")
    if not changes:
        return None
    return (
        "Converters are not applied, records are written byte for byte as they are. Kafka Connect would write "
        f"{', '.join(changes)}. To avoid this line, set ByteArrayConverter for each, in the connector's "
        "or the worker's config"
    )
