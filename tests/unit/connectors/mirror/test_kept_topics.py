"""Names that no copy may have on the target, with any filter, policy or class."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror_connect.connectors import connector_definition
from mirror_connect.connectors.mirror.filters import TopicSelection
from mirror_connect.connectors.mirror.mirror_source import topic_selection
from mirror_connect.connectors.user_code.known_classes import IDENTITY_POLICY
from mirror_connect.connectors.user_code.user_class import PLUGIN_PATH

CLASS = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
KEPT = frozenset({"connect-configs", "connect-offsets", "connect-status"})


def selection(**more: str) -> TopicSelection:
    config = {
        "name": "c",
        "connector.class": CLASS,
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": "a",
        **{name.replace("__", "."): value for name, value in more.items()},
    }
    return topic_selection(connector_definition(CLASS).settings(config)).with_reserved(KEPT)


@pytest.mark.parametrize("topic", sorted(KEPT))
def test_names_that_stay_never_become_the_workers_own_topics(topic: str) -> None:
    found = selection(replication__policy__class=IDENTITY_POLICY)
    assert (found.should_replicate(topic), found.should_replicate(f"{topic}2")) == (False, True)


def test_an_alias_and_a_separator_do_not_make_up_the_workers_own_topics() -> None:
    found = selection(source__cluster__alias="connect", replication__policy__separator="-")
    assert (found.should_replicate("configs"), found.should_replicate("config")) == (False, True)


def test_the_workers_own_topics_of_the_source_are_copied_under_another_name() -> None:
    assert selection().should_replicate("connect-configs")


@pytest.mark.parametrize("remote", ["connect-configs", "mm2-offset-syncs.A.internal", "A.checkpoints.internal"])
def test_a_class_of_the_users_leads_to_none_of_them_either(
    remote: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "led.py").write_text(
        "class Led:\n"
        f"    def format_remote_topic(self, alias, topic): return {remote!r} if topic == 'orders' else topic\n"
        "    def topic_source(self, topic): return None\n"
        "    def upstream_topic(self, topic): return None\n"
    )
    monkeypatch.setenv(PLUGIN_PATH, str(tmp_path))
    found = selection(replication__policy__class="python:led:Led")
    assert (found.should_replicate("orders"), found.should_replicate("bills")) == (False, True)


def test_no_topic_of_the_source_becomes_the_checkpoints_of_the_target() -> None:
    """`A.checkpoints.internal` says where groups continue; MirrorMaker 2 copies a topic of any content into it."""
    found = selection()
    assert (found.should_replicate("checkpoints.internal"), found.should_replicate("checkpoints")) == (False, True)


def test_which_topics_are_kept_back_is_told_with_the_names_they_would_have() -> None:
    found = selection(replication__policy__class=IDENTITY_POLICY)
    assert found.reserved_topics(["orders", "connect-status", "connect-configs", "__other"]) == {
        "connect-configs": "connect-configs",
        "connect-status": "connect-status",
    }
