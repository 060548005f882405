"""A line names the converters that are not applied and would change bytes in Kafka Connect."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.config.converter_settings import CONVERTER_SETTINGS, unapplied_converters

JSON = "org.apache.kafka.connect.json.JsonConverter"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


def said(config: dict[str, str], **worker: str) -> str | None:
    return unapplied_converters(config, {name.replace("_", "."): value for name, value in worker.items()})


def test_the_workers_converters_count_where_the_connector_names_none() -> None:
    assert said({"value.converter": BYTES}, key_converter=JSON, value_converter=JSON) == (
        "Converters are not applied, records are written byte for byte as they are. Kafka Connect would write keys as JSON "
        f"that holds their bytes in base64 (key.converter={JSON} of the worker). To avoid this line, set "
        "ByteArrayConverter for each, in the connector's or the worker's config"
    )


@pytest.mark.parametrize(
    ("converter", "written"),
    [
        ("JsonConverter", "values as JSON that holds their bytes in base64"),
        ("org.apache.kafka.connect.storage.StringConverter", "values as texts like [B@1b2c3d, without their bytes"),
        ("Long", "values not at all: the task would fail"),
        ("org.example.Own", "values whatever that class makes of them"),
    ],
)
def test_what_connect_would_write_is_said(converter: str, written: str) -> None:
    line = said({"value.converter": converter}, key_converter=BYTES, value_converter=BYTES)
    assert line is not None
    assert written in line
    assert line.count("(value.converter=") == 1


def test_headers_that_would_become_base64_are_said_where_somebody_set_that() -> None:
    simple = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    line = said({"header.converter": simple}) or ""
    assert f"headers as base64 text of their bytes (header.converter={simple})" in line


@pytest.mark.parametrize("converter", [BYTES, "ByteArrayConverter", "ByteArray"])
def test_byte_arrays_draw_no_line(converter: str) -> None:
    assert said({}, **{name.replace(".", "_"): converter for name in CONVERTER_SETTINGS}) is None


def test_connects_default_for_headers_draws_no_line() -> None:
    assert said({"key.converter": BYTES, "value.converter": BYTES}) is None
