"""The bootstrap.checkpoint of a Kafka version: Kafka's StorageTool writes it once, and every new broker gets a copy."""

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
from deploy.local.watchdog import watchdog


def bootstrap_checkpoint(version: str = KAFKA_VERSION) -> Path:
    """The file beside the jars. It is made if it is missing (about a second)."""
    template = libs(version).parent / "bootstrap.checkpoint"
    if not template.exists():
        with tempfile.TemporaryDirectory(dir=template.parent) as scratch:
            watchdog().guard_directory(scratch)
            made = _format(Path(scratch), version)
            # The rename is atomic, so two processes at once both end with a complete file.
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
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise LocalError(f"Kafka {version}'s storage tool failed: {lines[-1] if lines else 'it printed nothing'}")
    return made
