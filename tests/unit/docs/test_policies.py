"""The example of docs/policies.md does what the page says, asked as a connector asks it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from mirror_connect.connectors import MirrorCheckpoint, MirrorSource
from mirror_connect.connectors.mirror.mirror_checkpoint import checkpoint_selection
from mirror_connect.connectors.mirror.mirror_source import topic_selection
from mirror_connect.connectors.mirror.topic_configs import ConfigSource, TopicConfig, config_property_filter
from mirror_connect.connectors.policies import INTERFACES
from mirror_connect.connectors.user_code.user_class import PLUGIN_PATH, SETTINGS, Limits
from tests.paths import ROOT

PAGE = (ROOT / "docs" / "policies.md").read_text("utf-8")
CODE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
EXAMPLE: Mapping[str, str] = json.loads(re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)[0])
CONFIG = {"name": "m", "source.cluster.alias": "eu", "target.cluster.alias": "us", **EXAMPLE}


@pytest.fixture(autouse=True)
def acme_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_mirror.py").write_text("\n".join(CODE))
    monkeypatch.setenv(PLUGIN_PATH, str(tmp_path))


def test_topics_and_their_names_are_as_the_example_says() -> None:
    selection = topic_selection(MirrorSource().settings({"connector.class": "MirrorSource", **CONFIG}))
    found = [
        "eu-orders",
        "asia-orders",
        "us-orders_from_us",
        "heartbeats",
        "heartbeats_from_asia",
        "__consumer_offsets",
    ]
    selection.judge(found)
    copied = {topic: selection.policy.remote_topic("eu", topic) for topic in found if selection.should_replicate(topic)}
    assert copied == {
        "eu-orders": "eu-orders_from_eu",
        "heartbeats": "heartbeats_from_eu",
        "heartbeats_from_asia": "heartbeats_from_asia_from_eu",
    }


def test_configs_are_as_the_example_says() -> None:
    rule = config_property_filter(MirrorSource().settings({"connector.class": "MirrorSource", **CONFIG}))
    names = ("retention.ms", "cleanup.policy", "segment.bytes")
    configs = [TopicConfig(name, "1", ConfigSource.TOPIC) for name in names]
    rule.judge(configs)
    assert [each.name for each in configs if rule.copies(each)] == ["retention.ms", "cleanup.policy"]


def test_groups_are_as_the_example_says() -> None:
    config = {"connector.class": "MirrorCheckpoint", **CONFIG, "group.filter.class": "python:acme_mirror:ServiceGroups"}
    selection = checkpoint_selection(MirrorCheckpoint().settings(config))
    assert [group for group in ("billing", "user-eve") if selection.wants(group, ["eu-orders"])] == ["billing"]


def test_every_class_setting_and_method_is_told() -> None:
    methods = {method for interface in INTERFACES.values() for method in interface}
    assert [name for name in {*SETTINGS, *SETTINGS.values(), *methods} if name not in PAGE] == []


def test_the_limits_are_told() -> None:
    limits = Limits()
    told = (
        f"| {limits.start_s:g} s of processor time, {limits.wait_s:g} s by the clock |",
        f"| {limits.call_s:g} s of processor time, {limits.wait_s:g} s by the clock |",
        f"| {limits.all_s:g} s by the clock |",
        f"ends after {limits.idle_s:g} s without a question",
    )
    assert [each for each in told if each not in " ".join(PAGE.split())] == []
