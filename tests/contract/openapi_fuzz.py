"""Requests made up from openapi.yaml by schemathesis, against a real worker: whatever is sent, the contract holds.

`make fuzz` does so for minutes, each time with another seed, which it tells; test_openapi.py for some hundred requests.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Final

from deploy.local import LocalCluster
from tests.e2e.product import ROOT, Product

HERE: Final = Path(__file__).parent
# No 5xx at all: each one that Connect was recorded with needs what is not done here (broken credentials, a broken file).
# Those of schemathesis_hooks.py are its own, but for answers without a body.
# Not whether what was made is there at once: a new connector has no status for a moment, here as in Connect.
CHECKS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_of_content",
    "response_headers_conformance",
    "schema_of_content",
    "unsupported_method",
    "allow_header_conformance",
)
# As schemathesis.toml names them.
STATES: Final = {"running": "RUNNING", "paused": "PAUSED", "stopped": "STOPPED", "without-tasks": "RUNNING"}
PATIENCE_S: Final = 180


def make_connectors(worker: Product) -> None:
    """Connectors for the requests to find; the task of one runs."""
    for name, state in STATES.items():
        config = {
            "connector.class": "MirrorHeartbeatConnector",
            "source.cluster.alias": "A",
            "target.cluster.alias": "B",
            "source.cluster.bootstrap.servers": worker.cluster.bootstrap_servers,
            "target.cluster.bootstrap.servers": worker.cluster.bootstrap_servers,
            "heartbeats.topic.replication.factor": "1",
            "emit.heartbeats.enabled": "false" if name == "without-tasks" else "true",
        }
        worker._json("POST", "/connectors", {"name": name, "config": config, "initial_state": state})
    # Before Spark is up, a task that is restarted is waited for.
    worker.wait_running("running")


def fuzz(worker: Product, seed: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs schemathesis to its end. Code 0: it found nothing; its output tells what. `arguments`: more of its own."""
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", HERE / "schemathesis.toml"),
        *("run", ROOT / "openapi.yaml", "--url", str(worker.rest.base_url), "--checks", ",".join(CHECKS)),
        # Health checks are about how fast requests are made up; its database would remember other runs.
        *("--suppress-health-check", "all", "--generation-database", "none", "--warnings", "off", "--no-color"),
        *("--continue-on-failure", "--request-timeout", str(PATIENCE_S), "--seed", str(seed), *arguments),
    ]
    environment = {
        **os.environ,
        "SCHEMATHESIS_HOOKS": "tests.contract.schemathesis_hooks",
        "PYTHONPATH": str(ROOT),
        # Else it leaves a folder wherever it is started.
        "HYPOTHESIS_STORAGE_DIRECTORY": str(worker.directory / "hypothesis"),
    }
    return subprocess.run(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )


def main() -> int:
    """0: nothing was found; 1: something was, with the requests that show it."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=300, help="how long new requests are made up")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="to see a run again")
    options = parser.parse_args()
    print(f"Seed {options.seed}, {options.seconds} s", flush=True)
    with LocalCluster("target") as cluster, Product(cluster, group="fuzz") as worker:
        make_connectors(worker)
        done = fuzz(worker, options.seed, "--max-time", str(options.seconds))
        print(done.stdout)
        worker.check_alive()
        return done.returncode


if __name__ == "__main__":
    sys.exit(main())
