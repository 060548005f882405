"""Filters and a naming policy written in Python, in the worker's `plugin.path`: asked by worker and Spark tasks alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from deploy.local import LocalCluster
from mirror_connect.connectors.records.checkpoints import Checkpoint
from tests.brokers import commit, messages
from tests.e2e.ends import wait_ends
from tests.e2e.identity_topics import produce
from tests.e2e.product import Product, mirror_config
from tests.waiting import wait_for, wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

MODULE = """
class Chosen:
    def __init__(self, config): self.prefix = config["acme.prefix"]
    def should_replicate_topic(self, topic): return topic.startswith(self.prefix)

class Readers:
    def should_replicate_group(self, group): return group.endswith("-readers")

class Behind:
    def format_remote_topic(self, source_alias, topic): return f"{topic}_from_{source_alias}"
    def topic_source(self, topic): return topic.rpartition("_from_")[2] if "_from_" in topic else None
    def upstream_topic(self, topic): return topic.rpartition("_from_")[0] if "_from_" in topic else None

class Moody(Chosen):
    def should_replicate_topic(self, topic):
        if topic.endswith("-late"): raise KeyError(topic)
        return super().should_replicate_topic(topic)
"""
RECORDS, READ = 50, 20


@dataclass
class Link:
    """Makes connectors of the session's worker, and deletes them."""

    product: Product
    source: LocalCluster
    target: LocalCluster
    made: list[str]

    def put(self, name: str, prefix: str, kind: str = "Source", **classes: str) -> None:
        named = {f"{setting.replace('_', '.')}.class": f"python:acme:{each}" for setting, each in classes.items()}
        config = {
            # Kafka would not compile this list; what it means is the filter's matter.
            **mirror_config(self.source, self.target, "*", source_cluster_alias="U"),
            "connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector",
            "acme.prefix": prefix,
            **named,
        }
        self.made.append(name)
        self.product.put(name, {each: value for each, value in config.items() if not each.startswith("sync.topic")})


@pytest.fixture
def link(product: Product, source_cluster: LocalCluster, target_cluster: LocalCluster) -> Iterator[Link]:
    plugins = product.directory / "plugins"
    plugins.mkdir(exist_ok=True)
    (plugins / "acme.py").write_text(MODULE)
    made = Link(product, source_cluster, target_cluster, [])
    yield made
    for name in made.made:
        product.delete(name)


def checkpoints(cluster: LocalCluster, group: str) -> list[tuple[str, int]]:
    topic = "U.checkpoints.internal"
    if topic not in cluster.admin().list_topics(timeout=60).topics:
        return []
    found = [Checkpoint.decode(message.key(), message.value()) for message in messages(cluster, topic, 0)]
    return [(each.topic, each.downstream) for each in found if each.group == group]


def test_topics_groups_and_positions_go_by_them(link: Link, topic_name: Callable[[str], str]) -> None:
    topic, other = topic_name("by-class"), topic_name("not-by-class")
    group = f"{topic}-readers"
    for name in (topic, other):
        link.source.create_topic(name, 1)
    produce(link.source, topic, [{"value": b"%d" % number, "partition": 0} for number in range(RECORDS)])
    commit(link.source, group, topic, READ)
    classes = {"topic_filter": "Chosen", "replication_policy": "Behind"}
    link.put(f"{topic}-source", topic, **classes)
    wait_ends(link.target, f"{topic}_from_U", {0: RECORDS})
    link.put(f"{topic}-checkpoint", topic, "Checkpoint", group_filter="Readers", **classes)
    # Until the copying task has recorded what lies where, the group is not translated to the very record.
    translated = f"{topic}_from_U", READ
    wait_for(lambda: checkpoints(link.target, group)[-1:] == [translated], "the group is translated")
    there = [name for name in link.target.admin().list_topics(timeout=60).topics if other in name]
    assert there == []


def test_one_that_raises_fails_its_connector_with_one_line_and_no_other(
    link: Link, topic_name: Callable[[str], str]
) -> None:
    topic = topic_name("moody")
    link.source.create_topic(topic, 1)
    link.put(f"{topic}-good", topic, topic_filter="Chosen")
    link.put(f"{topic}-moody", topic, topic_filter="Moody")
    link.product.wait_running(f"{topic}-good")
    wait_for_state(lambda: link.product.states(f"{topic}-moody")[:1] == ["RUNNING"], "its filter has answered")
    link.source.create_topic(f"{topic}-late", 1)
    wait_for_state(lambda: link.product.states(f"{topic}-moody")[:1] == ["FAILED"], "its filter has raised")
    trace = link.product.status(f"{topic}-moody")["connector"]["trace"]
    produce(link.source, f"{topic}-late", [{"value": b"v", "partition": 0}])
    wait_ends(link.target, f"U.{topic}-late", {0: 1})
    assert trace.strip() == (
        f"Invalid value python:acme:Moody for configuration topic.filter.class: should_replicate_topic('{topic}-late') "
        f"raised KeyError: '{topic}-late' (line 16 of acme.py)"
    )
