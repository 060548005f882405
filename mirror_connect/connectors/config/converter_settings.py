"""The settings of the converters that a connector's config may name, judged as Connect judges them.

Nothing is converted here: batches are copied as they are. But tools draw forms from these definitions, and what Connect
refuses of a config is refused here too. Names, order and error texts (which leave the prefix out) are of Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from mirror_connect.connectors.config.config_table import (
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
from mirror_connect.connectors.config.java_maps import in_hash_order
from mirror_connect.connectors.config.plugin_version import NoVersion, unavailable
from mirror_connect.connectors.config.validators import one_of, one_of_in_any_case
from mirror_connect.connectors.user_code.known_classes import CONVERTER, HEADER_CONVERTER, KNOWN_CLASSES

_TYPE: Final = Key(
    "converter.type", STRING, REQUIRED, LOW, "What is converted: key, value or header.", None,
    validator=one_of("key", "value", "header"),
)  # fmt: skip
_PLAIN: Final = ConfigTable(_TYPE)
# fmt: off
_TABLES: Final[Mapping[str, ConfigTable]] = {
    "SimpleHeaderConverter": ConfigTable(),
    "StringConverter": ConfigTable(
        _TYPE,
        Key("converter.encoding", STRING, "UTF-8", HIGH, "Character set of the texts. No effect.",
            None, -1, "MEDIUM", "Encoding"),
    ),
    "JsonConverter": ConfigTable(
        _TYPE,
        Key("schemas.enable", BOOLEAN, True, HIGH, "Whether values carry their schemas. No effect.",
            "Schemas", 0, "MEDIUM", "Enable Schemas"),
        Key("schemas.cache.size", INT, 1000, HIGH, "The most schemas to remember. No effect.",
            "Schemas", 1, "MEDIUM", "Schema Cache Size"),
        Key("schema.content", STRING, None, HIGH, "A schema for all values. No effect.",
            "Schemas", 2, "MEDIUM", "Schema Content"),
        Key("decimal.format", STRING, "BASE64", LOW, "How decimals are written: BASE64 or NUMERIC. No effect.",
            "Serialization", 0, "MEDIUM", "Decimal Format", one_of_in_any_case("NUMERIC", "BASE64")),
        Key("replace.null.with.default", BOOLEAN, True, LOW, "Whether nulls become their field's default. No effect.",
            "Serialization", 1, "MEDIUM", "Replace null with default"),
    ),
}
# fmt: on


def converter_table(class_name: str) -> ConfigTable | None:
    """The settings of a converter by its full class name; None if there is no such converter."""
    if not KNOWN_CLASSES.get(class_name, frozenset()) & {CONVERTER, HEADER_CONVERTER}:
        return None
    return _TABLES.get(class_name.rpartition(".")[2], _PLAIN)


def check_converters(
    judged: Mapping[str, ValidatedKey], config: Mapping[str, str | None], as_written: Mapping[str, str | None]
) -> dict[str, ValidatedKey]:
    """Every setting of each converter that the config names and that is one, by its full name.

    `judged` says which those are: what the connector's own tables made of the config.
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
            # Of another version than there is Connect looks at no setting, without a word.
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
            # A null is an error already, of a name without a definition.
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
