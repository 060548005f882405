"""Records what a Connect worker of Kafka with exactly-once answers, into rest-exactly-once.json.

Again, after `make setup` (two minutes): two clusters and a `ConnectDistributed` with
exactly.once.source.support=enabled are started, and get the requests below in their order.

    python -m tests.contract.record_exactly_once
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from deploy.local import LocalCluster
from deploy.local.connect import ConnectWorker
from tests.brokers import UNHURRIED, started
from tests.contract import record_rest

HERE: Final = Path(__file__).parent
ANSWERS: Final = HERE / "rest-exactly-once.json"
ENABLED: Final = {"exactly.once.source.support": "enabled", "offset.flush.interval.ms": "5000"}
JSON: Final = {"Accept": "application/json", "Content-Type": "application/json"}
PACKAGE: Final = "org.apache.kafka.connect.mirror."
COMMON: Final = {
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "{{source_bootstrap}}",
    "target.cluster.bootstrap.servers": "{{target_bootstrap}}",
}
HEARTBEAT: Final = {
    "connector.class": f"{PACKAGE}MirrorHeartbeatConnector",
    **COMMON,
    "emit.heartbeats.interval.seconds": "1",
    "heartbeats.topic.replication.factor": "1",
}
SOURCE: Final = {
    "connector.class": f"{PACKAGE}MirrorSourceConnector",
    **COMMON,
    "topics": "rest-demo",
    "tasks.max": "2",
    "replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
}
CHECKPOINT: Final = {"connector.class": f"{PACKAGE}MirrorCheckpointConnector", **COMMON}
COMMITTED: Final = {"source.consumer.isolation.level": "read_committed"}
REQUIRED: Final = {"exactly.once.support": "required"}
OWN_TOPIC: Final = {"offsets.storage.topic": "own-offsets"}

# The settings whose validation is kept.
JUDGED: Final = ("exactly.once.", "transaction.", "offsets.storage.", "producer.override.")
# What a connector asks for, by the exchange's id: its class's config and what is added.
VALIDATED: Final[dict[str, tuple[dict[str, str], dict[str, str]]]] = {
    "source-requested": (SOURCE, {"exactly.once.support": "requested"}),
    "source-required": (SOURCE, REQUIRED),
    "source-required-committed": (SOURCE, {**REQUIRED, **COMMITTED}),
    "source-required-in-capitals": (SOURCE, {"exactly.once.support": "REQUIRED"}),
    "source-required-in-capitals-committed": (SOURCE, {"exactly.once.support": "REQUIRED", **COMMITTED}),
    "source-committed-in-capitals": (SOURCE, {**REQUIRED, "source.consumer.isolation.level": "READ_COMMITTED"}),
    "source-unknown-level": (SOURCE, {"exactly.once.support": "always"}),
    "checkpoint-required": (CHECKPOINT, REQUIRED),
    "heartbeat-required": (HEARTBEAT, REQUIRED),
    "heartbeat-requested": (HEARTBEAT, {"exactly.once.support": "requested"}),
    "boundary-poll": (SOURCE, {"transaction.boundary": "poll"}),
    "boundary-interval": (SOURCE, {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "1000"}),
    "boundary-interval-zero": (SOURCE, {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "0"}),
    "boundary-interval-negative": (SOURCE, {"transaction.boundary.interval.ms": "-1"}),
    "boundary-interval-text": (SOURCE, {"transaction.boundary.interval.ms": "soon"}),
    "boundary-connector": (SOURCE, {"transaction.boundary": "connector"}),
    "boundary-connector-of-heartbeats": (HEARTBEAT, {"transaction.boundary": "Connector"}),
    "boundary-unknown": (SOURCE, {"transaction.boundary": "batch"}),
    "offsets-topic": (SOURCE, OWN_TOPIC),
    "offsets-topic-empty": (SOURCE, {"offsets.storage.topic": ""}),
    "producer-transactional-id": (SOURCE, {"producer.override.transactional.id": "mine"}),
    "producer-transaction-timeout": (SOURCE, {"producer.override.transaction.timeout.ms": "30000"}),
    "producer-not-idempotent": (SOURCE, {"producer.override.enable.idempotence": "false"}),
}


def exchanges() -> list[dict[str, Any]]:
    """The requests, without answers."""
    return [*_validations(), *_refused(), *_signatures(), *_life("e-hb", {}), *_life("e-own", OWN_TOPIC), *_by_source()]


def _exchange(name: str, about: str, method: str, path: str, body: Any = None, **more: Any) -> dict[str, Any]:
    request = {"method": method, "path": path, "headers": dict(JSON)}
    if body is None:
        request["headers"].pop("Content-Type")
    else:
        request["body"] = body
    return {"id": name, "group": more.pop("group"), "about": about, "request": request, **more}


def _validations() -> Iterator[dict[str, Any]]:
    for name, (config, more) in VALIDATED.items():
        path = f"/connector-plugins/{config['connector.class']}/config/validate"
        body = {"name": "v", **config, **more}
        yield _exchange(f"validate-{name}", name, "PUT", path, body, group="validate")


def _refused() -> Iterator[dict[str, Any]]:
    for name in ("source-required", "checkpoint-required", "heartbeat-required", "boundary-connector"):
        config, more = VALIDATED[name]
        body = {"name": "r", "config": {**config, **more}}
        exact = {"exact": True}
        yield _exchange(f"create-{name}", f"refused: {name}", "POST", "/connectors", body, group="create", match=exact)


def _signatures() -> Iterator[dict[str, Any]]:
    exact = {"exact": True}
    for name, headers in {
        "none": {},
        "no-algorithm": {"X-Connect-Authorization": "c2lnbmVk"},
        "wrong": {"X-Connect-Authorization": "c2lnbmVk", "X-Connect-Request-Signature-Algorithm": "HmacSHA256"},
        "other": {"X-Connect-Authorization": "c2lnbmVk", "X-Connect-Request-Signature-Algorithm": "HmacSHA1"},
    }.items():
        made = _exchange(
            f"fence-{name}", f"signature: {name}", "PUT", "/connectors/none/fence", group="fence", match=exact
        )
        made["request"]["headers"].update(headers)
        yield made


def _life(name: str, more: dict[str, str]) -> Iterator[dict[str, Any]]:
    """A heartbeat connector from its creation until its offsets are reset, and again."""
    running = [["/connector/state", "RUNNING"], ["/tasks/#", 1], ["/tasks/0/state", "RUNNING"]]
    later = {"retry_s": 60}
    partition = {"sourceClusterAlias": "A", "targetClusterAlias": "B"}
    one = {"offsets": [{"partition": partition, "offset": {"offset": 0}}]}

    def step(what: str, about: str, method: str, path: str, body: Any = None, **rest: Any) -> dict[str, Any]:
        return _exchange(f"{name}-{what}", about, method, path, body, group=name, **rest)

    path = f"/connectors/{name}"
    yield step("create", "created", "POST", "/connectors", {"name": name, "config": {**HEARTBEAT, **more}})
    yield step("running", "it runs", "GET", f"{path}/status", settle=running, match=later)
    yield step("offsets", "its offsets", "GET", f"{path}/offsets", settle=[["/offsets/#", 1]], match=later)
    yield step("alter-running", "not while it runs", "PATCH", f"{path}/offsets", one, match={"exact": True})
    yield step("stop", "stopped", "PUT", f"{path}/stop")
    stopped = [["/connector/state", "STOPPED"], ["/tasks/#", 0]]
    yield step("stopped", "it is stopped", "GET", f"{path}/status", settle=stopped, match=later)
    yield step("alter", "altered in a transaction", "PATCH", f"{path}/offsets", one, match={"exact": True})
    yield step("reset", "reset", "DELETE", f"{path}/offsets", match={"exact": True})
    yield step("none", "none left", "GET", f"{path}/offsets", settle=[["/offsets/#", 0]], match=later)
    yield step("again", "given again", "PATCH", f"{path}/offsets", one, match={"exact": True})
    yield step("there", "they are there", "GET", f"{path}/offsets", settle=[["/offsets/#", 1]], match=later)
    yield step("reset-again", "and gone", "DELETE", f"{path}/offsets", match={"exact": True})
    yield step("delete", "deleted", "DELETE", path)


def _by_source() -> Iterator[dict[str, Any]]:
    later = {"retry_s": 60}
    config = {**SOURCE, **REQUIRED, **COMMITTED, "refresh.topics.interval.seconds": "1"}
    yield _exchange(
        "source-create", "required", "POST", "/connectors", {"name": "e-src", "config": config}, group="source"
    )
    running = [["/connector/state", "RUNNING"], ["/tasks/#", 2], ["/tasks/0/state", "RUNNING"]]
    running += [["/tasks/1/state", "RUNNING"]]
    path = "/connectors/e-src"
    yield _exchange("source-running", "it runs", "GET", f"{path}/status", group="source", settle=running, match=later)
    two = [["/offsets/#", 2], ["/offsets/0/offset/offset", 9], ["/offsets/1/offset/offset", 9]]
    match = {**later, "unordered": ["/offsets"]}
    yield _exchange(
        "source-offsets", "both partitions", "GET", f"{path}/offsets", group="source", settle=two, match=match
    )
    yield _exchange("source-delete", "deleted", "DELETE", path, group="source")


def _kept(exchange: dict[str, Any]) -> dict[str, Any]:
    """Of a validation only what is about exactly-once, or wrong: the rest is in rest.json."""
    body = exchange["response"].get("body")
    if exchange["group"] == "validate" and isinstance(body, dict) and "configs" in body:
        rows = [each["value"] for each in body["configs"]]
        kept = [each for each in rows if each["errors"] or each["name"].startswith(JUDGED)]
        exchange["response"]["body"] = {
            "error_count": body["error_count"],
            "configs": [{"value": each} for each in kept],
        }
    return exchange


def record() -> None:
    """Asks Kafka's worker and writes the file."""
    source, target = (LocalCluster(name, properties=UNHURRIED) for name in ("source", "target"))
    with started(source, target), ConnectWorker(target, ENABLED, heap="512m") as worker:
        prepare = [sys.executable, HERE / "record_rest.py", "prepare", "--bootstrap", source.bootstrap_servers]
        subprocess.run(prepare, check=True, timeout=120)
        root = worker.request("GET", "/")[1]
        names = {
            "url": worker.rest_url,
            "worker_id": worker.rest_url.removeprefix("http://"),
            "cluster_id": root["kafka_cluster_id"],
            "source_bootstrap": source.bootstrap_servers,
            "target_bootstrap": target.bootstrap_servers,
        }
        variables = {**record_rest.DEFAULT_VARS, **names, "version": root["version"]}
        asking = argparse.Namespace(url=worker.rest_url, admin_url=None, auth=None)
        found = [_kept({**each, "response": record_rest.record(asking, each, variables)}) for each in exchanges()]
    text = json.dumps(found, indent=1, ensure_ascii=False)
    for name, value in names.items():
        text = text.replace(value, f"{{{{{name}}}}}")
    ANSWERS.write_text(text + "\n", "utf-8")
    print(f"{ANSWERS}: {len(found)} answers")


if __name__ == "__main__":
    record()
