"""Whole exchanges recorded from Kafka Connect 4.3.1, sent to this product one after the other (ORIGIN.md)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
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
# The replayer as it is, but for its patience between two looks at a state: a second, sixty times over.
REPLAY: Final = """
import sys, time, types
import record_rest
record_rest.time = types.SimpleNamespace(time=time.time, sleep=lambda seconds: time.sleep(min(seconds, 0.2)))
sys.exit(record_rest.main())
"""
EXCHANGES: Final = json.loads((HERE / "rest.json").read_text("utf-8"))
Replay = Callable[..., str]


def exchanges_of(profile: str) -> list[dict[str, Any]]:
    """Those of a profile, in the order in which they were recorded."""
    return [each for each in EXCHANGES if each.get("profile", "plain") == profile]


def soonest(chosen: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those about starts that fail come before all that need tasks: they wait while Spark starts."""
    first_with_tasks = next((at for at, each in enumerate(chosen) if each["group"] == "list"), 0)
    early = [each for each in chosen if each["group"] == "failed"]
    rest = [each for each in chosen if each["group"] != "failed"]
    return [*rest[:first_with_tasks], *early, *rest[first_with_tasks:]]


@pytest.fixture
def replay(source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path) -> Replay:
    """Sends the exchanges of a profile; what the replayer says of those that differ, and how many there were."""

    def run(worker: Product, profile: str, *arguments: str, as_recorded: bool = False) -> str:
        file = tmp_path / "exchanges.json"
        chosen = exchanges_of(profile)
        file.write_text(json.dumps(chosen if as_recorded else soonest(chosen)), "utf-8")
        program = [HERE / "record_rest.py"] if as_recorded else ["-c", REPLAY]
        command = [
            *(sys.executable, *program, "replay", "--lenient", "--url", str(worker.rest.base_url)),
            *("--var", f"source_bootstrap={source_cluster.bootstrap_servers}"),
            *("--var", f"target_bootstrap={target_cluster.bootstrap_servers}"),
            *("--file", file, "--profiles", profile, *arguments),
        ]
        # Every state is waited for as long as the exchange allows, a minute as a rule.
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=800, check=False)
        return done.stdout + done.stderr

    return run


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "as_recorded",
    [
        pytest.param(False, id="in_the_quickest_order"),
        # Minutes, as every state is looked at once a second.
        pytest.param(True, id="as_they_were_recorded", marks=[pytest.mark.soak, pytest.mark.long]),
    ],
)
def test_answers_are_those_of_kafka_connect(
    source_cluster: LocalCluster, target_cluster: LocalCluster, replay: Replay, as_recorded: bool
) -> None:
    prepare = [sys.executable, HERE / "record_rest.py", "prepare", "--bootstrap", source_cluster.bootstrap_servers]
    subprocess.run(prepare, check=True, timeout=120)
    group = "exchanges-as-recorded" if as_recorded else "exchanges"
    with Product(target_cluster, group=group, properties=PLAIN) as worker:
        said = replay(worker, "plain", as_recorded=as_recorded)
        assert said == f"{len(exchanges_of('plain'))} passed, 0 failed\n", said + worker.log_tail(100)


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
        said = replay(worker, "auth", "--auth", "admin:s3cret")
        assert said == f"{len(exchanges_of('auth'))} passed, 0 failed\n", said + worker.log_tail()
