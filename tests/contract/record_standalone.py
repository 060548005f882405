"""Records which answers of Kafka's standalone worker differ from those of rest.json, into rest-standalone.json.

Again, after `make setup` (two minutes): two clusters and a `ConnectStandalone` without connector files are started, and get
the requests of the profile `plain` in their order.

    python -m tests.contract.record_standalone
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from deploy.local import LocalCluster
from deploy.local.connect import StandaloneWorker
from tests.brokers import UNHURRIED, started
from tests.contract import record_rest

HERE: Final = Path(__file__).parent
ANSWERS: Final = HERE / "rest-standalone.json"
PLAIN: Final = {
    "config.providers": "file",
    "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    "connector.client.config.override.policy": "All",
    "offset.flush.interval.ms": "5000",
}
# Not of this mode: what the loggers say follows from the log4j of the recording, and a restart of a stopped connector with
# its tasks starts tasks that are gone (NullPointerException), whose status then stays.
LEFT_OUT: Final = ("loggers-", "life-stopped-restart-all", "life-stopped-paused")


def merged() -> list[dict[str, Any]]:
    """All exchanges of the profile, with the standalone worker's answers in the places of those that differ."""
    theirs = {each["id"]: each for each in json.loads(ANSWERS.read_text("utf-8"))}
    exchanges = json.loads((HERE / "rest.json").read_text("utf-8"))
    return [{**each, **theirs.get(each["id"], {})} for each in exchanges if each.get("profile", "plain") == "plain"]


def record() -> None:
    """Asks Kafka's worker and writes the file."""
    source, target = (LocalCluster(name, properties=UNHURRIED) for name in ("source", "target"))
    with started(source, target), StandaloneWorker(target, (), PLAIN, heap="512m") as worker:
        prepare = [sys.executable, HERE / "record_rest.py", "prepare", "--bootstrap", source.bootstrap_servers]
        subprocess.run(prepare, check=True, timeout=120)
        worker_id = worker.rest_url.removeprefix("http://")
        root = worker.request("GET", "/")[1]
        names = {
            "url": worker.rest_url,
            "worker_id": worker_id,
            "cluster_id": root["kafka_cluster_id"],
            "source_bootstrap": source.bootstrap_servers,
            "target_bootstrap": target.bootstrap_servers,
        }
        variables = {**record_rest.DEFAULT_VARS, **names, "version": root["version"]}
        different = _different(argparse.Namespace(url=worker.rest_url, admin_url=None, auth=None), variables)
    # Not the version: it is in texts of other meaning, too.
    text = json.dumps(different, indent=1, ensure_ascii=False)
    for name, value in names.items():
        text = text.replace(value, f"{{{{{name}}}}}")
    ANSWERS.write_text(text + "\n", "utf-8")
    print(f"{ANSWERS}: {len(different)} answers")


def _different(asking: argparse.Namespace, variables: dict[str, str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    seen: dict[str, str] = {}
    for exchange in json.loads((HERE / "rest.json").read_text("utf-8")):
        if exchange.get("profile", "plain") != "plain":
            continue
        # What does not come within seconds is another answer.
        match = exchange.get("match", {})
        patience = {"retry_s": min(match.get("retry_s", 0), 12), "retry_409": 2}
        answer, difference = record_rest.ask(asking, {**exchange, "match": {**match, **patience}}, variables, seen)
        if difference and not exchange["id"].startswith(LEFT_OUT):
            match = {key: value for key, value in match.items() if key not in ("ignore", "also")}
            found.append({"id": exchange["id"], "response": answer, "match": match})
    return found


if __name__ == "__main__":
    record()
