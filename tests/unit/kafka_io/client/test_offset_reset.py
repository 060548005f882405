"""`auto.offset.reset`, as Kafka's AutoOffsetResetStrategy and java.time.Duration read it."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.kafka_io.client.client_settings import connection_settings, librdkafka_config
from mirror_connect.kafka_io.client.offset_reset import duration_ms


@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [
        ("by_duration:PT1H", 3_600_000),
        ("by_duration:P1DT2H3M4.567S", 93_784_567),
        ("by_duration:pt1m", 60_000),
        ("by_duration:PT1H-30M", 1_800_000),
        ("by_duration:PT0S", 0),
        ("by_duration:PT1,5S", 1_500),
        ("by_duration:-PT-1S", 1_000),
        ("by_duration:-PT1S", None),
        ("BY_DURATION:PT1H", None),
        ("by_duration:PT-1S", None),
        ("by_duration:PT-0.5S", None),
        ("by_duration:P", None),
        ("by_duration:PT", None),
        ("by_duration:P1DT", None),
        ("by_duration:1h", None),
        ("by_duration", None),
        ("PT1H", None),
    ],
)
def test_a_duration_is_read_as_java_reads_it(value: str, milliseconds: int | None) -> None:
    assert duration_ms(value) == milliseconds


def test_the_copying_consumer_takes_a_duration() -> None:
    properties = {"bootstrap.servers": "a:1", "auto.offset.reset": "by_duration:PT1H"}
    assert connection_settings(properties, "c").bootstrap_servers == (("a", 1),)


def test_librdkafka_which_knows_no_durations_begins_at_the_start() -> None:
    properties = {"bootstrap.servers": "a:1", "auto.offset.reset": "by_duration:PT1H"}
    assert librdkafka_config(properties, "consumer")["auto.offset.reset"] == "earliest"


def test_a_broken_duration_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"auto\.offset\.reset"):
        connection_settings({"bootstrap.servers": "a:1", "auto.offset.reset": "by_duration:1h"}, "c")
