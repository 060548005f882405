from pathlib import Path

import pytest

from mirror_connect.connectors.mirror.mirror_source import MirrorSource
from mirror_connect.connectors.mirror.topic_configs import (
    ConfigChange,
    ConfigPropertyFilter,
    ConfigSource,
    TopicConfig,
    config_changes,
    config_property_filter,
    new_topic_configs,
    unknown_configs,
)
from mirror_connect.connectors.user_code.user_class import PLUGIN_PATH

VALID = {"name": "v", "connector.class": "MirrorSource", "source.cluster.alias": "A"}


def rule(**config: str) -> ConfigPropertyFilter:
    return config_property_filter(
        MirrorSource().settings({**VALID, **{name.replace("_", "."): value for name, value in config.items()}})
    )


def own(name: str, value: str) -> TopicConfig:
    return TopicConfig(name, value, ConfigSource.TOPIC)


def default(name: str, value: str) -> TopicConfig:
    return TopicConfig(name, value, ConfigSource.DEFAULT)


@pytest.mark.kafka_test("MirrorSourceConnectorTest.testNewTopicConfigs")
@pytest.mark.kafka_test("MirrorSourceConfigTest.testConfigPropertyMatching")
@pytest.mark.parametrize(
    ("config", "copied"),
    [
        pytest.param(own("cleanup.policy", "compact"), True, id="set"),
        pytest.param(default("flush.ms", "9"), False, id="default"),
        pytest.param(
            TopicConfig("flush.ms", "9", ConfigSource.DYNAMIC_DEFAULT_BROKER), True, id="dynamic_default_of_brokers"
        ),
        pytest.param(TopicConfig("flush.ms", "9", ConfigSource.STATIC_BROKER), False, id="from_the_brokers_file"),
        pytest.param(TopicConfig("flush.ms", "9", ConfigSource.TOPIC, read_only=True), False, id="read_only"),
        pytest.param(TopicConfig("flush.ms", None, ConfigSource.TOPIC, sensitive=True), False, id="sensitive"),
        pytest.param(own("min.insync.replicas", "2"), False, id="excluded"),
        pytest.param(own("message.timestamp.before.max.ms", "2"), True, id="only_its_broker_name_is_excluded"),
    ],
)
def test_a_new_topic_gets_what_is_set_at_its_source(config: TopicConfig, copied: bool) -> None:
    assert (config.name in new_topic_configs([config], rule())) is copied


@pytest.mark.kafka_test("MirrorConnectorsIntegrationBaseTest.testReplicateSourceDefault")
def test_a_new_topic_gets_defaults_too_if_they_are_to_be_the_sources() -> None:
    configs = new_topic_configs([default("flush.ms", "9")], rule(use_defaults_from="source"))
    assert configs == {"flush.ms": "9"}


@pytest.mark.kafka_test("MirrorSourceConnectorTest.testConfigPropertyFiltering")
@pytest.mark.kafka_test("MirrorSourceConnectorTest.testConfigPropertyFilteringWithAlterConfigs")
@pytest.mark.parametrize(
    ("source", "target", "change"),
    [
        pytest.param(own("flush.ms", "9"), default("flush.ms", "1"), ConfigChange("flush.ms", "9"), id="set"),
        pytest.param(own("flush.ms", "9"), own("flush.ms", "8"), ConfigChange("flush.ms", "9"), id="changed"),
        pytest.param(own("flush.ms", "9"), own("flush.ms", "9"), None, id="equal"),
        pytest.param(
            own("flush.ms", "9"),
            TopicConfig("flush.ms", "9", ConfigSource.DYNAMIC_BROKER),
            ConfigChange("flush.ms", "9"),
            id="equal_only_by_the_brokers",
        ),
        pytest.param(
            default("flush.ms", "9"), own("flush.ms", "8"), ConfigChange("flush.ms", None), id="no_longer_set"
        ),
        pytest.param(default("flush.ms", "9"), default("flush.ms", "1"), None, id="set_nowhere"),
        pytest.param(own("min.insync.replicas", "2"), own("min.insync.replicas", "1"), None, id="excluded"),
    ],
)
def test_a_remote_topic_follows_its_source(
    source: TopicConfig, target: TopicConfig, change: ConfigChange | None
) -> None:
    assert config_changes([source], [target], rule()) == ([change] if change else [])


@pytest.mark.kafka_test("MirrorSourceConnectorTest.testConfigPropertyFilteringWithAlterConfigsAndSourceDefault")
def test_defaults_are_set_if_they_are_to_be_the_sources() -> None:
    there = [default("flush.ms", "1")]
    changes = config_changes([default("flush.ms", "9")], there, rule(use_defaults_from="source"))
    assert changes == [ConfigChange("flush.ms", "9")]


OLDER = [default("flush.ms", "1"), own("old.one", "1")]
NEWER = [own("flush.ms", "9"), own("new.one", "7"), own("min.insync.replicas", "2"), default("new.two", "1")]


def test_a_config_that_the_targets_brokers_do_not_know_keeps_no_other_from_following() -> None:
    assert config_changes(NEWER, OLDER, rule()) == [ConfigChange("flush.ms", "9")]


def test_a_config_that_the_sources_brokers_do_not_know_stays_as_it_is() -> None:
    assert config_changes([own("flush.ms", "1")], OLDER, rule()) == [ConfigChange("flush.ms", "1")]


def test_what_would_be_copied_and_is_not_known_there_can_be_told() -> None:
    assert unknown_configs(NEWER, OLDER, rule()) == {"new.one": "7"}


def test_what_is_excluded_is_an_expression_for_whole_names() -> None:
    configs = [own("flush.ms", "1"), own("flush.messages", "1"), own("xflush.ms", "1")]
    assert list(new_topic_configs(configs, rule(config_properties_exclude="flush.*"))) == ["xflush.ms"]


USER_FILTER = """
class Without:
    def should_replicate_config_property(self, name): return name != "min.insync.replicas"

class With(Without):
    def should_replicate_source_default(self, name): return name == "retention.ms"
"""


@pytest.mark.parametrize(
    ("name", "from_source", "defaults"),
    [
        ("With", "target", ["retention.ms"]),
        ("With", "source", ["retention.ms"]),
        ("Without", "target", []),
        ("Without", "source", ["retention.ms", "segment.ms"]),
    ],
)
def test_a_users_class_decides_of_defaults_if_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, from_source: str, defaults: list[str]
) -> None:
    (tmp_path / "mine.py").write_text(USER_FILTER)
    monkeypatch.setenv(PLUGIN_PATH, str(tmp_path))
    chosen = rule(**{"config.property.filter.class": f"python:mine:{name}", "use.defaults.from": from_source})
    names = ("retention.ms", "segment.ms", "min.insync.replicas")
    configs = [TopicConfig(each, "1", ConfigSource.DEFAULT) for each in names]
    assert list(new_topic_configs(configs, chosen)) == defaults
