"""Variables of other images of Connect become a worker's properties, as those images make them."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from deploy.docker.conventions import REQUIRED, Given, Mistake, from_variables, properties_text, write_private
from mirror_connect.app.config.properties import read_properties
from mirror_connect.app.config.worker_config import worker_config

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
CONFLUENT = {
    "CONNECT_BOOTSTRAP_SERVERS": "broker:29092",
    "CONNECT_REST_ADVERTISED_HOST_NAME": "connect",
    "CONNECT_REST_PORT": "8083",
    "CONNECT_GROUP_ID": "compose-connect-group",
    "CONNECT_CONFIG_STORAGE_TOPIC": "docker-connect-configs",
    "CONNECT_CONFIG_STORAGE_REPLICATION_FACTOR": "1",
    "CONNECT_OFFSET_FLUSH_INTERVAL_MS": "10000",
    "CONNECT_OFFSET_STORAGE_TOPIC": "docker-connect-offsets",
    "CONNECT_OFFSET_STORAGE_REPLICATION_FACTOR": "1",
    "CONNECT_STATUS_STORAGE_TOPIC": "docker-connect-status",
    "CONNECT_STATUS_STORAGE_REPLICATION_FACTOR": "1",
    "CONNECT_KEY_CONVERTER": BYTES,
    "CONNECT_VALUE_CONVERTER": BYTES,
    "CONNECT_PLUGIN_PATH": "/usr/share/java,/usr/share/confluent-hub-components",
    "CONNECT_LOG4J_LOGGERS": "org.reflections=ERROR",
}
DEBEZIUM = {
    "BOOTSTRAP_SERVERS": "kafka:9092",
    "GROUP_ID": "1",
    "CONFIG_STORAGE_TOPIC": "my_connect_configs",
    "OFFSET_STORAGE_TOPIC": "my_connect_offsets",
    "STATUS_STORAGE_TOPIC": "my_connect_statuses",
}


def given(environment: dict[str, str]) -> Given:
    found = from_variables(environment, "172.17.0.4")
    assert found is not None
    return found


def test_confluents_variables_are_a_worker() -> None:
    found = given(CONFLUENT)
    config = worker_config(found.properties, {})
    assert (config.bootstrap_servers, config.group_id) == ("broker:29092", "compose-connect-group")
    assert (config.worker_id(), config.offset_storage.replication_factor) == ("connect:8083", 1)
    assert found.notes == ["Without effect here: CONNECT_LOG4J_LOGGERS"]


# Answers of dub.py 0.0.171 and of ub 1.0.11, the tools of Confluent's images. Only the last one is other for that ub: it
# leaves the underscore behind a part of one letter.
@pytest.mark.parametrize(
    ("variable", "name"),
    [
        pytest.param("PRODUCER_MAX_REQUEST_SIZE", "producer.max.request.size", id="one_is_a_dot"),
        pytest.param("Offset_Flush_Timeout_ms", "offset.flush.timeout.ms", id="small_letters"),
        pytest.param("CONFIG_PROVIDERS_MY__FILE_CLASS", "config.providers.my_file.class", id="two_stay_one"),
        pytest.param("CONFIG_PROVIDERS_MY___FILE_CLASS", "config.providers.my-file.class", id="three_are_a_dash"),
        pytest.param("A__B___C_D", "a_b-c.d", id="all"),
        pytest.param("X____Y", "x-_y", id="four"),
        pytest.param("X_____Y", "x-_y", id="five"),
        pytest.param("X______Y", "x--y", id="six"),
        pytest.param("X_", "x_", id="one_at_the_end"),
        pytest.param("_X", "_x", id="one_at_the_beginning"),
        pytest.param("__X", "_x", id="two_at_the_beginning"),
        pytest.param("X___", "x-", id="three_at_the_end"),
        pytest.param("CONFIG_PROVIDERS_A_CLASS", "config.providers.a.class", id="a_part_of_one_letter"),
    ],
)
def test_underscores_are_read_as_confluents_image_reads_them(variable: str, name: str) -> None:
    assert given({**CONFLUENT, f"CONNECT_{variable}": "a value"}).properties[name] == "a value"


def test_a_name_with_several_underscores_is_shown_with_its_property_but_without_its_value() -> None:
    found = given({**CONFLUENT, "CONNECT_CONFIG_PROVIDERS_A__B_PARAM_SECRET": "hidden-value"})
    assert "CONNECT_CONFIG_PROVIDERS_A__B_PARAM_SECRET is the property config.providers.a_b.param.secret" in found.notes
    assert "hidden-value" not in repr(found)


def test_each_of_the_eight_required_ones_is_named() -> None:
    for name in REQUIRED:
        with pytest.raises(Mistake, match=f"^{name} is missing: "):
            from_variables({**CONFLUENT, name: ""}, "")
    with pytest.raises(Mistake, match=f"^{', '.join(REQUIRED[1:])} are missing"):
        from_variables({"CONNECT_BOOTSTRAP_SERVERS": "b:9092"}, "")


def test_other_variables_are_no_convention() -> None:
    assert from_variables({"PATH": "/bin", "CONNECT_REST_API": "http://localhost:8083"}, "") is None


def test_debeziums_short_names_are_a_worker() -> None:
    config = worker_config(given(DEBEZIUM).properties, {})
    assert (config.bootstrap_servers, config.group_id, config.config_topic) == ("kafka:9092", "1", "my_connect_configs")
    assert config.worker_id() == "172.17.0.4:8083"
    # Its image takes these from Kafka's sample file: one broker is enough.
    assert config.status_storage.replication_factor == 1


def test_debeziums_long_names_have_no_dashes() -> None:
    found = given({**DEBEZIUM, "CONNECT_OFFSET_STORAGE__PARTITIONS": "3", "CONNECT_CONSUMER_FETCH_MIN_BYTES": "1"})
    assert found.properties["consumer.fetch.min.bytes"] == "1"
    assert found.properties["offset.storage..partitions"] == "3"


@pytest.mark.parametrize("name", ["BOOTSTRAP_SERVERS", "CONFIG_STORAGE_TOPIC", "OFFSET_STORAGE_TOPIC"])
def test_what_debeziums_image_asks_for_is_named(name: str) -> None:
    with pytest.raises(Mistake, match=f"^{name} is missing: set it, as for Debezium"):
        from_variables({**DEBEZIUM, name: ""}, "")


def test_debeziums_other_variables() -> None:
    more = {
        "HOST_NAME": "connect",
        "HEAP_OPTS": "-Xmx1g",
        "LOG_LEVEL": "WARN",
        "ENABLE_JMX_EXPORTER": "true",
        "ENABLE_OTEL": "false",
        "JMXPORT": "1976",
    }
    found = given({**DEBEZIUM, **more})
    assert found.properties["rest.advertised.host.name"] == "connect"
    assert found.variables == {"KAFKA_HEAP_OPTS": "-Xmx1g", "MIRROR_CONNECT_LOG_LEVEL": "WARNING"}
    assert found.notes == ["Without effect here: ENABLE_JMX_EXPORTER, JMXPORT"]


@pytest.mark.parametrize(
    ("more", "listeners"),
    [
        pytest.param({}, None, id="the_default"),
        pytest.param({"CONNECT_REST_PORT": "18083"}, "http://:18083", id="port"),
        pytest.param({"CONNECT_REST_HOST_NAME": "0.0.0.0"}, "http://0.0.0.0:8083", id="host"),
        pytest.param({"CONNECT_REST_HOST_NAME": "::"}, "http://[::]:8083", id="ipv6"),
        pytest.param({"CONNECT_LISTENERS": "https://:8443", "CONNECT_REST_PORT": "1"}, "https://:8443", id="listeners"),
    ],
)
def test_older_names_of_the_rest_address_become_listeners(more: dict[str, str], listeners: str | None) -> None:
    properties = given({**CONFLUENT, **more}).properties
    assert properties.get("listeners") == listeners
    assert not {"rest.port", "rest.host.name"} & properties.keys()


def test_the_root_level_of_log4j_is_the_workers() -> None:
    assert given({**CONFLUENT, "CONNECT_LOG4J_ROOT_LOGLEVEL": "TRACE"}).variables == {
        "MIRROR_CONNECT_LOG_LEVEL": "DEBUG"
    }
    both = {**CONFLUENT, "CONNECT_LOG4J_ROOT_LOGLEVEL": "TRACE", "MIRROR_CONNECT_LOG_LEVEL": "INFO"}
    assert given(both).variables == {}


def test_the_file_says_what_the_variables_say(tmp_path: Path) -> None:
    values = {
        "plain": "a=b:c #d",
        "password": "gehéim-🔑",
        "pem": "-----BEGIN\nabc\n-----END",
        "continued": "first,\\\n  second",
        "escape": r"C:\\dir",
        "last": "a password\\",
        "behind": "its own",
        "windows": "value\r",
        "mac": "a\rinjected=1",
    }
    write_private(tmp_path / "made" / "worker.properties", properties_text(values))
    found = read_properties(tmp_path / "made" / "worker.properties")
    assert found == {
        **values,
        "continued": "first,second",
        "escape": r"C:\dir",
        "windows": "value",
        "mac": "a\ninjected=1",
    }
    assert stat.S_IMODE((tmp_path / "made" / "worker.properties").stat().st_mode) == 0o600
