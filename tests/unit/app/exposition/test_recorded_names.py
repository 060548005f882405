"""Names, types and labels of Kafka's own metrics, against what real tools made of a real worker's (fixtures/metrics)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mirror_connect.app.exposition import kafka_metrics as kafka
from mirror_connect.app.exposition.exposition import ExpositionSettings
from mirror_connect.app.exposition.kafka_names import KafkaMetric, Kind, NameSet
from tests.fakes.measured_process import whole
from tests.paths import FIXTURES

RECORDED = FIXTURES / "metrics"
Labels = Mapping[str, str]


@cache
def recorded(*files: str) -> dict[str, tuple[str, list[Labels]]]:
    """Type and labels of all samples, by the sample's name. `_objectname` comes where two attributes have one name."""
    found: dict[str, tuple[str, list[Labels]]] = {}
    for file in files:
        for family in text_string_to_metric_families((RECORDED / file).read_text("utf-8")):
            for sample in family.samples:
                labels = {name: value for name, value in sample.labels.items() if name != "_objectname"}
                found.setdefault(sample.name, (family.type, []))[1].append(labels)
    return found


def ours(names: NameSet) -> dict[str, tuple[str, list[Labels]]]:
    text = whole(("legacy", "new")).text(ExpositionSettings((names,)))
    found: dict[str, tuple[str, list[Labels]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, (family.type, []))[1].append(sample.labels)
    return found


JMX = ("jmx-mirror-maker-2.txt", "jmx-connect.txt")


def of_jmx() -> list[KafkaMetric]:
    # Strimzi's rules have no names for the new ones; jmx_exporter's own are those of the reporter.
    return [each for each in kafka.ALL if each not in (*kafka.SOURCE_NEW, *kafka.CHECKPOINT_NEW)]


@pytest.mark.parametrize("metric", of_jmx(), ids=lambda each: each.jmx_name)
def test_name_type_and_labels_are_those_of_jmx_exporter(metric: KafkaMetric) -> None:
    type_, samples = recorded(*JMX)[metric.jmx_name]
    kind = "gauge" if metric.kind is Kind.TEXT else metric.kind.value
    assert type_ == kind or (type_ == "unknown" and metric.kind is Kind.TEXT)
    assert set(metric.labels(NameSet.JMX)) in [set(each) for each in samples]


@pytest.mark.parametrize("metric", kafka.ALL, ids=lambda each: each.reporter_name)
def test_name_type_and_labels_are_those_of_the_metrics_reporter(metric: KafkaMetric) -> None:
    type_, samples = recorded("reporter.txt")[metric.reporter_name]
    assert type_ == "gauge"
    assert set(metric.labels(NameSet.REPORTER)) in [set(each) for each in samples]


MIRROR = sorted(each.jmx_name for each in (*kafka.SOURCE_LEGACY, *kafka.CHECKPOINT_LEGACY))


@pytest.mark.kafka_test("MirrorSourceMetricsTest.testTags")
@pytest.mark.parametrize("name", MIRROR)
def test_mirror_makers_series_have_the_same_label_values(name: str) -> None:
    def partitions(found: list[Labels]) -> set[tuple[tuple[str, str], ...]]:
        return {tuple(sorted(each.items())) for each in found}

    assert partitions(ours(NameSet.JMX)[name][1]) == partitions(recorded(JMX[0])[name][1])


@pytest.mark.parametrize("metric", [*kafka.SOURCE_NEW, *kafka.CHECKPOINT_NEW], ids=lambda each: each.reporter_name)
def test_the_new_names_have_the_same_label_values(metric: KafkaMetric) -> None:
    def of_link(found: list[Labels]) -> set[tuple[tuple[str, str], ...]]:
        # Which task has which partition is by chance.
        return {tuple(sorted({**each, "task": ""}.items())) for each in found if each["source"] == "A"}

    name = metric.reporter_name
    found, theirs = of_link(ours(NameSet.REPORTER)[name][1]), of_link(recorded("reporter.txt")[name][1])
    # Of a group Kafka measures the first partition alone: the second one's sensor "already exists".
    assert theirs == found if metric in kafka.SOURCE_NEW else theirs < found


@pytest.mark.parametrize("names", NameSet)
@pytest.mark.parametrize(
    "metric",
    [
        kafka.TOTAL_TASKS,
        kafka.CONNECTOR_CLASS,
        kafka.COMMIT_AVG,
        kafka.ACTIVE,
        kafka.RECORDS_LAG,
        kafka.CONSUMER[0],
        kafka.PRODUCER[1],
        kafka.BUFFER_AVAILABLE,
    ],
    ids=lambda each: each.name,
)
def test_quotes_belong_to_the_labels_where_mbeans_have_them(metric: KafkaMetric, names: NameSet) -> None:
    files = JMX if names is NameSet.JMX else ("reporter.txt",)
    known = {tuple(sorted(each.items())) for each in recorded(*files)[metric.named(names)][1]}
    found = {tuple(sorted(each.items())) for each in ours(names)[metric.named(names)][1]}
    # Kafka has more: of the worker's own clients and of the heartbeat connector.
    assert found
    assert [dict(each) for each in found if each not in known] == []


def test_an_alias_and_a_colon_are_quoted_too() -> None:
    (labels,) = ours(NameSet.JMX)[kafka.ASSIGNED_TASKS.jmx_name][1]
    (theirs,) = recorded(JMX[0])[kafka.ASSIGNED_TASKS.jmx_name][1]
    shape = re.compile(r'^"connect-[^"]+"$')
    assert shape.match(labels["clientid"])
    assert shape.match(theirs["clientid"])


def queries(dashboard: str) -> list[dict[str, Any]]:
    lines = (RECORDED / "strimzi-queries.jsonl").read_text("utf-8").splitlines()
    return [each for each in map(json.loads, lines) if each["dashboard"] == dashboard]


# What comes from Kubernetes, and what is not known here (docs/metrics.md).
ELSEWHERE = {"container_cpu_usage_seconds_total", "process_cpu_seconds_total"}
UNKNOWN = {
    "kafka_admin_client_connection_count",
    "kafka_admin_client_admin_client_metrics_connection_count",
    "kafka_producer_producer_node_metrics_incoming_byte",
}


@pytest.mark.parametrize("dashboard", ["strimzi-kafka-mirror-maker-2", "strimzi-kafka-connect"])
@pytest.mark.parametrize("names", NameSet)
def test_every_query_of_strimzis_dashboards_selects_something(names: NameSet, dashboard: str) -> None:
    series = ours(names)
    without = set()
    for query in queries(f"{names.value}/{dashboard}"):
        name = query["metric"]
        matching = [
            each
            for each in series.get(name, ("", []))[1]
            if all(_matches(each, matcher) for matcher in query["matchers"])
        ]
        # What other series of the same query bring, and what the scrape does.
        wanted = {*query["by"], *query["on"]} - {"kubernetes_pod_name", "pod", "status", *JOINED}
        if not [each for each in matching if wanted <= set(each)]:
            without.add(name)
    assert without - ELSEWHERE - UNKNOWN == (QUERIES_OF_JMX & without if names is NameSet.REPORTER else set())


JOINED = {"connector_class", "connector_type", "connector_version"}
# A query of the reporter's dashboard that was left as the one for jmx_exporter has it: the reporter gives it nothing either.
QUERIES_OF_JMX = {"kafka_connect_source_task_source_record_active_count"}


def _matches(labels: Labels, matcher: list[str]) -> bool:
    name, operator, value = matcher
    if name.startswith("strimzi_io_") or name in ("namespace", "pod", "container"):
        return True  # of the scrape
    if operator == "=":
        return labels.get(name, "") == value
    return re.fullmatch(value, labels.get(name, "")) is not None
