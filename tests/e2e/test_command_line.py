"""The commands for a running worker, against ours with real brokers and Spark, and against Kafka's own Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer

from deploy.local import LocalCluster
from deploy.local.connect import ConnectWorker
from tests.e2e.ends import wait_ends
from tests.e2e.product import PATIENCE_S, Product, mirror_config
from tests.waiting import wait_for_state

pytestmark = [pytest.mark.brokers]


class Commands:
    """`mirror-connect` at a worker, as a user's shell runs it."""

    def __init__(self, url: str, home: Path) -> None:
        self._url, self._home = url, home

    def __call__(self, *arguments: str, code: int | None = 0) -> str:
        """Standard output; of code 2 standard error, which has to be one line. `code`: None for 0 or 1."""
        done = subprocess.run(
            [sys.executable, "-m", "mirror_connect.cli", *arguments, "--worker", self._url],
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
            env={**os.environ, "HOME": str(self._home)},
        )
        assert done.returncode in ((0, 1) if code is None else (code,)), (arguments, done.stdout, done.stderr)
        if code == 2:
            assert (done.stdout, done.stderr.count("\n")) == ("", 1), done.stderr
            return done.stderr
        assert done.stderr == ""
        return done.stdout

    def code(self, *arguments: str) -> int:
        """The exit code, 0 or 1."""
        command = [sys.executable, "-m", "mirror_connect.cli", *arguments, "--worker", self._url]
        environment = {**os.environ, "HOME": str(self._home)}
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False, env=environment)
        assert done.returncode in (0, 1), (arguments, done.stdout, done.stderr)
        return done.returncode

    def json(self, *arguments: str, code: int | None = 0) -> Any:
        return json.loads(self(*arguments, "-o", "json", code=code))

    def states(self, name: str) -> list[str]:
        """The connector's, then its tasks'; empty while there is none."""
        # In between a task may be UNASSIGNED, which is code 1.
        return _states(self.json("status", code=None).get(name))

    def wait(self, name: str, *states: str) -> None:
        """Until REST says so, which is cheap to ask, and then the command."""

        def reached() -> bool:
            answer = httpx.get(f"{self._url}/connectors", params={"expand": "status"}, timeout=90)
            return answer.is_success and _states(answer.json().get(name)) == list(states)

        wait_for_state(reached, f"{name} is {states}", PATIENCE_S)
        wait_for_state(lambda: self.states(name) == list(states), f"the command says that {name} is {states}", pause=1)


def _states(found: dict[str, Any] | None) -> list[str]:
    parts = () if found is None else (found["status"]["connector"], *found["status"]["tasks"])
    return [each["state"] for each in parts]


def produce(cluster: LocalCluster, topic: str, count: int) -> None:
    producer = Producer(cluster.librdkafka())
    for _ in range(count):
        producer.produce(topic, b"record", partition=0)
    assert producer.flush(60) == 0


@pytest.mark.spark
def test_a_link_from_its_file_to_its_end(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    product: Product,
    topic_name: Callable[[str], str],
    tmp_path: Path,
) -> None:
    name = topic_name("commanded")
    source_cluster.create_topic(name, 2)
    produce(source_cluster, name, 500)
    run = Commands(str(product.rest.base_url), tmp_path)
    file = tmp_path / f"{name}.json"
    config = {**mirror_config(source_cluster, target_cluster, name), "source.cluster.alias": "commanded"}
    file.write_text(json.dumps(config))

    assert f"{name}: would be created" in run("apply", str(file), "--dry-run")
    assert name not in run.json("status")
    assert f"{name}: created" in run("apply", str(file))
    assert run("apply", str(tmp_path)) == f"{name}: unchanged  ({file})\n"
    file.write_text(json.dumps({**config, "tasks.max": "many"}))
    assert "tasks.max: Invalid value many" in run("apply", str(file), code=1)
    file.write_text(json.dumps({**config, "refresh.topics.interval.seconds": "61"}))
    assert "+ refresh.topics.interval.seconds = 61" in run("apply", str(file))
    assert run.json("config", name)["refresh.topics.interval.seconds"] == "61"

    run.wait(name, "RUNNING", "RUNNING")
    wait_ends(target_cluster, f"commanded.{name}", {0: 500})
    link = f"commanded->{config['target.cluster.alias']}"

    def at_rest() -> bool:
        lag = next(each["lag"] for each in run.json("lag", link, "--by", "link")["links"])
        return lag["records"] == 0 and lag["seconds"] == 0 and lag["partitions_unknown"] == 0

    wait_for_state(at_rest, f"{link} has no lag", pause=2)
    # Where a machine is busy, a report may be late: then the lag is unknown for a moment.
    wait_for_state(lambda: run.code("lag", link, "--max-lag", "5s") == 0, f"{link} has a small lag", pause=2)
    topics = run.json("topics", link)["topics"]
    assert [(each["topic"], each["remote_topic"], each["partitions"]) for each in topics] == [
        (name, f"commanded.{name}", 2)
    ]

    def lags() -> dict[int, int | None]:
        partitions = run.json("lag", link, "--by", "partition")["partitions"]
        return {each["partition"]: each["lag_records"] for each in partitions}

    wait_for_state(lambda: lags() == {0: 0, 1: 0}, "both partitions are at rest", pause=2)
    assert run("groups", link) == "No group is known yet.\n"
    assert "quote it" in run("lag", "commanded-", code=2)
    wait_for_state(lambda: run("problems", link, code=None) == "No problems.\n", "there are no problems", pause=2)
    again = tmp_path / "again" / f"{name}-again.json"
    again.parent.mkdir()
    again.write_text(json.dumps(config))
    assert f"connector {name} copies topic {name} into the same remote topic, too" in run("plan", str(again))

    assert run("pause", name) == f"{name}: is to pause\n"
    run.wait(name, "PAUSED", "PAUSED")
    produce(source_cluster, name, 5)
    # Nobody copies and nobody tells: the lag is not known, which is no lag of 0.
    wait_for_state(
        lambda: run.json("lag", link, "--by", "link")["links"][0]["lag"]["seconds"] is None,
        "the lag is unknown",
        pause=2,
    )
    assert "the lag is unknown" in run("lag", link, "--by", "link", "--max-lag", "1h", code=1)
    run("resume", name)
    run.wait(name, "RUNNING", "RUNNING")
    assert "the connector and 1 task restart" in run("restart", name, "--tasks")
    run.wait(name, "RUNNING", "RUNNING")
    assert run("restart", f"{name}/0") == f"{name}/0: restarted\n"
    wait_ends(target_cluster, f"commanded.{name}", {0: 505})
    assert run("logs", "mirror_connect.nothing", "WARN") == "mirror_connect.nothing is WARN now.\n"

    assert "--yes does it without asking" in run("delete", name, code=2)
    run("delete", name, "--yes")
    wait_for_state(lambda: run.states(name) == [], f"{name} is gone", pause=2)
    assert f"No status found for connector {name}" in run("status", name, code=2)


# tests/integration/test_topics_followed.py has a plan that comes true, tests/unit/cli the command.
@pytest.mark.spark
@pytest.mark.long
def test_a_plan_before_a_link_and_of_a_change_to_it(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    product: Product,
    topic_name: Callable[[str], str],
    tmp_path: Path,
) -> None:
    name, more = topic_name("foreseen"), topic_name("foreseen-later")
    for topic in (name, more):
        source_cluster.create_topic(topic, 2)
        produce(source_cluster, topic, 300)
    run = Commands(str(product.rest.base_url), tmp_path)
    file = tmp_path / f"{name}.json"
    config = {**mirror_config(source_cluster, target_cluster, name), "source.cluster.alias": "foreseen"}
    file.write_text(json.dumps(config))
    before = target_cluster.admin().list_topics(timeout=60).topics.keys()
    plan = run.json("plan", str(file), "--speed", "1MB/s")["plan"]
    assert target_cluster.admin().list_topics(timeout=60).topics.keys() == before
    assert run.json("status").get(name) is None
    assert [(each["remote_topic"], each["action"], each["records"]) for each in plan["topics"]] == [
        (f"foreseen.{name}", "create", 300)
    ]
    assert (plan["exists"], plan["refused"], plan["amount"]["records"]) == (False, [], 300)

    run("apply", str(file))
    run.wait(name, *["RUNNING"] * (1 + plan["tasks"]["then"]))
    wait_ends(target_cluster, f"foreseen.{name}", {0: 300})
    # Source offsets are committed a moment after the records.
    wait_for_state(
        lambda: run.json("plan", str(file))["plan"]["amount"]["records"] == 0, "nothing is left to copy", pause=2
    )
    file.write_text(json.dumps({**config, "topics": f"{name},{more}"}))
    changed = run("plan", str(file))
    assert f"Connector {name} exists. Its config would change:" in changed
    rows = {line.split()[0]: line.split()[1:5] for line in changed.splitlines() if " foreseen." in line}
    assert rows[name][:2] == [f"foreseen.{name}", "keep"]
    assert rows[more][:2] == [f"foreseen.{more}", "create"]
    file.write_text(json.dumps({**config, "replication.factor": "9", "topics": more}))
    refused = run("plan", str(file), code=1)
    assert "set replication.factor of the connector, 9, to the number of brokers or less" in refused
    assert "Nothing was changed." in refused
    file.write_text(json.dumps({**config, "tasks.max": "many"}))
    assert "tasks.max" in run("plan", str(file), code=1)
    file.write_text(json.dumps({**config, "source.cluster.bootstrap.servers": "127.0.0.1:1"}))
    assert "127.0.0.1:1" in run("plan", str(file), code=2)

    again = tmp_path / f"{name}-again.json"
    again.write_text(json.dumps(config))
    run("apply", str(again))
    doubled = f"Connector {again.stem}: connector {name} copies topic {name} into the same remote topic, too"
    wait_for_state(lambda: doubled in product.log_text(), "the log names the connector that copies each record twice")
    run("delete", again.stem, "--yes")
    run("delete", name, "--yes")


@pytest.mark.mm2
@pytest.mark.long
def test_kafkas_own_worker(
    source_cluster: LocalCluster, target_cluster: LocalCluster, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    """What it has works; what it lacks is one line."""
    topic = topic_name("by-connect")
    source_cluster.create_topic(topic)
    config = {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": "source",
        "target.cluster.alias": "target",
        "source.cluster.bootstrap.servers": source_cluster.bootstrap_servers,
        "target.cluster.bootstrap.servers": target_cluster.bootstrap_servers,
        "topics": topic,
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
    }
    file = tmp_path / "mirror.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
    with ConnectWorker(target_cluster, group=topic_name("connect"), heap="512m") as worker:
        run = Commands(worker.rest_url, tmp_path)
        assert run("status") == f"{worker.rest_url} has no connectors.\n"
        assert "mirror: would be created" in run("apply", str(file), "--dry-run")
        assert "mirror: created" in run("apply", str(file))
        assert run("apply", str(file)) == f"mirror: unchanged  ({file})\n"
        file.write_text(file.read_text() + "tasks.max=many\n")
        assert "tasks.max: Invalid value many" in run("apply", str(file), code=1)
        run.wait("mirror", "RUNNING", "RUNNING")
        assert run.json("config", "mirror") == {**config, "name": "mirror"}
        for command in ("links", "lag", "topics", "groups"):
            assert f"{worker.rest_url} has no /admin/links: it is a worker of Kafka's own" in run(command, code=2)
        assert run("problems").startswith("No problems.\n")
        run("pause", "mirr*", "--yes")
        run.wait("mirror", "PAUSED", "PAUSED")
        run("resume", "mirror")
        run.wait("mirror", "RUNNING", "RUNNING")
        assert "the connector and 1 task restart" in run("restart", "mirror", "--tasks")
        run.wait("mirror", "RUNNING", "RUNNING")
        assert run("restart", "mirror/0") == "mirror/0: restarted\n"
        assert "Unknown task: mirror-9" in run("restart", "mirror/9", code=2)
        changed = run("logs", "org.apache.kafka.connect.mirror", "DEBUG").splitlines()
        assert changed[0] == "org.apache.kafka.connect.mirror is DEBUG now."
        run("stop", "mirror")
        run.wait("mirror", "STOPPED")
        broken = tmp_path / "broken.json"
        broken.write_text(json.dumps({**config, "source.cluster.bootstrap.servers": "no.such.host.invalid:9092"}))
        run("apply", str(broken))
        wait_for_state(lambda: "FAILED" in run.states("broken"), "it failed", pause=1)
        assert "FAILED: " in run("problems", code=1)
        assert "broken" in run("status", code=1)
        run("delete", "mirror", "broken", "--yes")
        time.sleep(0.1)
        wait_for_state(lambda: run.json("status") == {}, "all are gone", pause=0.5)
