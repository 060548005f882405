"""`mirror-connect verify` run on a link of the test's own making, and its records."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

from deploy.local import LocalCluster
from tests.integration.mirror_rig import fresh_topic

Records = list[dict[str, Any]]


# Of today: brokers look for what is older than a week half a minute after their start, and take it away.
NOW = int(time.time() * 1000) - 3_600_000


def some(count: int, first: int = 0) -> Records:
    return [
        {
            "key": b"key %d" % number,
            "value": b"value %d " % number * 20,
            "timestamp": NOW + number,
            "headers": [("n", b"%d" % number)],
            "partition": 0,
        }
        for number in range(first, first + count)
    ]


def verify(source: LocalCluster, target: LocalCluster, topic: str, *more: str) -> tuple[int, dict[str, Any]]:
    """Exit code and JSON of the command."""
    done = command(source, target, topic, "--json", *more)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def command(source: LocalCluster, target: LocalCluster, topic: str, *more: str) -> subprocess.CompletedProcess[str]:
    files = ["--source", str(source.write_client_properties()), "--target", str(target.write_client_properties())]
    return subprocess.run(
        [sys.executable, "-m", "mirror_connect.cli", "verify", *files, "--topics", topic, "--source-alias", "A", *more],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def both(source: LocalCluster, target: LocalCluster, partitions: int = 1, **configs: str) -> str:
    topic = fresh_topic("verify")
    source.create_topic(topic, partitions)
    target.create_topic(f"A.{topic}", partitions, config=configs)
    return topic
