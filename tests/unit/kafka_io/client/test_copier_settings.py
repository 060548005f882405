"""The consumer and producer properties of a copying task, and the notices about the others."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.kafka_io.client.copier_settings import consumer_settings, notices, producer_settings


def test_properties_without_effect_are_named_in_one_line() -> None:
    lines = notices({}, {"compression.type": "zstd", "batch.size": "1", "linger.ms": "5", "sasl.mechanism": "PLAIN"})
    assert lines == [
        "Batches are copied as they are, so these producer properties have no effect: batch.size, compression.type"
    ]


def test_properties_that_connect_sets_by_itself_draw_no_notice() -> None:
    assert notices({"enable.auto.commit": "false", "auto.offset.reset": "earliest"}, {"acks": "all"}) == []


def test_a_name_that_no_client_knows_is_told_elsewhere() -> None:
    assert notices({"fetch.max.byte": "1"}, {"batch.sise": "1"}) == []


@pytest.mark.parametrize("acks", ["0", "1"])
def test_weaker_acks_have_no_effect_and_draw_a_notice(acks: str) -> None:
    assert notices({}, {"acks": acks}) == [
        f"The producer property acks={acks} has no effect: batches are always written with acks=all"
    ]


@pytest.mark.parametrize(("set_to", "window"), [(None, 5), ("50", 5), ("5", 5), ("1", 1)])
def test_at_most_five_batches_of_a_partition_are_in_flight(set_to: str | None, window: int) -> None:
    properties = {} if set_to is None else {"max.in.flight.requests.per.connection": set_to}
    assert producer_settings(properties).window == window


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("max.request.size", "1MB", id="no_number"),
        pytest.param("max.in.flight.requests.per.connection", "0", id="too_small"),
        pytest.param("enable.idempotence", "maybe", id="no_boolean"),
    ],
)
def test_a_wrong_producer_property_is_named_with_its_value(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"Invalid value {value} for configuration {name}"):
        producer_settings({name: value})


def test_a_wrong_isolation_level_is_named_with_its_value() -> None:
    with pytest.raises(ConfigError, match=r"Invalid value serializable for configuration isolation\.level"):
        consumer_settings({"isolation.level": "serializable"})
