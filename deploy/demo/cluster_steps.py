"""The steps of `make demo-cluster`: tasks on two executors of a Spark cluster, one of which is killed under load."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import psutil

from deploy.demo.cluster_load import PARTITIONS, RATE, SOURCE_TOPIC, TARGET_TOPIC, Copies, Load
from deploy.demo.executor_rates import ExecutorRates, Rate, told
from deploy.demo.proof import compare, read_whole
from deploy.demo.run_directory import fill_in
from deploy.demo.screen import Stopped
from deploy.demo.stage import PATIENCE_S, Stage, Step
from deploy.demo.worker import TREE_ENDS_S
from deploy.local import LocalCluster, free_port, start_all
from deploy.local.spark_cluster import SparkCluster

TEMPLATES: Final = Path(__file__).parent / "cluster_templates"
CONNECTOR: Final = "copy"
TASKS: Final = 8
SPARK_WORKERS: Final = 2
# As many as there are tasks: what is left of the cluster takes the tasks of a lost executor at once.
SLOTS: Final = 8
WATCHED_S: Final = 10.0
# What the partitions of a killed executor may stand still.
GOES_ON_S: Final = 10.0
FOR_EVER_S: Final = 1e9


@dataclass
class ClusterStage(Stage):
    """With a Spark cluster, and what is copied on it."""

    _spark: SparkCluster | None = None
    _load: Load | None = None
    _copies: Copies | None = None
    _rates: ExecutorRates | None = None

    @property
    def spark(self) -> SparkCluster:
        """The standalone Spark cluster."""
        assert self._spark is not None
        return self._spark

    @property
    def load(self) -> Load:
        """Who writes."""
        assert self._load is not None
        return self._load

    @property
    def copies(self) -> Copies:
        """Who reads the copies."""
        assert self._copies is not None
        return self._copies

    def set_spark(self, spark: SparkCluster) -> None:
        """Sets the Spark cluster, which the demo closes."""
        self._spark = spark
        self.closing.callback(spark.close)

    def set_load(self) -> None:
        """Begins to write and to read."""
        self._load, self._copies = Load(self.source), Copies(self.target)
        self._rates = ExecutorRates(int(self.target.bootstrap_servers.rpartition(":")[2]))
        self.closing.callback(self._copies.close)
        self.closing.callback(self._load.end)
        self._load.start()

    def processes(self) -> list[psutil.Process]:
        """Also the executors', on Spark's workers."""
        return [*super().processes(), *(process for executor in self.spark.executors for process in executor.tree())]

    def look(self) -> list[Rate]:
        """Reads what has come, and returns what the executors do."""
        self.worker.check_alive()
        self.copies.poll()
        assert self._rates is not None
        return self._rates.look(lambda: self.spark.executors)

    def busy(self) -> list[Rate]:
        """The executors in which tasks copy."""
        return [rate for rate in self.look() if rate.processes]


def start_clusters(stage: ClusterStage) -> None:
    """Starts kafka-1 and kafka-2 at the same time."""
    source, target = LocalCluster("kafka-1"), LocalCluster("kafka-2")
    stage.set_clusters(source, target)

    def start() -> None:
        start_all(source, target)
        source.create_topic(SOURCE_TOPIC, PARTITIONS)

    def give_up() -> None:
        source.close()
        target.close()

    stage.screen.wait_for("kafka-1 and kafka-2 are starting", start, PATIENCE_S, give_up)
    stage.screen.say(f"kafka-1 is up at {source.bootstrap_servers}, kafka-2 at {target.bootstrap_servers}")


def start_spark(stage: ClusterStage) -> None:
    """Starts a master and two Spark workers, from the jars of PySpark's package."""
    spark = SparkCluster(SPARK_WORKERS, SLOTS)
    stage.set_spark(spark)
    stage.screen.wait_for("a Spark master and two workers are starting", spark.start, PATIENCE_S, spark.close)
    stage.screen.say(f"{spark.master_url} has {SPARK_WORKERS} workers with {SLOTS} slots each")


def start_worker(stage: ClusterStage) -> None:
    """Starts the worker with spark.master=spark://…, and waits until its REST interface answers."""
    port = free_port()
    values = {
        "KAFKA1": stage.source.bootstrap_servers,
        "KAFKA2": stage.target.bootstrap_servers,
        "PORT": str(port),
        "SPARK": stage.spark.master_url,
        "SECRET": stage.spark.properties["spark.authenticate.secret"],
    }
    fill_in(stage.directory, values, TEMPLATES)
    stage.start_worker(port)
    spark = [
        line for line in (stage.directory / "connect.properties").read_text().splitlines() if "spark.master" in line
    ]
    for line in spark:
        stage.screen.quote(line)


def start_tasks(stage: ClusterStage) -> None:
    """Creates the connector, and waits until its tasks run in both executors."""
    config = json.loads((stage.directory / "connectors" / f"{CONNECTOR}.json").read_text())
    stage.rest.put(f"/connectors/{CONNECTOR}/config", json=config).raise_for_status()
    stage.set_load()

    def states() -> list[str]:
        with contextlib.suppress(httpx.TransportError):
            answer = stage.rest.get(f"/connectors/{CONNECTOR}/status")
            if answer.status_code == httpx.codes.OK:
                return [task["state"] for task in answer.json()["tasks"]]
        return []

    def all_run() -> bool:
        stage.look()
        found = states()
        if "FAILED" in found:
            tasks = stage.rest.get(f"/connectors/{CONNECTOR}/status").json()["tasks"]
            raise RuntimeError(next(task["trace"] for task in tasks if task["state"] == "FAILED").splitlines()[0])
        return found == ["RUNNING"] * TASKS

    stage.screen.wait(
        lambda: f"{states().count('RUNNING')} of {TASKS} tasks are RUNNING, {len(stage.spark.executors)} executors",
        all_run,
        PATIENCE_S,
        poll_s=0.5,
    )
    stage.screen.say(f"{TASKS} tasks are RUNNING")


def watch(stage: ClusterStage) -> None:
    """Shows what each executor copies, for some seconds."""
    _show(stage, WATCHED_S)
    rates = stage.busy()
    for rate in rates:
        stage.screen.say(
            f"executor {rate.executor.id} of {rate.executor.worker}: process {rate.executor.pid}, "
            f"{len(rate.processes)} tasks, {rate.bytes_per_second / 1e6:.1f} MB/s to kafka-2"
        )
    tasks = [len(rate.processes) for rate in rates]
    stage.prove(
        f"placement: {sum(tasks)} tasks copy in {len(rates)} executors, {' and '.join(map(str, tasks))} of them",
        sum(tasks) == TASKS and len(rates) == SPARK_WORKERS,
    )


def kill_executor(stage: ClusterStage) -> None:
    """kill -9 of the busiest executor, and waits until every partition goes on."""
    doomed = max(stage.busy(), key=lambda rate: len(rate.processes))
    executor, processes = doomed.executor, doomed.executor.tree()
    began = time.monotonic()
    executor.kill_jvm()
    # What it has not committed is never read.
    ends = stage.copies.ends()
    stage.screen.say(f"kill -9 of executor {executor.id}, in which {len(doomed.processes)} tasks copied")

    def goes_on() -> bool:
        stage.look()
        return stage.copies.beyond(ends) == PARTITIONS

    stage.screen.wait(
        lambda: f"{stage.copies.beyond(ends)} of {PARTITIONS} partitions go on",
        goes_on,
        PATIENCE_S,
        poll_s=0.02,
    )
    took = time.monotonic() - began
    stage.screen.say(f"after {took:.1f} s all {PARTITIONS} partitions go on")
    _, left = psutil.wait_procs(processes, timeout=TREE_ENDS_S)
    stage.prove(
        f"kill: executor {executor.id} was killed under load; after {took:.1f} s each of the {PARTITIONS} partitions "
        f"went on, and {len(left)} of its {len(processes)} processes were left",
        took <= GOES_ON_S and not left,
    )
    stage.screen.wait(
        "Spark starts another executor",
        lambda: stage.look() and len(stage.spark.executors) == SPARK_WORKERS,
        PATIENCE_S,
    )
    stage.screen.say("Spark has started another executor")
    _show(stage, WATCHED_S)


def prove_copy(stage: ClusterStage) -> None:
    """Writes no more, waits until all has come, and compares both topics completely."""
    load, copies = stage.load, stage.copies
    load.stop()

    def all_there() -> bool:
        stage.look()
        return copies.count >= load.written

    stage.screen.wait(lambda: f"{copies.count:,} of {load.written:,} records arrived", all_there, PATIENCE_S)
    source = read_whole(stage.source, "", SOURCE_TOPIC)
    target = read_whole(stage.target, "", TARGET_TOPIC)
    stage.claims += compare(source, target)
    stage.screen.say(f"{sum(map(len, source.values())):,} and {sum(map(len, target.values())):,} records read back")


def look_around(stage: ClusterStage) -> None:
    """Goes on with another load until Ctrl-C."""
    say = stage.screen.plain
    stage.screen.title("Look around")
    say(f"  curl {stage.url}/connectors/{CONNECTOR}/status")
    say(f"  curl {stage.url}/admin/workers")
    say(f"  curl {stage.spark.page_url}")
    say(f"  files     {stage.directory}")
    stage.screen.title("Records continue to arrive, until Ctrl-C")
    stage.set_load()
    with contextlib.suppress(Stopped):
        _show(stage, FOR_EVER_S)
    stage.load.end()


def _show(stage: ClusterStage, seconds: float) -> None:
    until = time.monotonic() + seconds
    stage.screen.wait(
        lambda: told(stage.look()),
        lambda: bool(stage.look()) and time.monotonic() > until,
        seconds + PATIENCE_S,
    )


STEPS: Final = (
    Step("Two Kafka clusters", start_clusters),
    Step("A Spark cluster: a master and two workers", start_spark),
    Step("A worker of ours: spark.master=spark://…", start_worker),
    Step(f"A connector with {TASKS} tasks, {RATE:,} records a second", start_tasks),
    Step("What each executor copies", watch),
    Step("An executor is killed", kill_executor),
    Step("Both topics read back whole and compared", prove_copy),
)
