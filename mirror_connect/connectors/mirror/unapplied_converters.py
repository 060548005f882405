"""What a connector's converters would do in Kafka Connect, and what is done here: batches are copied byte for byte."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mirror_connect.connectors.user_code.known_classes import BYTE_ARRAY_CONVERTER, CONVERTER_ALIASES

CONVERTER_SETTINGS: Final = ("key.converter", "value.converter", "header.converter")
# What MirrorMaker's BYTES become, by the converter's simple name: seen of Kafka 4.3.1.
_WRITTEN: Final = {
    "JsonConverter": "as JSON that holds their bytes in base64",
    "SimpleHeaderConverter": "as base64 text of their bytes",
    "StringConverter": "as texts like [B@1b2c3d, without their bytes",
}
_FAILS: Final = "not at all: the task would fail, as they are no numbers"
_OTHERWISE: Final = "as that class makes them"


def unapplied_converters(config: Mapping[str, str], worker: Mapping[str, str]) -> str | None:
    """One line if converters are set, in the connector's config or else the worker's, that change bytes; None if none is.

    Connect's default for headers, where nobody sets one, draws none: every link has it.
    """
    said = []
    for setting in CONVERTER_SETTINGS:
        given = config.get(setting) or worker.get(setting) or BYTE_ARRAY_CONVERTER
        simple = CONVERTER_ALIASES.get(given, given).rpartition(".")[2]
        if CONVERTER_ALIASES.get(given, given) == BYTE_ARRAY_CONVERTER:
            continue
        whose = "" if config.get(setting) else " of the worker"
        numbers = simple.removesuffix("Converter") in ("Boolean", "Double", "Float", "Integer", "Long", "Short")
        written = _FAILS if numbers else _WRITTEN.get(simple, _OTHERWISE)
        said.append(f"{setting.removesuffix('.converter')}s {written} ({setting}={given}{whose})")
    if not said:
        return None
    return (
        "Converters are not applied, records are written byte for byte as they are. Kafka Connect would write "
        f"{', '.join(said)}. To say what is done, set ByteArrayConverter for each in the connector's config or the worker's"
    )
