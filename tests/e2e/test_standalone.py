"""Standalone mode by its start script: connectors of files, REST, offsets in a file that each next start continues from."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import Any, Final, Self

import httpx
import pytest

from deploy.local import LocalCluster
from deploy.local.broker_config import write_properties
from mirror_connect.app.standalone.offset_file import read_offset_file
from tests.e2e.ends import end_offsets, wait_ends
from tests.e2e.numbered import Writer, read
from tests.e2e.product import MIRROR_SOURCE, Product
from tests.paths import ROOT
from tests.waiting import wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

HEARTBEAT: Final = "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector"
PARTITIONS: Final = 3
RATE: Final = 600
FILE_REFUSED: Final = 3
USED: Final = 3


class Standalone(Product):
    """A standalone worker on `cluster`, with the connectors of `files` below its directory."""

    def __init__(self, cluster: LocalCluster, *files: str) -> None:
        super().__init__(
            cluster, group="standalone", command=(ROOT / "bin" / "connect-standalone.sh",), arguments=files
        )
        self.offsets = self.directory / "connect.offsets"
        # What a file of distributed mode has besides is named as unused.
        self.properties |= {"offset.storage.file.filename": str(self.offsets)}

    def prepared(self, source: LocalCluster, topic: str) -> Self:
        """With the files of both kinds: one copies the topic, the other sends heartbeats."""
        write_properties(self.directory / "copy.properties", source_config(source, self.cluster, topic))
        (self.directory / "beat.json").write_text(json.dumps(heartbeat_request(self.cluster)))
        return self

    def stored(self, connector: str) -> dict[str, Any]:
        """What the file has of a connector: key → offset."""
        found = {json.loads(key)[0]: {} for key in read_offset_file(self.offsets)}
        for key, value in read_offset_file(self.offsets).items():
            name, partition = json.loads(key)
            if partition is not None:
                found[name][json.dumps(partition)] = None if value is None else json.loads(value)["offset"]
        return found.get(connector, {})


def unique(name: str) -> str:
    """A topic of this test alone."""
    return f"{name}-{uuid.uuid4().hex[:8]}"


def source_config(source: LocalCluster, target: LocalCluster, topic: str) -> dict[str, str]:
    """Of a connector that copies a topic."""
    return {
        "name": "copy",
        "connector.class": MIRROR_SOURCE,
        "tasks.max": "2",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "topics": topic,
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "offset-syncs.topic.location": "target",
        "sync.topic.acls.enabled": "false",
        **{f"source.cluster.{name}": value for name, value in source.client_properties().items()},
        **{f"target.cluster.{name}": value for name, value in target.client_properties().items()},
    }


def heartbeat_request(target: LocalCluster) -> dict[str, Any]:
    """The body of a request that creates a heartbeat connector."""
    config = {
        "connector.class": HEARTBEAT,
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "heartbeats.topic.replication.factor": 1,
        **{f"target.cluster.{name}": value for name, value in target.client_properties().items()},
    }
    return {"name": "beat", "config": config, "initial_state": "running"}


def numbers(cluster: LocalCluster, topic: str, counts: dict[int, int]) -> dict[int, Sequence[int]]:
    """Repeats of each partition, after it is asserted that every number is there, in order."""
    found = read(cluster, topic, end_offsets(cluster, topic))
    for partition, count in counts.items():
        assert found[partition].first_seen == list(range(count))
    return {partition: list(each.repeats.elements()) for partition, each in found.items()}


def test_files_rest_and_a_stop_after_which_nothing_is_copied_twice(
    source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    topic = unique("alone")
    source_cluster.create_topic(topic, PARTITIONS)
    with Standalone(target_cluster, "copy.properties", "beat.json").prepared(source_cluster, topic) as worker:
        worker.wait_running("copy", 2)
        worker.wait_running("beat")
        with Writer(source_cluster, topic, PARTITIONS, RATE) as writer:
            wait_ends(target_cluster, f"A.{topic}", dict.fromkeys(range(PARTITIONS), 200))
            # In the middle of records.
            assert worker.stop() == 0
        stored = worker.stored("copy")
        ends = end_offsets(target_cluster, f"A.{topic}")
        assert {json.loads(key)["partition"]: offset + 1 for key, offset in stored.items()} == ends
        assert list(worker.stored("beat").values()) == [0]
        worker.start()
        worker.wait_running("copy", 2)
        wait_ends(target_cluster, f"A.{topic}", writer.counts)
        assert numbers(target_cluster, f"A.{topic}", writer.counts) == {0: [], 1: [], 2: []}

        # A second worker with the same file ends, and says why.
        second = Standalone(target_cluster)
        try:
            second.properties["offset.storage.file.filename"] = str(worker.offsets)
            assert second.launch().wait_ended() == USED
            assert f"(process {worker.process.pid}) uses {worker.offsets}" in second.log_tail(1)
        finally:
            second.close()

        # REST changes offsets of what is stopped, in the file at once.
        assert worker.rest.get("/connectors").json() == ["copy", "beat"]
        assert worker.status("copy")["connector"]["worker_id"] == f"127.0.0.1:{worker.port}"
        assert len(worker.call("GET", "/connectors/copy/offsets")["offsets"]) == PARTITIONS
        refused = worker.rest.delete("/connectors/copy/offsets")
        assert refused.status_code == httpx.codes.BAD_REQUEST
        worker.call("PUT", "/connectors/copy/stop")
        worker.wait_states("copy", ["STOPPED"])
        worker.call("DELETE", "/connectors/copy/offsets")
        assert set(worker.stored("copy").values()) == {None}
        worker.delete("copy")
        assert worker.stop() == 0


@pytest.mark.long
def test_a_kill_loses_nothing_and_repeats_two_seconds_at_most(
    source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    topic = unique("alone")
    source_cluster.create_topic(topic, PARTITIONS)
    with Standalone(target_cluster, "copy.properties").prepared(source_cluster, topic) as worker:
        with Writer(source_cluster, topic, PARTITIONS, RATE) as writer:
            for parts in (["worker"], []):
                worker.wait_running("copy", 2)
                # What is behind comes at once, and all of that may be repeated.
                wait_stored(worker, writer, behind=RATE)
                worker.kill(*parts)
                worker.start()
        wait_stored(worker, writer)
        assert worker.stop() == 0
    repeats = numbers(target_cluster, f"A.{topic}", writer.counts)
    assert 0 < sum(map(len, repeats.values())) <= 2 * 2 * RATE


def wait_stored(worker: Standalone, writer: Writer, behind: int = 0) -> None:
    """Waits until the file has all records but for so many of each partition."""

    def there() -> bool:
        stored = {json.loads(key)["partition"]: offset for key, offset in worker.stored("copy").items()}
        return all(stored.get(each, -1) + 1 >= max(1, count - behind) for each, count in writer.counts.items())

    wait_for(there, "the file has the records", 120, arrived=lambda: worker.stored("copy"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(None, "No such file or directory", id="absent"),
        pytest.param("tasks.max=1\n", "it has no name", id="nameless", marks=pytest.mark.long),
        pytest.param('{"name": "copy"', "Expecting ',' delimiter at line 1", id="cut_off", marks=pytest.mark.long),
        pytest.param('{"name": "copy", "connector.class": "a.B"}', "Failed to find any class", id="unknown_class"),
    ],
)
def test_a_file_that_cannot_be_used_ends_the_worker_with_its_name(
    target_cluster: LocalCluster, content: str | None, said: str
) -> None:
    worker = Standalone(target_cluster, "copy.json")
    try:
        if content is not None:
            (worker.directory / "copy.json").write_text(content)
        assert worker.launch().wait_ended() == FILE_REFUSED
        last = worker.log_tail(1)
    finally:
        worker.close()
    assert last.startswith("mirror-connect: Connector file copy.json: ")
    assert said in last
