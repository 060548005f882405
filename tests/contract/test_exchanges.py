"""Whole exchanges recorded from Kafka Connect 4.3.1, sent to this product (ORIGIN.md).

`make test` shortens the replayer's pauses. Half of the time is waiting for connectors to fail: the exchanges about these are
sent beside others, which don't look at them. Within each of the two the order is the recorded one. `make soak` also sends
all of them one after the other, by the replayer as it came.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from deploy.local import LocalCluster
from tests.e2e.product import Product

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

HERE: Final = Path(__file__).parent
# The worker properties of the profiles, as record_rest.py has them.
PLAIN: Final = {
    "config.providers": "file",
    "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    "connector.client.config.override.policy": "All",
    "offset.flush.interval.ms": "5000",
}
AUTH: Final = {
    "rest.extension.classes": "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension",
}
# The replayer as it is, but for its pauses: of a second between two looks at a state, and of 1.5 s before some of them. Its
# clock goes slowly, so that a machine three times slower has as much time to get to a state.
REPLAY: Final = """
import sys, time, types
import record_rest
def pause(seconds):
    time.sleep(min(seconds, 0.2 if seconds > 1 else 0.05))
record_rest.time = types.SimpleNamespace(time=lambda: time.time() / 3, sleep=pause)
sys.exit(record_rest.main())
"""
EXCHANGES: Final = json.loads((HERE / "rest.json").read_text("utf-8"))
# The task's config was asked for when tasks.max had been changed and the task had not got it yet.
PASSING: Final = {"config-tasks-one": ["/0/config/tasks.max"]}
# Lists of all connectors are asked for before and behind these groups alone.
FAILING, FIRST_BESIDE, FIRST_BEHIND = "failed", "values", "secrets"
Exchanges = Sequence[dict[str, Any]]
Replay = Callable[..., str]


def exchanges_of(profile: str) -> Exchanges:
    """Those of a profile, in the order in which they were recorded."""
    return [_at_any_moment(each) for each in EXCHANGES if each.get("profile", "plain") == profile]


def _at_any_moment(exchange: dict[str, Any]) -> dict[str, Any]:
    """The exchange without what held for a moment alone, after which no patience brings it back."""
    ignored = PASSING.get(exchange["id"])
    return {**exchange, "match": {**exchange["match"], "ignore": ignored}} if ignored else exchange


def one_by_one(profile: str) -> list[list[Exchanges]]:
    """All of a profile as they were recorded."""
    return [[exchanges_of(profile)]]


def failing_ones_beside_others(profile: str) -> list[list[Exchanges]]:
    """Steps one after the other; the exchanges of each are sent by as many replayers at the same time."""
    exchanges = exchanges_of(profile)
    groups = [each["group"] for each in exchanges]
    beside, behind = groups.index(FIRST_BESIDE), groups.index(FIRST_BEHIND)
    failing = [each for each in exchanges if each["group"] == FAILING]
    others = [each for each in exchanges[beside:behind] if each["group"] != FAILING]
    steps: list[list[Exchanges]] = [[exchanges[:beside]], [others, failing], [exchanges[behind:]]]
    assert sum(len(each) for step in steps for each in step) == len(exchanges)
    return steps


def all_passed(steps: Sequence[Sequence[Exchanges]]) -> str:
    """What the replayers say then."""
    return "".join(f"{len(each)} passed, 0 failed\n" for step in steps for each in step)


def have_spark_started(worker: Product) -> None:
    """Some exchanges were recorded with tasks that start at once: Spark takes longer, and that is no matter of REST."""
    config = {
        "connector.class": "MirrorHeartbeatConnector",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": worker.cluster.bootstrap_servers,
        "target.cluster.bootstrap.servers": worker.cluster.bootstrap_servers,
        "heartbeats.topic.replication.factor": "1",
    }
    worker.put("first", config)
    worker.wait_running("first")
    worker.delete("first")


@pytest.fixture
def replay(source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path) -> Replay:
    """Sends exchanges, step by step; what the replayers say of those that differ, and how many there were."""

    def run(
        worker: Product, profile: str, steps: Sequence[Sequence[Exchanges]], *arguments: str, as_it_came: bool = False
    ) -> str:
        program = [HERE / "record_rest.py"] if as_it_came else ["-c", REPLAY]
        url = worker.rest.base_url

        def send(exchanges: Exchanges) -> str:
            file = tmp_path / f"from-{exchanges[0]['id']}.json"
            file.write_text(json.dumps(exchanges), "utf-8")
            command = [
                *(sys.executable, *program, "replay", "--lenient", "--url", str(url)),
                *("--var", f"source_bootstrap={source_cluster.bootstrap_servers}"),
                *("--var", f"target_bootstrap={target_cluster.bootstrap_servers}"),
                # Else each replayer would take the first that it is told for the right one.
                *("--var", f"worker_id={url.host}:{url.port}", "--var", f"cluster_id={cluster_id}"),
                *("--file", file, "--profiles", profile, *arguments),
            ]
            # Every state is waited for as long as the exchange allows: a minute as a rule, by that clock.
            done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=800, check=False)
            return done.stdout + done.stderr

        have_spark_started(worker)
        cluster_id = worker.rest.get("/").json()["kafka_cluster_id"]
        with ThreadPoolExecutor() as replayers:
            return "".join(said for step in steps for said in replayers.map(send, step))

    return run


@pytest.fixture(scope="module")
def prepared(source_cluster: LocalCluster) -> None:
    """The source has the topics that the exchanges tell of."""
    prepare = [sys.executable, HERE / "record_rest.py", "prepare", "--bootstrap", source_cluster.bootstrap_servers]
    subprocess.run(prepare, check=True, timeout=180)


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize(
    "as_it_came",
    [
        pytest.param(False, id="by_an_impatient_replayer"),
        # Minutes, as it looks at every state once a second.
        pytest.param(True, id="by_the_replayer_as_it_came", marks=pytest.mark.long),
    ],
)
def test_answers_are_those_of_kafka_connect(target_cluster: LocalCluster, replay: Replay, as_it_came: bool) -> None:
    group = "exchanges-as-it-came" if as_it_came else "exchanges"
    with Product(target_cluster, group=group, properties=PLAIN) as worker:
        steps = one_by_one("plain") if as_it_came else failing_ones_beside_others("plain")
        said = replay(worker, "plain", steps, as_it_came=as_it_came)
        assert said == all_passed(steps), said + worker.log_tail(100)


# tests/e2e/test_hostile_requests.py asks a worker that wants passwords.
@pytest.mark.long
def test_answers_are_those_of_kafka_connect_with_basic_authentication(
    target_cluster: LocalCluster, tmp_path: Path, replay: Replay
) -> None:
    users = tmp_path / "users.properties"
    users.write_text("admin=s3cret\n")
    jaas = tmp_path / "jaas.conf"
    module = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
    jaas.write_text(f'KafkaConnect {{ {module} required file="{users}"; }};\n')
    environment = {"KAFKA_OPTS": f"-Djava.security.auth.login.config={jaas}"}
    product = Product(target_cluster, group="exchanges-auth", properties=AUTH, environment=environment)
    product.rest.auth = ("admin", "s3cret")
    with product as worker:
        steps = one_by_one("auth")
        said = replay(worker, "auth", steps, "--auth", "admin:s3cret")
        assert said == all_passed(steps), said + worker.log_tail()
