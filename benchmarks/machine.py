"""What the figures were measured on."""

from __future__ import annotations

import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

import psutil

from deploy.local.java import java_command
from deploy.local.kafka_jars import KAFKA_VERSION


def describe() -> dict[str, str]:
    """Sizes and versions, by name."""
    said = subprocess.run([*java_command(), "-version"], capture_output=True, text=True, check=True, timeout=60).stderr
    java = re.search(r'version "([^"]+)"', said)
    return {
        "Processor": f"{psutil.cpu_count()} cores, {_processor()}",
        "Memory": f"{psutil.virtual_memory().total / 1e9:.0f} GB",
        "System": f"{platform.system()} {platform.release()}",
        "Java": java[1] if java else "unknown",
        "Python": platform.python_version(),
        "Kafka and MirrorMaker 2": KAFKA_VERSION,
        "Spark": version("pyspark"),
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    name = re.search(r"model name\s*: (.+)", text)
    return name[1].strip() if name else platform.machine()
