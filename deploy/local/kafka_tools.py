"""Runs Kafka's command line tools. Tests compare our bytes with their output."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from deploy.local.broker_config import write_properties
from deploy.local.errors import LocalError, NotInTime
from deploy.local.java_process import java_arguments
from deploy.local.kafka_jars import KAFKA_VERSION


def run_tool(
    main_class: str,
    arguments: Sequence[str],
    *,
    properties: Mapping[str, str],
    directory: Path,
    seconds: float = 360.0,
    version: str = KAFKA_VERSION,
) -> str:
    """Runs `main_class` and returns its standard output.

    In arguments, `{config}` becomes the path of a file with `properties` that only its owner can read, and `{bootstrap}` its
    bootstrap.servers. LocalError with the tool's last line if it fails or takes too long.
    """
    name = main_class.rpartition(".")[2]
    with tempfile.TemporaryDirectory(dir=directory, prefix="tool-") as scratch:
        config = write_properties(Path(scratch) / "client.properties", properties)
        bootstrap = properties.get("bootstrap.servers", "")
        filled = [text.replace("{config}", str(config)).replace("{bootstrap}", bootstrap) for text in arguments]
        command = java_arguments(main_class, heap="512m", version=version)
        try:
            done = subprocess.run(
                [*command, *filled], capture_output=True, text=True, errors="replace", check=False, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            raise NotInTime(f"{name} has not ended after {seconds:g} s") from None
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise LocalError(
            f"{name} failed with exit code {done.returncode}: {lines[-1] if lines else 'it printed nothing'}"
        )
    return done.stdout
