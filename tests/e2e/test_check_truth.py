"""What `mirror-connect check` says of real configurations is what the worker does with them.

Each connector of tests/fixtures/check is given to a running worker. Hosts become the brokers of the test, and values that
config providers hold, which check does not judge, are left out. Workers' files are in test_check_truth_files.py.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import javaproperties
import pytest
from confluent_kafka import Producer

from deploy.local import LocalCluster
from deploy.local.connect import ConnectWorker
from mirror_connect.app.config.config_providers import has_reference
from mirror_connect.app.config.exactly_once import Support
from mirror_connect.app.config.properties import read_properties
from mirror_connect.check.connector_judge import judge_connector
from mirror_connect.check.document import CONNECTOR
from mirror_connect.check.documents import read_documents
from mirror_connect.check.judgement import Judgement, Verdict
from mirror_connect.check.mm2_judge import Mm2File
from tests.e2e.dedicated import QUICK, Dedicated
from tests.e2e.ends import wait_ends
from tests.e2e.product import Product
from tests.paths import ROOT
from tests.waiting import wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark]
FIXTURES: Final = ROOT / "tests" / "fixtures" / "check"
CONNECTORS: Final = sorted(
    path
    for path in FIXTURES.iterdir()
    if path.suffix != ".md" and "worker" not in path.name and "mm2.properties" not in path.name
)


def _mapped(config: Mapping[str, str | None], source: LocalCluster, target: LocalCluster) -> dict[str, str | None]:
    """The config for the brokers of the test."""
    found = {name: value for name, value in config.items() if value is None or not has_reference(value)}
    for name in found:
        if name.endswith("bootstrap.servers"):
            found[name] = (target if name.startswith(("target", "dest", "producer")) else source).bootstrap_servers
    # Without the login that a provider holds.
    if len(found) < len(config):
        for side in ("source", "target"):
            found[f"{side}.cluster.security.protocol"] = "PLAINTEXT"
    return found


def _refused_by(worker: Product, name: str, config: dict[str, str | None]) -> set[str]:
    """What the worker refuses, until it creates the connector, stopped."""
    refused: set[str] = set()
    kind = (config["connector.class"] or "").rpartition(".")[2]
    while True:
        body = {"name": name, **config}
        answer = worker.rest.put(f"/connector-plugins/{kind}/config/validate", json=body)
        if answer.status_code == 400:
            return {"connector.class"}
        new = {each["value"]["name"] for each in answer.json()["configs"] if each["value"]["errors"]} - refused
        if not new:
            made = worker.rest.post("/connectors", json={"name": name, "config": config, "initial_state": "STOPPED"})
            if made.status_code == 201:
                return refused
            raise AssertionError(f"{made.status_code} {made.text}")
        refused |= new
        config = {setting: value for setting, value in config.items() if setting not in new}
        for setting in new:
            if ".sasl." in setting:
                # Kafka's default is Kerberos, which is refused, too.
                config[setting.partition(".sasl.")[0] + ".security.protocol"] = "PLAINTEXT"


@pytest.mark.parametrize("path", CONNECTORS, ids=lambda path: path.name)
def test_the_worker_refuses_what_check_calls_refused_and_takes_the_rest(
    path: Path, product: Product, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    for document in read_documents(path):
        if document.kind != CONNECTOR:
            continue  # of Strimzi's resources: their workers are started nowhere here
        config = _mapped(document.config(), source_cluster, target_cluster)
        config["name"] = name = f"checked-{uuid.uuid4().hex[:8]}"
        told: dict[str, Judgement] = {each.name: each for each in judge_connector(config, support=Support.DISABLED)}
        refused = {each for each, judged in told.items() if judged.verdict is Verdict.REFUSED}
        assert _refused_by(product, name, config) == refused
        if refused != {"connector.class"}:
            unread = {each for each, judged in told.items() if judged.unread}
            wait_for_state(partial(_names_as_unread, product, name, unread), f"the log names {unread} as unread")
            assert _unread_by(product, name) == unread
            product.delete(name)


def _names_as_unread(worker: Product, name: str, unread: set[str]) -> bool:
    return unread <= _unread_by(worker, name)


def _unread_by(worker: Product, name: str) -> set[str]:
    """The properties of which the worker's log says that nobody reads them."""
    lines = re.findall(
        rf"Connector {name}: (?:These properties are unknown|Without effect)[^:]*: (.*)", worker.log_text()
    )
    # Likely names, advice and the logger's name are in brackets.
    names = ", ".join(re.sub(r" \([^)]*\)", "", line) for line in lines)
    return set(filter(None, names.split(", ")))


# tests/unit/check/test_main.py asks a worker in memory.
@pytest.mark.long
def test_a_link_that_java_runs_is_checked_by_its_url_and_verified(
    source_cluster: LocalCluster, target_cluster: LocalCluster, topic_name: Callable[[str], str]
) -> None:
    topic = topic_name("checked")
    source_cluster.create_topic(topic)
    producer = Producer(source_cluster.librdkafka())
    producer.produce(topic, b"copied")
    assert producer.flush(30) == 0
    with ConnectWorker(
        target_cluster, {"offset.flush.interval.ms": "1000"}, group=topic_name("java"), heap="512m"
    ) as worker:
        config = {
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "source.cluster.alias": "source",
            "target.cluster.alias": "target",
            "source.cluster.bootstrap.servers": source_cluster.bootstrap_servers,
            "target.cluster.bootstrap.servers": target_cluster.bootstrap_servers,
            "topics": topic,
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "emit.heartbeat.enabled": "true",
        }
        assert worker.request("PUT", "/connectors/mirror/config", config)[0] == 201
        worker.wait_running("mirror")
        _wait_for_offsets(worker)
        before = worker.request("GET", "/connectors?expand=info&expand=status")
        done = _check("--json", "--verify", worker.rest_url)
        found = json.loads(done.stdout)
        assert (done.returncode, found["kind"], found["refused"]) == (0, "running-worker", 0), done.stderr
        others = {each["property"] for each in found["parts"][0]["properties"] if each["here"] == "different"}
        assert others == {"emit.heartbeat.enabled"}
        (link,) = found["links"]
        assert link["verify"] == f"{sys.executable} -m mirror_connect.cli verify mirror --worker {worker.rest_url}"
        assert (link["result"]["outcome"], len(link["result"]["partitions"])) == ("equal", 1)
        # It has only read.
        assert worker.request("GET", "/connectors?expand=info&expand=status") == before


def test_our_own_worker_is_checked_by_its_url(product: Product, source_cluster: LocalCluster) -> None:
    name = f"checked-{uuid.uuid4().hex[:8]}"
    config = {
        "connector.class": "MirrorSource",
        "source.cluster.alias": "source",
        "source.cluster.bootstrap.servers": source_cluster.bootstrap_servers,
        "source.cluster.ssl.keystore.password": "hush-hush",
    }
    made = product.rest.post("/connectors", json={"name": name, "config": config, "initial_state": "STOPPED"})
    assert made.status_code == 201, made.text
    done = _check(str(product.rest.base_url))
    product.delete(name)
    assert done.returncode == 0, done.stderr
    assert f"\n{name}: a MirrorSource\n" in done.stdout
    assert "hush-hush" not in done.stdout
    assert f"mirror_connect.cli verify {name} --worker" in done.stdout


# test_check_truth_files.py starts it with such a file, too.
@pytest.mark.long
def test_the_dedicated_mode_runs_what_check_calls_the_same_and_the_printed_command_verifies_it(
    tmp_path: Path, source_cluster: LocalCluster, target_cluster: LocalCluster, topic_name: Callable[[str], str]
) -> None:
    given = read_properties(FIXTURES / "guide-separator.mm2.properties")
    refused = {each.name for each in Mm2File(FIXTURES / "guide-separator.mm2.properties").judge() if _is_refused(each)}
    assert refused == {"groups"}
    topic = topic_name("guide")
    mapped = {
        **{name: value for name, value in given.items() if name not in refused},
        **QUICK,
        "src.bootstrap.servers": source_cluster.bootstrap_servers,
        "dst.bootstrap.servers": target_cluster.bootstrap_servers,
        "topics": topic,
        # Other tests copy from this cluster, too: a topic of heartbeats there would be one more in each of their links.
        "emit.heartbeats.enabled": "false",
    }
    source_cluster.create_topic(topic)
    producer = Producer(source_cluster.librdkafka())
    producer.produce(topic, b"copied")
    assert producer.flush(30) == 0
    path = tmp_path / "mm2 of the guide.properties"
    path.write_text(javaproperties.dumps(mapped), "iso-8859-1")
    with Dedicated(target_cluster, mapped, internal_rest=False, name="checked"):
        wait_ends(target_cluster, f"src_{topic}", {0: 1}, 60)
        told = json.loads(_check("--json", str(path)).stdout)
        assert told["refused"] == told["not_judged"] == 0
        (link,) = told["links"]
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

        def verified() -> subprocess.CompletedProcess[str] | None:
            # Source offsets come half a second after the records.
            done = subprocess.run(
                ["bash", "-c", link["verify"]],
                capture_output=True,
                text=True,
                timeout=120,
                env=environment,
                check=False,
            )
            return None if done.returncode == 2 else done

        done = wait_for_state(verified, "the link has committed what it has copied", 60)
        assert done.returncode == 0, done.stdout + done.stderr


def _is_refused(judged: Judgement) -> bool:
    return judged.verdict is Verdict.REFUSED


def _wait_for_offsets(worker: ConnectWorker) -> None:
    def committed() -> bool:
        return bool(worker.request("GET", "/connectors/mirror/offsets")[1]["offsets"])

    wait_for_state(committed, "Java has committed what it has copied", 120)


def _check(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mirror_connect.check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT, check=False)
