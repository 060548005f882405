"""The bootstrap.checkpoint of a Kafka version, written once by Kafka's own StorageTool and copied for every new broker."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from deploy.local.broker_config import random_id, write_properties
from deploy.local.errors import LocalError
from deploy.local.java_process import java_arguments
from deploy.local.kafka_jars import KAFKA_VERSION, libs


def bootstrap_checkpoint(version: str = KAFKA_VERSION) -> Path:
    """The file beside the jars; made if it is not there yet (about a second)."""
    template = libs(version).parent / "bootstrap.checkpoint"
    if not template.exists():
        with tempfile.TemporaryDirectory(dir=template.parent) as scratch:
            made = _format(Path(scratch), version)
            # The rename is atomic: of two processes that do this at once both end with a whole file.
            os.replace(made, template)
            shutil.rmtree(scratch, ignore_errors=True)
    return template


def _format(scratch: Path, version: str) -> Path:
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": "1@127.0.0.1:9093",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(scratch / "data"),
    }
    config = write_properties(scratch / "server.properties", properties)
    command = java_arguments("kafka.tools.StorageTool", heap="128m", version=version)
    done = subprocess.run(
        [*command, "format", "-t", random_id(), "-c", str(config)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    made = scratch / "data" / "bootstrap.checkpoint"
    if done.returncode or not made.exists():
        said = (done.stderr or done.stdout).strip().splitlines()
        raise LocalError(f"Kafka {version}'s storage tool failed: {said[-1] if said else 'it said nothing'}")
    return made
