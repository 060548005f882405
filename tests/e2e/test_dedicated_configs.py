"""What dedicated mode stores of a file with settings at every level, beside what MirrorMaker 2 stores of the same file.

MirrorMaker runs first. Then its config topics are deleted, and this product fills them again. At last MirrorMaker runs once
more, on what this product has stored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from deploy.local import LocalCluster
from deploy.local.connect import DedicatedMirrorMaker
from tests.brokers import commit, messages
from tests.e2e.dedicated import CHECKPOINT, HEARTBEAT, SOURCE, Dedicated, mm2_properties
from tests.e2e.ends import end_offsets
from tests.e2e.identity_topics import produce
from tests.waiting import wait_for, wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.mm2, pytest.mark.long, pytest.mark.soak]

UPSTREAM, DOWNSTREAM = "files-east", "files-west"
TOPIC: Final = "of-files"
GROUP: Final = "readers-of-files"
PARTITIONS: Final = 3
FLOW: Final = f"{UPSTREAM}->{DOWNSTREAM}"
# A property of each kind, and at each place.
SETTINGS: Final = {
    "topics": f"{TOPIC}, other-.*",
    "groups": GROUP,
    "tasks.max": "1",
    f"{FLOW}.tasks.max": "2",
    f"{FLOW}.topics.exclude": "nothing\\..*",
    f"{FLOW}.use.defaults.from": "source",
    f"{FLOW}.of.nobody": "kept",
    f"{FLOW}.source.consumer.fetch.max.wait.ms": "200",
    f"{FLOW}.producer.override.linger.ms": "5",
    f"{UPSTREAM}.consumer.fetch.max.bytes": "1000000",
    f"{UPSTREAM}.client.id": "from-the-east",
    f"{DOWNSTREAM}.producer.compression.type": "lz4",
    f"{DOWNSTREAM}.admin.retries": "7",
    f"{DOWNSTREAM}.offset.flush.interval.ms": "2000",
    "security.protocol": "PLAINTEXT",
    "replication.policy.separator": "_",
    "replication.policy.internal.topic.separator.enabled": "false",
    "offset.lag.max": "0",
    "consumer.poll.timeout.ms": "500",
    "emit.heartbeats.interval.seconds": "2",
    "sync.group.offsets.enabled": "true",
    "use.defaults.from": "lost",
    "producer.acks": "lost",
    "config.providers": "file",
    "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
}
# Read by the config provider.
PROVIDED: Final = {"excluded": "min.insync.replicas", "retries": "9"}
PATIENCE_S: Final = 360.0
Stored = dict[str, list[bytes]]


@dataclass
class Files:
    """What was stored in each config topic, by the record's key: by MirrorMaker, by us, and after MirrorMaker came back."""

    clusters: Mapping[str, LocalCluster]
    by_java: dict[str, Stored] = field(default_factory=dict)
    by_us: dict[str, Stored] = field(default_factory=dict)
    in_the_end: dict[str, Stored] = field(default_factory=dict)

    def stored(self) -> dict[str, Stored]:
        """All values of each key in the config topics of both flows, by the topic."""
        found: dict[str, Stored] = {}
        for alias, cluster in self.clusters.items():
            for topic in self.config_topics(alias):
                of_topic = found.setdefault(topic, {})
                for message in messages(cluster, topic, 0, isolation="read_committed"):
                    of_topic.setdefault(message.key().decode(), []).append(message.value())
        return found

    def config_topics(self, alias: str) -> list[str]:
        """The config topics of flows to this cluster."""
        (other,) = set(self.clusters) - {alias}
        return [f"mm2-configs.{other}.internal"]

    def wait_stored(self) -> None:
        """Until both flows have their connectors, and the enabled one its tasks."""
        source, checkpoint = (f"commit-{name}" for name in (SOURCE, CHECKPOINT))

        def complete() -> bool:
            found = self.stored()
            enabled = found.get(f"mm2-configs.{UPSTREAM}.internal", {})
            tasks = {key: json.loads(enabled.get(key, [b'{"tasks":0}'])[-1])["tasks"] for key in (source, checkpoint)}
            connectors = [
                {f"connector-{name}" for name in (SOURCE, CHECKPOINT, HEARTBEAT)} <= set(each)
                for each in found.values()
            ]
            return tasks == {source: 2, checkpoint: 1} and all(connectors) and f"commit-{HEARTBEAT}" in enabled

        wait_for_state(lambda: all(self._present()) and complete(), "the connectors and tasks are stored", PATIENCE_S)

    def _present(self) -> list[bool]:
        return [
            bool(end_offsets(self.clusters[alias], topic))
            for alias in self.clusters
            for topic in self.config_topics(alias)
        ]

    def forget(self) -> None:
        """Deletes the config topics."""
        for alias, cluster in self.clusters.items():
            for future in cluster.admin().delete_topics(self.config_topics(alias)).values():
                future.result(180)
        wait_for_state(lambda: not any(self._present()), "the config topics are gone", 60.0)


@pytest.fixture(scope="module")
def files(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Files]:
    clusters = {UPSTREAM: source_cluster, DOWNSTREAM: target_cluster}
    made = Files(clusters)
    provided = tmp_path_factory.mktemp("files") / "provided.properties"
    provided.write_text("".join(f"{name}={value}\n" for name, value in PROVIDED.items()))
    references = {
        "config.properties.exclude": f"${{file:{provided}:excluded}}",
        f"{DOWNSTREAM}.producer.retries": f"${{file:{provided}:retries}}",
    }
    properties = mm2_properties(clusters, [FLOW], {**SETTINGS, **references})
    source_cluster.create_topic(TOPIC, PARTITIONS)
    produce(source_cluster, TOPIC, ({"value": b"%d" % n, "partition": n % PARTITIONS} for n in range(30)))
    commit(source_cluster, GROUP, TOPIC, 5, partitions=range(PARTITIONS))
    java = DedicatedMirrorMaker(source_cluster, target_cluster, aliases=(UPSTREAM, DOWNSTREAM), heap="512m")
    java.properties = dict(properties)
    ours = Dedicated(target_cluster, properties, internal_rest=False, name="files")
    try:
        java.start()
        made.wait_stored()
        made.by_java = made.stored()
        java.stop()
        made.forget()
        ours.start()
        made.wait_stored()
        made.by_us = made.stored()
        assert ours.stop() == 0
        java.start()
        made.wait_stored()
        produce(source_cluster, TOPIC, [{"value": b"last", "partition": 0}])
        # Its leader compares the stored connectors before it starts a task.
        copy = f"{UPSTREAM}_{TOPIC}"
        wait_for(lambda: end_offsets(target_cluster, copy)[0] >= 11, "MirrorMaker copies again", PATIENCE_S)
        made.in_the_end = made.stored()
        yield made
    finally:
        ours.close()
        java.close()


FLOW_TOPICS = [f"mm2-configs.{alias}.internal" for alias in (UPSTREAM, DOWNSTREAM)]


@pytest.mark.parametrize("topic", FLOW_TOPICS)
def test_the_same_keys_are_stored(files: Files, topic: str) -> None:
    assert set(files.by_us[topic]) == set(files.by_java[topic])


@pytest.mark.parametrize("topic", FLOW_TOPICS)
@pytest.mark.parametrize("name", [SOURCE, CHECKPOINT, HEARTBEAT])
def test_a_connector_is_stored_as_mirrormaker_stores_it_up_to_the_order_of_its_map(
    files: Files, topic: str, name: str
) -> None:
    java, ours = (stored[topic][f"connector-{name}"][-1] for stored in (files.by_java, files.by_us))
    assert json.loads(ours) == json.loads(java)
    assert sorted(ours) == sorted(java)


@pytest.mark.parametrize("topic", FLOW_TOPICS)
def test_tasks_are_stored_as_mirrormaker_stores_them_up_to_the_order_of_topics(files: Files, topic: str) -> None:
    assert _tasks(files.by_us[topic]) == _tasks(files.by_java[topic])


@pytest.mark.parametrize("topic", FLOW_TOPICS)
@pytest.mark.parametrize("name", [SOURCE, CHECKPOINT, HEARTBEAT])
def test_mirrormaker_that_comes_back_stores_nothing_else(files: Files, topic: str, name: str) -> None:
    ours = json.loads(files.by_us[topic][f"connector-{name}"][-1])
    # It stores them again, because it takes a resolved reference for another value.
    assert [json.loads(value) for value in files.in_the_end[topic][f"connector-{name}"]] == [ours] * 2


def _tasks(stored: Stored) -> dict[str, Any]:
    """Each task's properties, and all that is assigned to any of them."""
    tasks = {key: json.loads(values[-1])["properties"] for key, values in stored.items() if key.startswith("task-")}
    assigned = sorted(
        f"{key.rpartition('-')[0]} {each}"
        for key, properties in tasks.items()
        for name in list(properties)
        if name.startswith("task.assigned.")
        for each in properties.pop(name).split(",")
    )
    return {"tasks": tasks, "assigned": assigned}
