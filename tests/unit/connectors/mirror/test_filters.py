import json
from pathlib import Path
from typing import Any

import pytest

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.filters import (
    GROUPS_DEFAULT,
    GROUPS_EXCLUDE_DEFAULT,
    TOPICS_DEFAULT,
    TOPICS_EXCLUDE_DEFAULT,
    LeftOut,
    NameFilter,
    TopicSelection,
    user_names,
)
from mirror_connect.connectors.replication_policy import DefaultReplicationPolicy
from mirror_connect.connectors.user_code.user_class import PLUGIN_PATH
from tests.paths import FIXTURES

LINES = (FIXTURES / "filter-vectors.jsonl").read_text().splitlines()
VECTORS = [json.loads(line) for line in LINES]
DEFAULTS = {"topics": (TOPICS_DEFAULT, TOPICS_EXCLUDE_DEFAULT), "groups": (GROUPS_DEFAULT, GROUPS_EXCLUDE_DEFAULT)}


def entries(text: str | None, default: list[str]) -> list[str]:
    return default if text is None else [entry.strip() for entry in text.split(",")] if text else []


def select(**lists: list[str]) -> TopicSelection:
    topics = NameFilter.compile("topics", lists.get("topics", TOPICS_DEFAULT))
    excluded = NameFilter.compile("topics.exclude", lists.get("exclude", TOPICS_EXCLUDE_DEFAULT))
    return TopicSelection(DefaultReplicationPolicy(), topics, excluded, "B")


@pytest.mark.kafka_test("MirrorSourceConfigTest.testTopicMatching")
@pytest.mark.kafka_test("MirrorSourceConfigTest.testNoTopics")
@pytest.mark.kafka_test("MirrorSourceConfigTest.testAllTopics")
@pytest.mark.kafka_test("MirrorSourceConfigTest.testListOfTopics")
@pytest.mark.parametrize(
    "vector", [vector for vector in VECTORS if not vector.get("error")], ids=lambda v: str(list(v.values())[1:3])
)
def test_a_filter_accepts_what_kafkas_accepts(vector: dict[str, Any]) -> None:
    setting = "topics" if vector["kind"] == "topic-filter" else "groups"
    included, excluded = DEFAULTS[setting]
    wanted = NameFilter.compile(setting, entries(vector[setting], included))
    unwanted = NameFilter.compile(f"{setting}.exclude", entries(vector[f"{setting}.exclude"], excluded))
    assert [n for n in vector["candidates"] if wanted.matches(n) and not unwanted.matches(n)] == vector["accepted"]


@pytest.mark.parametrize("vector", [vector for vector in VECTORS if vector.get("error")], ids=lambda v: v["topics"])
def test_a_list_that_kafka_cannot_compile_is_refused_with_the_entry_at_fault(vector: dict[str, Any]) -> None:
    reason = vector["error"].splitlines()[0].removeprefix("PatternSyntaxException: ").split(" near ")[0]
    first = vector["topics"].split(",")[0]
    with pytest.raises(ConfigError) as caught:
        NameFilter.compile("topics", entries(vector["topics"], []))
    assert str(caught.value).startswith(
        f"Invalid value {first} for configuration topics: Not a regular expression: {reason}"
    )


def test_entries_cut_at_a_comma_may_be_valid_together() -> None:
    assert NameFilter.compile("topics", ["(a", "b)"]).matches("b")


@pytest.mark.kafka_test("MirrorSourceConnectorTest.testReplicatesHeartbeatsDespiteFilter")
@pytest.mark.parametrize("topic", ["heartbeats", "A.heartbeats"])
def test_heartbeats_are_copied_whatever_the_filter_says(topic: str) -> None:
    assert select(topics=["orders"], exclude=[".*"]).should_replicate(topic)


@pytest.mark.kafka_test("MirrorSourceConnectorTest.testDoesNotReplicateHeartbeatsWhenDisabled")
@pytest.mark.kafka_test("MirrorSourceConnectorTest.testReplicatesHeartbeatsWhenDisabledButFilterAllows")
@pytest.mark.parametrize(("topics", "copied"), [("orders", False), ("heart.*", True)])
def test_heartbeats_follow_the_filter_when_told_to(topics: str, copied: bool) -> None:
    wanted, excluded = NameFilter.compile("topics", [topics]), NameFilter(None)
    selection = TopicSelection(DefaultReplicationPolicy(), wanted, excluded, "B", heartbeats=False)
    assert selection.should_replicate("heartbeats") is copied


@pytest.mark.kafka_test("MirrorSourceConnectorTest.testNoCycles")
@pytest.mark.parametrize("topic", ["B.heartbeats", "B.t", "A.B.t", "__x", ".x", "mm2-offset-syncs.B.internal"])
def test_cycles_and_internal_topics_are_never_copied(topic: str) -> None:
    assert not select(topics=[".*"], exclude=[]).should_replicate(topic)


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        pytest.param("orders", None, id="copied"),
        pytest.param("heartbeats", None, id="heartbeats_whatever_the_filter"),
        pytest.param("bills", LeftOut.NOT_SELECTED, id="not_in_topics"),
        pytest.param("orders-old", LeftOut.EXCLUDED, id="in_topics_exclude"),
        pytest.param("__orders", LeftOut.INTERNAL, id="internal"),
        pytest.param("B.orders", LeftOut.CYCLE, id="from_the_target"),
    ],
)
def test_what_is_left_out_has_its_reason(topic: str, reason: LeftOut | None) -> None:
    selection = select(topics=[".*orders.*"], exclude=[".*-old"])
    assert (selection.left_out(topic), selection.should_replicate(topic)) == (reason, reason is None)


def test_a_users_class_is_asked_anew_at_each_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(
        "import os\n"
        "class Mine:\n"
        f"    def should_replicate_topic(self, topic): return topic in os.listdir({str(tmp_path)!r})\n"
    )
    monkeypatch.setenv(PLUGIN_PATH, str(tmp_path))
    names = user_names("topic.filter.class", {"topic.filter.class": "python:mine:Mine"})
    assert names is not None
    names.judge(["orders"])
    before = names.matches("orders")
    (tmp_path / "orders").touch()
    names.judge(["orders"])
    assert (before, names.matches("orders")) == (False, True)
