"""The cells of docs/guide/query.ipynb run as they stand, from the first to the last."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.local import LocalCluster
from tests.e2e.identity_topics import produce
from tests.paths import ROOT

NOTEBOOK = ROOT / "docs" / "guide" / "query.ipynb"
# Session, planning and reading on a slow machine.
RUN_S = 280.0


@pytest.mark.brokers
@pytest.mark.spark
@pytest.mark.long
def test_the_notebook_runs(source_cluster: LocalCluster, topic_name: Callable[[str], str], tmp_path: Path) -> None:
    topic = topic_name("notebook-orders")
    source_cluster.create_topic(topic)
    now = int(time.time() * 1000)
    rows = [
        {
            "key": b"k%d" % number,
            "value": json.dumps({"id": number, "amount": 2.5, "country": ("DE", "FR")[number % 2]}).encode(),
            # The first ten are older than an hour.
            "timestamp": now - (7_200_000 if number < 10 else 60_000),
        }
        for number in range(30)
    ]
    produce(source_cluster, topic, rows)
    properties = "".join(f"{name}={value}\n" for name, value in source_cluster.client_properties().items())
    (tmp_path / "client.properties").write_text(properties)
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    code = "\n".join("".join(each["source"]) for each in cells if each["cell_type"] == "code")
    assert code.count('.load("orders")') == 2
    code = code.replace('.load("orders")', f'.load("{topic}")')
    arguments = [sys.executable, "-c", code]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=RUN_S, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    lines = ["".join(line.split()) for line in done.stdout.splitlines()]
    assert "|--value:binary(nullable=true)" in lines
    assert "|0|10|" in [line[:6] for line in lines]
    assert {"|DE|10|25.0|", "|FR|10|25.0|"} <= set(lines)
    assert f"|{topic}|0|7|" in [line[: len(topic) + 6] for line in lines]


def test_the_notebook_is_stored_without_results() -> None:
    notebook = json.loads(NOTEBOOK.read_text("utf-8"))
    assert notebook["nbformat"] == 4
    assert all(not each.get("outputs") for each in notebook["cells"])
