"""Records what Prometheus reads from a real Connect worker with MirrorMaker's connectors, into tests/fixtures/metrics/.

`jmx-mirror-maker-2.txt` and `jmx-connect.txt`: what jmx_exporter makes of the worker's MBeans by Strimzi's two rule files.
`reporter.txt`: the same by Strimzi's Metrics Reporter. Needed are the jars of jmx_prometheus_javaagent and of
client-metrics-reporter with their dependencies, in one directory, and the two rule files, which are no part of this project:

    python -m tests.contract.record_metrics JARS MM2-RULES.yml CONNECT-RULES.yml

About two minutes. Two clusters, a `ConnectDistributed`; a link `A->B` as Strimzi's operator names it, a source connector
whose name needs no quotes, one whose task fails; producers, and a group on the source.
"""

from __future__ import annotations

import re
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, Producer

from deploy.local import LocalCluster
from deploy.local.broker_config import write_properties
from deploy.local.connect import ConnectWorker
from deploy.local.free_ports import free_port, give_back
from deploy.local.java_process import QUICK, JavaProcess
from deploy.local.kafka_jars import class_path
from tests.brokers import UNHURRIED, started
from tests.paths import FIXTURES

RECORDED: Final = FIXTURES / "metrics"
LOADED_S: Final = 25.0
KIND: Final = "org.apache.kafka.connect.mirror.Mirror{}Connector"
REPORTER: Final = "io.strimzi.kafka.metrics.prometheus.ClientMetricsReporter"


class MeasuredWorker(ConnectWorker):
    """The worker with jmx_exporter in its JVM; without rules, with the Metrics Reporter. They share a registry."""

    def __init__(self, cluster: LocalCluster, jars: Path, rules: Path | None) -> None:
        self.metrics_port = free_port()
        self.reporting = {
            "metric.reporters": REPORTER,
            "prometheus.metrics.reporter.listener": f"http://127.0.0.1:{self.metrics_port}",
        }
        # Each client reports for itself, as Strimzi's operator sets it.
        clients = {f"{who}.{name}": value for who in ("producer", "consumer") for name, value in self.reporting.items()}
        self.reporting |= clients
        super().__init__(cluster, self.reporting if rules is None else {})
        self._jars = jars
        self._rules = rules

    def start(self, seconds: float = 90.0) -> MeasuredWorker:
        path = write_properties(self.directory / "program.properties", self.properties)
        (agent,) = self._jars.glob("jmx_prometheus_javaagent-*.jar")
        others = [str(jar) for jar in sorted(self._jars.glob("*.jar")) if jar != agent]
        options = QUICK if self._rules is None else (*QUICK, f"-javaagent:{agent}={self.metrics_port}:{self._rules}")
        # Java takes the last -cp.
        arguments = [":".join([class_path(), *others]), self.main_class, str(path)]
        self._process = JavaProcess("connect", "-cp", arguments, log=self.log, heap="512m", options=options)
        self._wait_ready(seconds)
        return self

    def close(self) -> None:
        super().close()
        give_back(self.metrics_port)


def record(jars: Path, mm2_rules: Path, connect_rules: Path, only: str = "") -> None:
    """Runs three workers, one after the other, and writes the files; `only`: one of them."""
    RECORDED.mkdir(exist_ok=True)
    source, target = (LocalCluster(name, properties=UNHURRIED) for name in ("source", "target"))
    ways = {"jmx-mirror-maker-2": mm2_rules, "jmx-connect": connect_rules, "reporter": None}
    with started(source, target):
        for topic in ("orders", "orders.eu-1"):
            source.create_topic(topic, partitions=2)
        source.create_topic("large")
        with loaded(source):
            for name, rules in ((name, rules) for name, rules in ways.items() if only in name):
                with MeasuredWorker(target, jars, rules) as worker:
                    create(worker, source, target, worker.reporting if rules is None else {})
                    time.sleep(LOADED_S)
                    write(f"{name}.txt", worker.metrics_port, source, target)


def create(worker: MeasuredWorker, source: LocalCluster, target: LocalCluster, reporting: Mapping[str, str]) -> None:
    """The connectors."""
    quick = {
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "emit.checkpoints.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.topic.acls.enabled": "false",
        "metric.names.formats": "legacy,new",
        **reporting,
    }
    own: dict[str, dict[str, Any]] = {
        "A->B.MirrorSourceConnector": {"topics": r"orders.*", "tasks.max": "2"},
        "A->B.MirrorCheckpointConnector": {"groups": "readers"},
        "A->B.MirrorHeartbeatConnector": {},
        "plain-source": {"topics": "orders", "source.cluster.alias": "C"},
        "too-large": {"topics": "large", "source.cluster.alias": "D", "producer.override.max.request.size": "2000"},
    }
    for name, config in own.items():
        kind = next((kind for kind in ("Source", "Checkpoint", "Heartbeat") if f"Mirror{kind}" in name), "Source")
        aliases = {"source.cluster.alias": "A", "target.cluster.alias": "B"}
        clusters = {
            f"{side}.cluster.{key}": value
            for side, cluster in (("source", source), ("target", target))
            for key, value in cluster.client_properties().items()
        }
        body = {"connector.class": KIND.format(kind), **aliases, **clusters, **quick, **config}
        status, answer = worker.request("PUT", f"/connectors/{name.replace('>', '%3E')}/config", body)
        if status not in (200, 201):
            raise RuntimeError(f"{name}: {status} {answer}")


@contextmanager
def loaded(source: LocalCluster) -> Iterator[None]:
    """Records all the time, and a group that reads and commits."""
    over = threading.Event()

    def produce() -> None:
        producer = Producer({**source.librdkafka(), "linger.ms": 20, "compression.type": "lz4"})
        producer.produce("large", b"x" * 4000, partition=0)
        while not over.is_set():
            for topic in ("orders", "orders.eu-1"):
                for partition in range(2):
                    producer.produce(topic, b"some value, and more of it" * 4, partition=partition)
            producer.poll(0)
            over.wait(0.01)
        producer.flush(5)

    def read() -> None:
        consumer = Consumer(
            {
                **source.librdkafka(),
                "group.id": "readers",
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 500,
            }
        )
        consumer.subscribe(["orders"])
        while not over.is_set():
            consumer.poll(0.2)
        consumer.close()

    threads = [threading.Thread(target=produce), threading.Thread(target=read)]
    for each in threads:
        each.start()
    try:
        yield
    finally:
        over.set()
        for each in threads:
            each.join()


def write(name: str, port: int, *clusters: LocalCluster) -> None:
    """What is at /metrics, without ports and ids of the recording, and sorted: the order of the MBeans is by chance."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            text = answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            raise RuntimeError(error.read().decode()) from None
    for cluster in clusters:
        text = text.replace(cluster.bootstrap_servers, "HOST:PORT")
    text = re.sub(r"127\.0\.0\.1[:-]\d+", "HOST:PORT", text)
    # Not the series of each broker, which nothing here has, and no texts of others.
    lines = [line for line in text.splitlines() if not re.search(r"^# HELP|\bnode_?id=", line)]
    followed = zip(lines, [*lines[1:], "#"], strict=True)
    text = "".join(f"{line}\n" for line, after in followed if not (line[0] == after[0] == "#"))
    (RECORDED / name).write_text(text, "utf-8")
    print(f"{RECORDED / name}: {text.count(chr(10))} lines")


if __name__ == "__main__":
    jars, mm2, connect, *only = sys.argv[1:]
    record(Path(jars), Path(mm2), Path(connect), *only)
