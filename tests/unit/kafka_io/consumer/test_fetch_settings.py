"""The consumer properties that control fetching: values as Java takes them, and errors that name the property."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.kafka_io.consumer.fetch_settings import FetchSettings


def test_without_properties_everything_has_its_default() -> None:
    settings = FetchSettings.of({})
    assert (settings.min_bytes, settings.max_wait_ms, settings.max_bytes) == (1, 500, 16 << 20)
    assert (settings.read_committed, settings.rack, settings.metadata_max_age_s) == (False, "", 300.0)


def test_a_partition_may_bring_as_much_as_a_whole_fetch() -> None:
    set_by_user = FetchSettings.of({"fetch.max.bytes": "1000"})
    assert (set_by_user.partition_max_bytes, set_by_user.far_max_bytes) == (1000, 1000)
    assert FetchSettings.of({"fetch.max.bytes": "1000", "max.partition.fetch.bytes": "10"}).partition_max_bytes == 10


@pytest.mark.parametrize(
    ("level", "committed"),
    [("read_committed", True), ("READ_COMMITTED", True), (" read_committed ", True), ("read_uncommitted", False)],
)
def test_the_isolation_level_is_read_as_the_copier_reads_it(level: str, committed: bool) -> None:
    assert FetchSettings.of({"isolation.level": level}).read_committed is committed


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("isolation.level", "serializable"),
        ("fetch.min.bytes", "many"),
        ("fetch.max.bytes", "-1"),
        ("auto.offset.reset", "middle"),
    ],
)
def test_a_wrong_value_names_its_property(name: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        FetchSettings.of({name: value})
    assert name in str(caught.value)
