"""The metrics of a running link: what Strimzi's dashboards and ours ask for is there, to a real Prometheus too."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parsed_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parsed_text

from deploy.grafana.panels import ROWS
from deploy.local import LocalCluster
from docs.draw_dashboard import drawn, strimzis_rows
from tests.brokers import commit
from tests.e2e.ends import wait_ends
from tests.e2e.identity_topics import produce
from tests.e2e.product import Product, mirror_config
from tests.e2e.prometheus import Prometheus
from tests.paths import FIXTURES
from tests.waiting import WaitTimedOut, wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

RECORDS = 200
TOPIC, GROUP = "measured", "reader-of-measured"
NAMES = {kind: f"A->B.measured.Mirror{kind}Connector" for kind in ("Source", "Checkpoint", "Heartbeat")}
PICTURED_S = 360
OPEN_METRICS = {"Accept": "application/openmetrics-text"}


@dataclass
class Link:
    product: Product
    source: LocalCluster

    def text(self) -> str:
        return self.product.rest.get("/metrics").raise_for_status().text

    def sample(self, pattern: str) -> float | None:
        found = re.search(rf"^{pattern} (\S+)$", self.text(), re.MULTILINE)
        return None if found is None else float(found[1])

    def write(self, first: int, count: int) -> None:
        records = ({"value": b"%d" % number, "partition": number % 2} for number in range(first, first + count))
        produce(self.source, TOPIC, records)


@pytest.fixture(scope="module")
def link(product: Product, source_cluster: LocalCluster, target_cluster: LocalCluster) -> Iterator[Link]:
    made = Link(product, source_cluster)
    source_cluster.create_topic(TOPIC, 2)
    quick = {"groups": GROUP, "emit.checkpoints.interval.seconds": "1", "refresh.groups.interval.seconds": "1"}
    made.write(0, RECORDS)
    commit(source_cluster, GROUP, TOPIC, RECORDS // 2)
    for kind, name in NAMES.items():
        class_ = f"org.apache.kafka.connect.mirror.Mirror{kind}Connector"
        config = mirror_config(source_cluster, target_cluster, TOPIC)
        product.put(name, {**config, **quick, "connector.class": class_, "metric.names.formats": "legacy,new"})
    for name in NAMES.values():
        product.wait_running(name)
    wait_ends(target_cluster, f"A.{TOPIC}", {0: RECORDS // 2, 1: RECORDS // 2})
    # Reports come twice a second, checkpoints and commits a little later.
    for pattern in (
        rf'kafka_connect_mirror_mirrorsourceconnector_record_count\{{[^}}]*topic="A\.{TOPIC}",partition="0"\}}',
        rf'kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms\{{[^}}]*group="{GROUP}"[^}}]*\}}',
        r"kafka_connect_connector_task_offset_commit_avg_time_ms\{[^}]*measured[^}]*\}",
        r'jvm_memory_used_bytes\{area="heap"\}',
    ):
        wait_for_state(lambda pattern=pattern: made.sample(pattern) is not None, f"{pattern} is there")
    yield made
    for name in NAMES.values():
        product.delete(name)


def wait_none(left: Callable[[], list[str]], what: str) -> None:
    """Until nothing is left; WaitTimedOut says what is."""
    found: list[str] = []

    def done() -> bool:
        found[:] = left()
        return not found

    try:
        wait_for_state(done, what, pause=1.0)
    except WaitTimedOut as error:
        raise WaitTimedOut(f"{error}; not so: {found}") from None


def queries() -> list[tuple[str, list[list[str]]]]:
    lines = (FIXTURES / "metrics" / "strimzi-queries.jsonl").read_text("utf-8").splitlines()
    found = [each for each in map(json.loads, lines) if each["dashboard"] == "jmx/strimzi-kafka-mirror-maker-2"]
    # Of Kubernetes.
    return [
        (each["metric"], each["matchers"]) for each in found if each["metric"] != "container_cpu_usage_seconds_total"
    ]


def test_every_query_of_strimzis_dashboard_selects_something(link: Link) -> None:
    def without() -> list[str]:
        labels: dict[str, list[dict[str, str]]] = {}
        for family in parsed_text(link.text()):
            for sample in family.samples:
                labels.setdefault(sample.name, []).append(sample.labels)
        found = []
        for metric, matchers in queries():
            own = [(name, value) for name, _, value in matchers if not name.startswith("strimzi_io_")]
            if not any(
                all(re.fullmatch(value, each.get(name, "")) for name, value in own) for each in labels.get(metric, [])
            ):
                found.append(metric)
        return found

    wait_none(without, "each query selects something")


def test_counts_and_lag_are_those_of_the_records(link: Link) -> None:
    of = rf'source="A",target="B",connector="{NAMES["Source"]}",topic="{TOPIC}",partition="0"'
    for series, value in (("records_total", RECORDS // 2), ("lag_records", 0), ("lag_seconds", 0)):
        wait_for_state(
            lambda series=series, value=value: link.sample(rf"mirror_connect_{series}\{{{of}\}}") == value,
            f"mirror_connect_{series} is {value}",
        )
    # Each partition is told by itself.
    other = rf"mirror_connect_records_total\{{{of.replace('0', '1')}\}}"
    wait_for_state(lambda: link.sample(other) == RECORDS // 2, f"{other} is {RECORDS // 2}")


def test_both_formats_are_whole(link: Link) -> None:
    text = link.product.rest.get("/metrics", headers=OPEN_METRICS).raise_for_status().text
    families = {family.name: family for family in parsed_open_metrics(text)}
    assert families["mirror_connect_replication_latency_seconds"].type == "histogram"
    assert families["kafka_connect_source_task_source_record_write"].type == "counter"


needs_prometheus = pytest.mark.tool("prometheus")


@pytest.fixture(scope="module")
def prometheus(link: Link) -> Iterator[Prometheus]:
    if shutil.which("prometheus") is None:
        pytest.skip("there is no prometheus")
    with Prometheus(f"127.0.0.1:{link.product.port}") as started:
        take_pictures(started, link)
        yield started


def take_pictures(prometheus: Prometheus, link: Link) -> None:
    """For the pages of docs, if `make pictures` asks for them: a link under a load that rises and falls."""
    folder = os.environ.get("UI_PICTURES")
    if folder:
        begin = time.monotonic()
        while (passed := time.monotonic() - begin) < PICTURED_S:
            link.write(RECORDS, round(400 * (1.1 - math.cos(passed / 30))))
            time.sleep(1)
        for name, rows in (("metrics-dashboard", ROWS), ("strimzi-dashboard", strimzis_rows())):
            Path(folder, f"{name}.svg").write_text(drawn(prometheus.url, PICTURED_S / 60, rows), "utf-8")


@needs_prometheus
def test_prometheus_has_data_for_strimzis_queries(prometheus: Prometheus) -> None:
    def value(matched: str) -> str:
        return "mm2" if matched.startswith("$") else matched

    asked = ["rate(kafka_producer_outgoing_byte_total[1m])"]
    for metric, matchers in queries():
        selected = ",".join(f"{name}{operator}{json.dumps(value(each))}" for name, operator, each in matchers)
        asked.append(f"{metric}{{{selected}}}")
    wait_none(lambda: [each for each in asked if not prometheus.query(each)], "each query has data")


# Without problems, without compressed batches, and without sampling verification.
EMPTY = {
    "Present problems",
    "Bytes saved by keeping the compression",
    "Copied records that are verified",
    "Records with a fault",
    "Age of the last result",
    "Age of lookups",
}


@needs_prometheus
def test_prometheus_answers_each_query_of_the_dashboard(prometheus: Prometheus, link: Link) -> None:
    # A line that is drawn only above 0 is not there while there is nothing to draw: what it compares has to be.
    asked = [
        # As Grafana fills its variables in.
        re.sub(r"\$(source|target|connector)", ".*", expression).removesuffix(" > 0")
        for _, panels in ROWS
        for panel in panels
        for expression, _ in panel.queries
        if panel.title not in EMPTY
    ]
    # Rates need records in the last minute, and quotients requests.
    link.write(RECORDS, 20)
    wait_none(lambda: [each for each in asked if not prometheus.query(each)], "each query has data")


@needs_prometheus
def test_an_alert_fires_and_ends(prometheus: Prometheus, link: Link, target_cluster: LocalCluster) -> None:
    name = "measured-nowhere"
    config = mirror_config(link.source, target_cluster, "nothing")
    link.product.put(name, {**config, "source.cluster.bootstrap.servers": "nowhere.invalid:9092"})

    def firing() -> bool:
        alerts = [*prometheus.firing("MirrorConnectTaskFailed"), *prometheus.firing("MirrorConnectConnectorFailed")]
        return any(each["connector"] == name for each in alerts)

    try:
        wait_for_state(firing, "the alert fires")
    finally:
        link.product.delete(name)
    wait_for_state(lambda: not firing(), "the alert has ended")


@needs_prometheus
def test_prometheus_takes_all_that_it_scrapes(prometheus: Prometheus) -> None:
    # A scrape has a second, which may be too little on a busy machine.
    wait_for_state(lambda: prometheus.query("up == 1"), "a scrape succeeds", pause=1.0)
    kept = "scrape_samples_post_metric_relabeling"
    (samples,) = prometheus.query(f"max_over_time({kept}[1m])")
    assert float(samples["value"][1]) > 0
    assert not prometheus.query(f"scrape_samples_scraped != {kept}")
    assert not prometheus.query("increase(prometheus_target_scrapes_sample_duplicate_timestamp_total[1m]) > 0")
