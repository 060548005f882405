"""Configs of remote topics follow their sources; a topic that is refused is a line and keeps no other from following."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import cast

import pytest

from mirror_connect.app.worker_connectors import config_sync
from mirror_connect.app.worker_connectors.config_sync import ConfigSync, config_sync_every_s
from mirror_connect.connectors import connector_definition
from mirror_connect.connectors.config.table import Settings
from mirror_connect.connectors.mirror.topic_configs import ConfigChange, ConfigSource, TopicConfig
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.topic_config_admin import Described

CLASS = "org.apache.kafka.connect.mirror.MirrorSourceConnector"


class Cluster:
    """`topics`: topic → its own configs; `denied`: topics that may not be described, or altered."""

    def __init__(
        self, topics: Mapping[str, Mapping[str, str]], *, denied: Collection[str] = (), fixed: str = ""
    ) -> None:
        self.topics = topics
        self.denied = denied
        self.fixed = fixed
        self.altered: dict[str, Sequence[ConfigChange]] = {}

    @property
    def admin(self) -> ClusterAdmin:
        return cast("ClusterAdmin", self)


def describe(cluster: Cluster, topics: Collection[str]) -> Described:
    found = Described()
    for topic in topics:
        if topic in cluster.denied:
            found.refused[topic] = f"the configs of topic {topic} can't be read"
        elif topic not in cluster.topics:
            found.absent.add(topic)
        else:
            own = cluster.topics[topic].items()
            found.configs[topic] = [TopicConfig(name, value, ConfigSource.TOPIC) for name, value in own]
            if "flush.ms" not in cluster.topics[topic]:
                found.configs[topic].append(TopicConfig("flush.ms", "1000", ConfigSource.DEFAULT))
    return found


def alter(cluster: Cluster, changes: Mapping[str, Sequence[ConfigChange]], **_: bool) -> dict[str, str]:
    cluster.altered.update(changes)
    return {topic: f"topic {topic} may not be altered" for topic in changes if topic == cluster.fixed}


@pytest.fixture(autouse=True)
def in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_sync, "describe_topic_configs", describe)
    monkeypatch.setattr(config_sync, "alter_topic_configs", alter)


def settings(**more: str) -> Settings:
    config = {"name": "c", "connector.class": CLASS, "source.cluster.alias": "A"}
    config |= {name.replace("__", "."): value for name, value in more.items()}
    return connector_definition(CLASS).settings(config)


def synced(source: Cluster, target: Cluster, *topics: str, sync: ConfigSync | None = None) -> list[str]:
    links = {topic: f"A.{topic}" for topic in topics}
    return (sync or ConfigSync(settings())).sync(source.admin, target.admin, links)


def test_a_remote_topic_gets_its_sources_configs() -> None:
    source, target = Cluster({"a": {"flush.ms": "9"}}), Cluster({"A.a": {}})
    assert synced(source, target, "a") == []
    assert target.altered == {"A.a": [ConfigChange("flush.ms", "9")]}


def test_nothing_is_sent_where_both_sides_agree() -> None:
    source, target = Cluster({"a": {"flush.ms": "9"}}), Cluster({"A.a": {"flush.ms": "9"}})
    assert (synced(source, target, "a"), target.altered) == ([], {})


def test_a_topic_that_is_gone_on_one_side_is_left_alone() -> None:
    source, target = Cluster({"a": {"flush.ms": "9"}}), Cluster({"A.b": {}})
    assert (synced(source, target, "a", "b"), target.altered) == ([], {})


def test_a_refused_topic_keeps_no_other_from_following() -> None:
    source = Cluster({name: {"flush.ms": "9"} for name in "abcd"}, denied=["a"])
    target = Cluster({f"A.{name}": {} for name in "abcd"}, denied=["A.b"], fixed="A.c")
    lines = synced(source, target, *"abcd")
    assert lines[:2] == ["the configs of topic a can't be read", "the configs of topic A.b can't be read"]
    assert lines[2].startswith("topic A.c may not be altered; wanted: ")
    assert "flush.ms" in lines[2]
    assert target.altered.keys() == {"A.c", "A.d"}


def test_only_what_was_altered_is_logged_as_such(caplog: pytest.LogCaptureFixture) -> None:
    source = Cluster({name: {"flush.ms": "9"} for name in "cd"})
    with caplog.at_level(logging.INFO):
        synced(source, Cluster({"A.c": {}, "A.d": {}}, fixed="A.c"), "c", "d")
    assert ["topic A.d" in line for line in caplog.messages] == [True]


def test_a_config_that_the_target_does_not_know_is_logged_once_for_all_topics(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = Cluster({"a": {"new.config": "1"}, "b": {"new.config": "2"}})
    target, sync = Cluster({"A.a": {}, "A.b": {}}), ConfigSync(settings())
    for _ in range(2):
        synced(source, target, "a", "b", sync=sync)
    assert sum("new.config" in line for line in caplog.messages) == 1


def test_a_new_topic_is_created_with_its_sources_own_configs() -> None:
    source = Cluster({"a": {"cleanup.policy": "compact"}})
    found = ConfigSync(settings()).for_new_topics(source.admin, ["a"])
    assert (found.configs, found.unreadable) == ({"a": {"cleanup.policy": "compact"}}, {})


def test_a_topic_whose_configs_are_unknown_is_not_created() -> None:
    source = Cluster({"a": {}, "b": {}}, denied=["b"])
    found = ConfigSync(settings()).for_new_topics(source.admin, ["a", "b", "c"])
    assert found.configs.keys() == {"a"}
    assert found.unreadable == {
        "b": "topic b is not copied: the configs of topic b can't be read; or create its remote topic by hand",
        "c": "topic c is not copied: it no longer exists",
    }


def test_without_new_topics_nobody_is_asked() -> None:
    assert ConfigSync(settings()).for_new_topics(cast("ClusterAdmin", None), []).configs == {}


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({}, 600.0),
        ({"sync__topic__configs__interval__seconds": "5"}, 5.0),
        ({"sync__topic__configs__enabled": "false", "sync__topic__configs__interval__seconds": "5"}, 0.0),
    ],
)
def test_how_often_configs_are_synced(given: dict[str, str], seconds: float) -> None:
    assert config_sync_every_s(settings(**given)) == seconds
