"""System properties in KAFKA_OPTS, as a JVM reads them."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.kafka_io.client.java_options import ALLOWED_URLS, KAFKA_OPTS, for_tasks, system_property


@pytest.mark.parametrize(
    ("options", "value"),
    [
        pytest.param("", None, id="none"),
        pytest.param("-Xmx1g -Da=1", "1", id="among_others"),
        pytest.param("-Da=1 -Da=2", "2", id="the_last_of_several"),
        pytest.param("-Da='x y'", "x y", id="quoted"),
        pytest.param("-Dab=1", None, id="another_name"),
    ],
)
def test_the_value_of_a_property(options: str, value: str | None) -> None:
    assert system_property("a", {KAFKA_OPTS: options}) == value


def test_options_that_cannot_be_read_are_named_and_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        system_property("a", {KAFKA_OPTS: "-Dpassword='secret"})
    assert KAFKA_OPTS in str(caught.value)
    assert "secret" not in str(caught.value)


def test_tasks_get_the_allowed_urls_and_nothing_else() -> None:
    options = {KAFKA_OPTS: f"-Dpassword=secret -D{ALLOWED_URLS}=https://a,https://b"}
    assert for_tasks(options) == {KAFKA_OPTS: f"-D{ALLOWED_URLS}=https://a,https://b"}
    assert for_tasks({KAFKA_OPTS: "-Dpassword=secret"}) == {}
