from __future__ import annotations

import logging
from pathlib import Path

import pytest

from mirror_connect.app.config.exactly_once import Support
from mirror_connect.app.config.listeners import Listener
from mirror_connect.app.config.rest_extension import EXTENSION
from mirror_connect.app.config.worker_config import load_worker_config, worker_config
from mirror_connect.app.config.worker_keys import likely_storage_name
from mirror_connect.connectors.errors import ConfigError

MINIMAL = {
    "bootstrap.servers": "a:1, b:2",
    "group.id": "g",
    "config.storage.topic": "configs",
    "offset.storage.topic": "offsets",
    "status.storage.topic": "statuses",
    "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}
LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": 'x.PlainLoginModule required username="u" password="hunter22";',
}


@pytest.mark.parametrize("name", list(MINIMAL))
def test_a_missing_required_setting_is_said_as_kafka_says_it(name: str) -> None:
    rest = {key: value for key, value in MINIMAL.items() if key != name}
    with pytest.raises(ConfigError, match=f'^Missing required configuration "{name}" which has no default value.$'):
        worker_config(rest)


def test_defaults_are_those_of_connect() -> None:
    config = worker_config(MINIMAL)
    assert (
        config.session_timeout_ms,
        config.heartbeat_interval_ms,
        config.rebalance_timeout_ms,
        config.offset_flush_interval_ms,
        config.config_storage.partitions,
        config.offset_storage.partitions,
        config.status_storage.partitions,
        config.offset_storage.replication_factor,
        config.listeners,
        config.admin_listeners,
        config.override_policy,
    ) == (10000, 3000, 60000, 60000, 1, 25, 5, 3, (Listener("http", "", 8083),), None, "All")


def test_spark_runs_on_this_machine_with_retries_unless_told_otherwise() -> None:
    assert worker_config(MINIMAL | {"spark.executor.memory": "2g"}).spark == {
        "spark.master": "local[64,4]",
        "spark.executor.memory": "2g",
    }


@pytest.mark.parametrize("master", ["local", "local[1]", "local[*]", "local[ 8 , 4 ]", "local[*,2]"])
def test_spark_on_this_machine_is_taken_in_each_of_its_forms(master: str) -> None:
    assert worker_config(MINIMAL | {"spark.master": master}).spark["spark.master"] == master


def test_settings_of_a_storage_topic_are_handed_to_its_creation() -> None:
    config = worker_config(MINIMAL | {"offset.storage.segment.bytes": "9", "offset.storage.cleanup.policy": "delete"})
    assert config.offset_storage.configs == {"segment.bytes": "9"}


def test_converters_are_told_as_they_are_set() -> None:
    given = {"key.converter": "JsonConverter", "value.converter": "ByteArrayConverter"}
    assert worker_config(MINIMAL | given).converters == given


@pytest.mark.parametrize(("value", "support"), [("ENABLED", Support.ENABLED), ("Preparing", Support.PREPARING)])
def test_exactly_once_is_read_in_any_case(value: str, support: Support) -> None:
    assert worker_config(MINIMAL | {"exactly.once.source.support": value}).exactly_once is support
    assert worker_config(MINIMAL).exactly_once is Support.DISABLED


def test_an_empty_list_of_admin_listeners_is_not_the_same_as_none() -> None:
    assert worker_config(MINIMAL | {"admin.listeners": ""}).admin_listeners == ()


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        pytest.param("exactly.once.source.support", "perhaps", "case insensitive", id="exactly_once"),
        pytest.param("listeners", "nowhere", "right format", id="listener"),
        pytest.param("listeners", "", "at least one URL", id="no_listener"),
        pytest.param("rest.advertised.port", "x", "Not a number of type INT", id="port"),
        pytest.param("rest.advertised.listener", "https", "no listener of that protocol", id="advertised_listener"),
        pytest.param("connector.client.config.override.policy", "Some", "one of All, None", id="policy"),
        pytest.param("heartbeat.interval.ms", "10000", "lower than session.timeout.ms", id="heartbeat"),
        pytest.param("offset.storage.partitions", "0", "must be positive", id="partitions"),
        pytest.param("security.protocol", "TLS", "String must be one of", id="protocol"),
        pytest.param("bootstrap.servers", "a", "host:port", id="address"),
        pytest.param("group.id", "", "must not be empty", id="group"),
        pytest.param("config.storage.topic", "offsets", "different", id="the_same_topic_twice"),
        pytest.param("spark.master", "yarn-client", "not a master that Spark knows", id="spark_cluster"),
        pytest.param("spark.master", "spark://a", "not HOST:PORT", id="standalone_spark"),
        pytest.param("spark.master", "local[0,4]", "local", id="no_slots"),
        pytest.param("spark.master", "", "local", id="no_master"),
    ],
)
def test_a_wrong_setting_is_refused_with_its_name(name: str, value: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        worker_config(MINIMAL | {name: value})
    assert name in str(caught.value)


def test_a_policy_may_be_given_by_its_class() -> None:
    name = "org.apache.kafka.connect.connector.policy.NoneConnectorClientConfigOverridePolicy"
    assert worker_config(MINIMAL | {"connector.client.config.override.policy": name}).override_policy == "None"


def test_unknown_properties_are_named_in_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        worker_config(MINIMAL | {"b.typo": "1", "a.typo": "2", "producer.anything": "3", "plugin.path": "/x"})
    assert [record.message for record in caplog.records if "unknown" in record.message] == [
        "These worker properties are unknown and have no effect: a.typo, b.typo, producer.anything"
    ]


def test_internal_clients_get_the_top_level_alone() -> None:
    config = worker_config(MINIMAL | LOGIN | {"producer.linger.ms": "9"})
    assert config.own_client() == LOGIN | {"bootstrap.servers": MINIMAL["bootstrap.servers"]}


def test_connectors_clients_get_their_prefix_over_the_top_level() -> None:
    config = worker_config(MINIMAL | LOGIN | {"producer.linger.ms": "9", "producer.sasl.mechanism": "SCRAM-SHA-256"})
    assert config.client("producer") == LOGIN | {
        "bootstrap.servers": MINIMAL["bootstrap.servers"],
        "linger.ms": "9",
        "sasl.mechanism": "SCRAM-SHA-256",
    }


def test_another_cluster_is_not_shown_the_top_levels_login() -> None:
    config = worker_config(MINIMAL | LOGIN | {"producer.bootstrap.servers": "c:3"})
    assert config.client("producer") == {"bootstrap.servers": "c:3"}


def test_a_workers_settings_show_no_password() -> None:
    assert "hunter22" not in repr(worker_config(MINIMAL | LOGIN))


def test_a_wrong_login_ends_the_start_without_showing_it() -> None:
    broken = LOGIN | {"sasl.jaas.config": 'x.PlainLoginModule required username="u" password="hunter22"'}
    with pytest.raises(ConfigError, match=r"sasl\.jaas\.config: ';' is missing") as caught:
        worker_config(MINIMAL | broken)
    assert "hunter22" not in str(caught.value)


def test_an_error_quotes_the_reference_and_not_what_it_led_to() -> None:
    properties = MINIMAL | {
        "config.providers": "env",
        "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
        "security.protocol": "${env:SECRET}",
    }
    with pytest.raises(ConfigError) as caught:
        worker_config(properties, {"SECRET": "hunter22"})
    assert "Invalid value ${env:SECRET} for configuration security.protocol" in str(caught.value)
    assert "hunter22" not in str(caught.value)


def test_the_properties_of_the_demo_are_read(tmp_path: Path) -> None:
    secrets = tmp_path / "kafka.properties"
    secrets.write_text("broker.username=connect\nbroker.password=connect2-secret\nbootstrap.servers=kafka2:39092\n")
    file = tmp_path / "connect.properties"
    file.write_text(
        "\n".join(f"{name}={value}" for name, value in MINIMAL.items() if name != "bootstrap.servers")
        + f"""
config.providers: file,env
config.providers.file.class: org.apache.kafka.common.config.provider.FileConfigProvider
config.providers.env.class: org.apache.kafka.common.config.provider.EnvVarConfigProvider
bootstrap.servers=${{file:{secrets}:bootstrap.servers}}
security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
  username="${{file:{secrets}:broker.username}}" \\
  password="${{file:{secrets}:broker.password}}";
listeners=HTTP://0.0.0.0:8083
rest.advertised.host.name=connect
rest.advertised.port=8083
"""
    )
    config = load_worker_config(file)
    assert (config.bootstrap_servers, config.worker_id()) == ("kafka2:39092", "connect:8083")
    assert 'password="connect2-secret"' in config.own_client()["sasl.jaas.config"]


def test_a_misspelled_property_is_told_with_the_one_that_was_meant(caplog: pytest.LogCaptureFixture) -> None:
    worker_config(MINIMAL | {"offset.flush.intervall.ms": "1", "producer.linger.mss": "1"})
    assert [message for message in caplog.messages if "unknown" in message] == [
        "These worker properties are unknown and have no effect: offset.flush.intervall.ms (did you mean "
        "offset.flush.interval.ms?), producer.linger.mss (did you mean producer.linger.ms?)"
    ]


def test_a_misspelled_property_of_an_internal_topic_is_told_before_the_topic_is_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    worker_config(MINIMAL | {"offset.storage.partitons": "1", "status.storage.retention.ms": "1"})
    assert [message for message in caplog.messages if "did you mean" in message] == [
        "offset.storage.partitons is taken for a setting of the topic: did you mean offset.storage.partitions?"
    ]


# Of brokers 4.3, older ones, and other makers'.
OF_TOPICS = """cleanup.policy compression.gzip.level compression.lz4.level compression.type compression.zstd.level
delete.retention.ms file.delete.delay.ms flush.messages flush.ms follower.replication.throttled.replicas
index.interval.bytes leader.replication.throttled.replicas local.retention.bytes local.retention.ms
max.compaction.lag.ms max.message.bytes message.timestamp.after.max.ms message.timestamp.before.max.ms
message.timestamp.type min.cleanable.dirty.ratio min.compaction.lag.ms min.insync.replicas preallocate
remote.storage.enable remote.log.copy.disable remote.log.delete.on.disable retention.bytes retention.ms segment.bytes
segment.index.bytes segment.jitter.ms segment.ms unclean.leader.election.enable message.format.version
message.downconversion.enable message.timestamp.difference.max.ms confluent.placement.constraints
redpanda.remote.write replication.quota"""


@pytest.mark.parametrize("prefix", ["config.storage.", "offset.storage.", "status.storage."])
def test_no_setting_of_a_topic_is_taken_for_a_typo(prefix: str) -> None:
    assert not [name for name in OF_TOPICS.split() if likely_storage_name(f"{prefix}{name}")]


@pytest.mark.parametrize(
    ("name", "value"),
    [("producer.acks", "most"), ("consumer.fetch.max.wait.ms", "x"), ("admin.bootstrap.servers", "a")],
)
def test_a_wrong_property_for_connectors_clients_ends_the_start(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"^Invalid value {value} for configuration {name}: "):
        worker_config(MINIMAL | {name: value})


def test_an_unknown_extension_of_rest_ends_the_start() -> None:
    with pytest.raises(ConfigError, match=r"^Invalid value a\.Other for configuration rest\.extension\.classes: "):
        worker_config(MINIMAL | {"rest.extension.classes": f"{EXTENSION}, a.Other"})
    for known in (EXTENSION, "BasicAuthSecurityRestExtension", ""):
        assert worker_config(MINIMAL | {"rest.extension.classes": known})


def test_the_allowlist_of_overrides_is_read() -> None:
    config = worker_config(
        MINIMAL
        | {
            "connector.client.config.override.policy": "Allowlist",
            "connector.client.config.override.allowlist": "acks, linger.ms",
        }
    )
    assert (config.override_policy, config.override_allowlist) == ("Allowlist", ("acks", "linger.ms"))
