"""Client properties of connectors' configs: wrong ones are told at once, under their own names, without secrets."""

from __future__ import annotations

import pytest

from mirror_connect.app.herder.client_properties import OverridePolicy, check_client_properties

JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required "


def errors(config: dict[str, str], written: dict[str, str] | None = None) -> dict[str, list[str]]:
    found = check_client_properties(config, config if written is None else {**config, **written}, OverridePolicy())
    return {name: result.errors for name, result in found.items() if result.errors}


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        (
            "source.cluster.sasl.mechanism",
            "PLAINN",
            "it has to be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER",
        ),
        (
            "target.admin.security.protocol",
            "SASL",
            "String must be one of (case insensitive): SASL_SSL, PLAINTEXT, SSL, SASL_PLAINTEXT",
        ),
        ("source.cluster.bootstrap.servers", "kafka", "it has to be host:port"),
        ("source.cluster.bootstrap.servers", "kafka:99999", "it has to be host:port"),
        ("source.cluster.bootstrap.servers", "kafka:http", "it has to be host:port"),
        ("source.consumer.fetch.max.wait.ms", "abc", "Not a number of type INT"),
        ("consumer.fetch.min.bytes", "-1", "Value must be at least 0"),
        ("consumer.max.poll.records", "0", "Value must be at least 1"),
        ("source.consumer.isolation.level", "dirty", "String must be one of: read_committed, read_uncommitted"),
        (
            "source.consumer.auto.offset.reset",
            "newest",
            "it has to be one of latest, earliest, none, by_duration:PnDTnHnMn.nS",
        ),
        ("producer.override.acks", "most", "String must be one of: all, -1, 0, 1"),
        ("target.producer.compression.type", "rar", "String must be one of: none, gzip, snappy, lz4, zstd"),
        ("producer.compression.gzip.level", "10", "Value must be between 1 and 9 or equal to -1"),
        ("producer.override.linger.ms", "soon", "Not a number of type LONG"),
        ("admin.request.timeout.ms", "-5", "Value must be at least 0"),
        ("consumer.override.max.poll.records", "many", "Not a number of type INT"),
    ],
)
def test_a_wrong_client_property_is_told_under_its_own_name(name: str, value: str, problem: str) -> None:
    assert errors({name: value}) == {name: [f"Invalid value {value} for configuration {name}: {problem}"]}


def test_the_entry_that_is_no_address_is_named_among_the_others() -> None:
    name = "source.cluster.bootstrap.servers"
    problem = "Invalid value b for configuration source.cluster.bootstrap.servers: it has to be host:port"
    assert errors({name: "a:9092, b, c:9092"}) == {name: [problem]}


@pytest.mark.parametrize(
    "config",
    [
        pytest.param({"source.consumer.auto.offset.reset": "by_duration:PT1H"}, id="by_duration"),
        pytest.param({"source.cluster.security.protocol": "sasl_ssl"} | {
            "source.cluster.sasl.mechanism": "PLAIN", "source.cluster.sasl.jaas.config": JAAS + "username=a password=b;"
        }, id="protocol_in_lower_case"),
        pytest.param({"source.cluster.sasl.mechanism": "GSSAPI"}, id="kerberos_of_who_does_not_log_in"),
        pytest.param({"source.cluster.alias": "A", "consumer.poll.timeout.ms": "1"}, id="names_that_are_no_clients"),
        pytest.param({"source.consumer.nothing.known": "1"}, id="an_unknown_name"),
        pytest.param({"source.cluster.bootstrap.servers": "a:1,[::1]:2"}, id="addresses"),
        pytest.param({"target.cluster.fetch.max.bytes": "abc"}, id="what_a_cluster_prefix_does_not_hand_on"),
    ],
)  # fmt: skip
def test_what_a_client_takes_is_no_error(config: dict[str, str]) -> None:
    assert errors(config) == {}


@pytest.mark.parametrize(
    "name",
    ["source.cluster.sasl.mechanism", "source.cluster.bootstrap.servers", "source.consumer.fetch.max.wait.ms"],
)
def test_a_wrong_value_from_a_provider_is_quoted_as_its_reference(name: str) -> None:
    found = errors({name: "hunter2"}, {name: "${file:/s:k}"})
    assert "${file:/s:k}" in found[name][0]
    assert "hunter2" not in str(found)


def test_a_login_without_its_module_is_told_for_the_side_that_lacks_it() -> None:
    config = {"source.cluster.security.protocol": "SASL_SSL", "source.cluster.sasl.mechanism": "PLAIN"}
    assert list(errors(config)) == ["source.cluster.sasl.jaas.config"]


def test_a_login_that_lacks_an_option_shows_none_of_the_others() -> None:
    config = {
        "target.cluster.security.protocol": "SASL_PLAINTEXT",
        "target.cluster.sasl.mechanism": "PLAIN",
        "target.cluster.sasl.jaas.config": JAAS + 'password="hunter2";',
    }
    found = errors(config)
    assert found == {
        "target.cluster.sasl.jaas.config": [
            "Invalid target.cluster.sasl.jaas.config: PlainLoginModule needs the option username"
        ]
    }


def test_the_login_that_counts_is_the_most_particular_one() -> None:
    config = {
        "source.cluster.security.protocol": "SASL_SSL",
        "source.cluster.sasl.mechanism": "PLAIN",
        "source.cluster.sasl.jaas.config": JAAS + "username=a password=b;",
        "source.admin.sasl.jaas.config": JAAS + "username=a;",
    }
    assert list(errors(config)) == ["source.admin.sasl.jaas.config"]


def test_producer_overrides_are_listed_with_kafkas_definition_and_secrets_hidden() -> None:
    config = {"producer.override.sasl.jaas.config": "x hunter2", "producer.override.none.such": "1"}
    found = check_client_properties(config, config, OverridePolicy())
    info = found["producer.override.sasl.jaas.config"].info()
    assert (info["definition"]["type"], info["value"]["value"]) == ("PASSWORD", "[hidden]")
    assert found["producer.override.none.such"].key is None


@pytest.mark.parametrize(
    ("policy", "refused"),
    [
        pytest.param(OverridePolicy.of("All", ()), [], id="all"),
        pytest.param(OverridePolicy.of("None", ("acks",)), ["acks", "sasl.mechanism"], id="none"),
        pytest.param(OverridePolicy.of("Principal", ()), ["acks"], id="principal"),
        pytest.param(OverridePolicy.of("Allowlist", ("acks",)), ["sasl.mechanism"], id="allowlist"),
    ],
)
def test_the_policy_refuses_overrides_in_connects_words(policy: OverridePolicy, refused: list[str]) -> None:
    config = {
        "producer.override.acks": "all",
        "producer.override.sasl.mechanism": "PLAIN",
        "target.producer.linger.ms": "5",  # not an override for Connect
    }
    found = check_client_properties(config, config, policy)
    assert {name: result.errors for name, result in found.items() if result.errors} == {
        f"producer.override.{name}": [
            f"The '{policy.name}' policy does not allow '{name}' to be overridden in the connector configuration."
        ]
        for name in refused
    }
