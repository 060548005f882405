"""Strimzi's resources become the workers and connectors that its operator makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror_connect.app.config.properties import UnreadableFile
from mirror_connect.check.document import UnknownDocument
from mirror_connect.check.documents import read_documents
from mirror_connect.check.judge import check_file
from mirror_connect.check.judgement import Verdict
from mirror_connect.connectors import MirrorSource
from tests.paths import ROOT

FIXTURES = ROOT / "tests" / "fixtures" / "check"
V1 = """\
apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
metadata: {name: mm}
spec:
  target: {alias: b, bootstrapServers: "b:1", groupId: g, configStorageTopic: c, config: {offset.flush.interval.ms: 5}}
  mirrors:
    - source: {alias: a, bootstrapServers: "a:1"}
      topicsPattern: orders
      sourceConnector: {tasksMax: 3}
"""


CONNECT = """\
apiVersion: kafka.strimzi.io/v1
kind: KafkaConnect
metadata: {name: c}
spec:
  bootstrapServers: "b:1"
  config: {WORKER}
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaConnector
metadata: {name: m}
spec:
  class: org.apache.kafka.connect.mirror.MirrorSourceConnector
  config:
    source.cluster.alias: A
    spark.transform.sql: SELECT 1
    spark.transform.lookup.r: /data/r.csv
    spark.transform.lookup.r.schema: id INT
"""


@pytest.mark.parametrize(
    ("worker", "verdict"),
    [
        ("spark.transform.lookup.allowed.paths: /data", Verdict.DIFFERENT),
        ("offset.flush.interval.ms: 5", Verdict.REFUSED),
    ],
)
def test_the_worker_of_a_file_says_where_files_of_lookups_may_be(tmp_path: Path, worker: str, verdict: Verdict) -> None:
    path = tmp_path / "connect.yaml"
    path.write_text(CONNECT.replace("WORKER", worker))
    parts = check_file(str(path)).parts
    found = {each.name: each.verdict for part in parts for each in part.findings}
    assert found["spark.transform.lookup.r"] is verdict


def test_a_mirror_maker_is_a_worker_and_the_connectors_of_each_mirror() -> None:
    worker, source, checkpoint, heartbeat = read_documents(FIXTURES / "strimzi-mirror-maker.yaml")
    assert (worker.kind, worker.texts()["exactly.once.source.support"]) == ("worker", "enabled")
    assert [each.name for each in (source, checkpoint, heartbeat)] == [
        f"cluster-a->cluster-b.Mirror{kind}Connector" for kind in ("Source", "Checkpoint", "Heartbeat")
    ]
    config = source.texts()
    assert {name: config[name] for name in ("connector.class", "tasks.max", "topics", "source.cluster.alias")} == {
        "connector.class": MirrorSource.class_name,
        "tasks.max": "10",
        "topics": "orders.*",
        "source.cluster.alias": "cluster-a",
    }
    assert checkpoint.texts()["sync.group.offsets.enabled"] == "true"
    assert heartbeat.settings["heartbeats.topic.replication.factor"].line == 47


def test_logins_are_the_operators_and_verify_needs_them_from_the_user(tmp_path: Path) -> None:
    path = tmp_path / "strimzi-mirror-maker.yaml"
    given = (FIXTURES / path.name).read_text("utf-8")
    # Strimzi's policy is refused, and verify needs one.
    path.write_text(given.replace("io.strimzi.kafka.connect.mirror.", "org.apache.kafka.connect.mirror."), "utf-8")
    report = check_file(str(path))
    unseen = [each for each in report.findings if each.verdict is Verdict.NOT_JUDGED]
    assert {(each.name, each.value) for each in unseen} == {("authentication", None), ("tls", None)}
    (link,) = report.links
    assert "--source source.properties" in link.command()
    assert link.note


def test_the_form_of_v1(tmp_path: Path) -> None:
    path = tmp_path / "mm.yml"
    path.write_text(V1)
    worker, source = read_documents(path)
    assert {name: each.written for name, each in worker.settings.items()} == {
        "bootstrap.servers": "bootstrapServers",
        "group.id": "groupId",
        "config.storage.topic": "configStorageTopic",
        "offset.flush.interval.ms": "offset.flush.interval.ms",
    }
    assert source.texts()["target.cluster.bootstrap.servers"] == "b:1"
    assert source.texts()["tasks.max"] == "3"
    report = check_file(str(path))
    assert {each.name for each in report.findings if each.verdict is not Verdict.SAME} == {"offset.flush.interval.ms"}


def test_a_connector_is_judged_by_the_policy_of_the_worker_in_its_file() -> None:
    report = check_file(str(FIXTURES / "strimzi-connect.yaml"))
    assert [each.name for each in report.findings if each.verdict is Verdict.REFUSED] == ["producer.override.linger.ms"]


@pytest.mark.parametrize(
    ("text", "error", "line"),
    [
        ("a: [", UnreadableFile, "it is not valid YAML: .* on line 1"),
        ("a: \x00", UnreadableFile, "it is not valid YAML"),
        ("apiVersion: v1\nkind: Secret\n", UnknownDocument, "there is no KafkaConnector"),
        ("- 1\n", UnknownDocument, "there is no KafkaConnector"),
        ("", UnknownDocument, "there is no KafkaConnector"),
    ],
)
def test_other_yaml_is_refused_in_one_line(tmp_path: Path, text: str, error: type[Exception], line: str) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(text)
    with pytest.raises(error, match=line):
        read_documents(path)
