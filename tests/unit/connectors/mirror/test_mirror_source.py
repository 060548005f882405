import json
from typing import Any

import pytest

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.mirror_source import (
    REMOVE_ACLS,
    MirrorSource,
    topic_selection,
)
from tests.fakes.definitions import infos_of
from tests.paths import FIXTURES

RECORDED = json.loads((FIXTURES / "validate-MirrorSourceConnector.json").read_text())
VECTORS = [json.loads(line) for line in (FIXTURES / "config-validation-vectors.jsonl").read_text().splitlines()]
SOURCE = MirrorSource()
VALID = {"name": "v", "connector.class": "MirrorSource", "source.cluster.alias": "A"}

# Where we refuse on purpose what Java's validation lets pass, to fail later or to be ignored.
STRICTER = {
    ("topics", "["),
    ("topics", "x{1,2}"),
    ("config.properties.exclude", "["),
    ("ssl.engine.factory.class", "java.lang.String"),
    ("replication.policy.class", "java.lang.String"),
    ("forwarding.admin.class", "java.lang.String"),
}
# Java classes that exist there but not here: refused by both, with another text.
OTHER_TEXT = {
    ("key.converter", "java.lang.String"),
    ("key.converter", "java.lang.Integer"),
    ("key.converter", "org.apache.kafka.connect.storage.Converter"),
    ("header.converter", "java.lang.String"),
    ("header.converter", "org.apache.kafka.connect.storage.HeaderConverter"),
    ("replication.policy.class", "com.example.Nope"),
    ("topic.filter.class", "com.example.Nope"),
    ("forwarding.admin.class", "com.example.Nope"),
}
# Version ranges aren't read: there is one version.
NOT_READ = {("connector.plugin.version", "[1.0")}
# The vectors were made without a worker, which alone knows the aliases of plugins.
ALIASES = {("value.converter", "ByteArrayConverter")}


@pytest.mark.kafka_test("MirrorSourceConfigTest.testNonMutationOfConfigDef")
def test_definitions_are_those_of_kafka_in_their_order() -> None:
    fields = list(RECORDED["definitions"][0])
    assert [{name: key[name] for name in fields} for key in SOURCE.describe()] == RECORDED["definitions"]


@pytest.mark.parametrize(
    ("name", "value", "possible"),
    [
        ("replication.policy.class", "com.acme.P", "mirror.IdentityReplicationPolicy"),
        ("topic.filter.class", "com.acme.F", "mirror.DefaultTopicFilter"),
        ("config.property.filter.class", "com.acme.F", "mirror.DefaultConfigPropertyFilter"),
    ],
)
def test_a_refusal_of_a_class_says_what_is_possible(name: str, value: str, possible: str) -> None:
    assert possible in SOURCE.validate(VALID | {name: value})[name].errors[0]


def test_a_definition_has_the_fields_of_kafka_in_their_order() -> None:
    fields = (
        "name type required default_value importance documentation group order_in_group width display_name dependents"
    )
    assert list(SOURCE.describe()[0]) == fields.split()


@pytest.mark.parametrize("validation", RECORDED["validations"], ids=lambda validation: validation["about"][:20])
def test_a_validation_answers_as_kafka_does(validation: dict[str, Any]) -> None:
    answer = infos_of(SOURCE, validation["request"])
    fields = ("name", "value", "errors", "visible")
    answer["configs"] = [{name: entry["value"][name] for name in fields} for entry in answer["configs"]]
    assert answer == validation["response"]


@pytest.mark.kafka_test("MirrorConnectorConfigTest.testInvalidSecurityProtocol")
@pytest.mark.kafka_test("MirrorConnectorConfigTest.testCaseInsensitiveSecurityProtocol")
@pytest.mark.kafka_test("MirrorSourceConnectorTest.testExactlyOnceSupport")
@pytest.mark.kafka_test("MirrorSourceConnectorTest.testExactlyOnceSupportValidation")
@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(list(vector["config"].items())[-1]))
def test_values_and_errors_are_those_of_kafka(vector: dict[str, Any]) -> None:
    known = STRICTER | OTHER_TEXT | NOT_READ | ALIASES
    skipped = {name for name, value in vector["config"].items() if (name, value) in known}
    expected = {name: result for name, result in vector["result"].items() if name not in skipped}
    results = SOURCE.validate(vector["config"])
    assert {name: {"value": results[name].value, "errors": results[name].errors} for name in expected} == expected


@pytest.mark.parametrize(("name", "value"), sorted(STRICTER | OTHER_TEXT))
def test_what_cannot_work_here_is_refused(name: str, value: str) -> None:
    assert SOURCE.validate({**VALID, name: value})[name].errors


def test_an_entry_without_definition_stands_first_and_counts() -> None:
    answer = infos_of(SOURCE, {**VALID, "x": None})
    assert (answer["error_count"], answer["configs"][0]["definition"], answer["configs"][0]["value"]["name"]) == (
        1,
        None,
        "x",
    )


def test_a_broken_expression_is_named_with_its_setting() -> None:
    with pytest.raises(ConfigError, match=r"^Invalid value b\( for configuration topics: Not a regular expression: "):
        SOURCE.settings({**VALID, "topics": "a,b(,c"})


def test_a_broken_expression_from_a_provider_is_not_shown() -> None:
    config = {**VALID, "topics": "hunter2("}
    assert "hunter2" not in str(infos_of(SOURCE, config, as_written={**config, "topics": "${file:/s:k}"}))


def test_a_plain_config_draws_no_warning() -> None:
    assert SOURCE.warnings(VALID) == []


def test_what_is_switched_off_is_not_named() -> None:
    off = {
        "sync.topic.configs.enabled": "false",
        "sync.topic.acls.enabled": "False",
        "emit.offset-syncs.enabled": "false",
    }
    assert SOURCE.warnings({**VALID, **off}) == []


@pytest.mark.kafka_test("MirrorSourceConnectorTest.testReplicatesHeartbeatsByDefault")
def test_selection_is_built_from_the_settings() -> None:
    selection = topic_selection(SOURCE.settings({**VALID, "target.cluster.alias": "B", "topics": "t, B.*"}))
    assert [topic for topic in ("t", "B.t", "u", "heartbeats") if selection.should_replicate(topic)] == [
        "t",
        "heartbeats",
    ]


def test_a_setting_of_our_own_is_checked_where_it_is_given() -> None:
    with pytest.raises(ConfigError, match=r"sync\.topic\.acls\.remove\.enabled"):
        SOURCE.settings({**VALID, REMOVE_ACLS: "perhaps"})


@pytest.mark.parametrize(("given", "value"), [({}, False), ({REMOVE_ACLS: "true"}, True)])
def test_a_setting_of_our_own_is_off_unless_given(given: dict[str, str], value: bool) -> None:
    assert SOURCE.settings({**VALID, **given}).boolean(REMOVE_ACLS) is value
