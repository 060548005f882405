"""Exchanges with a worker of standalone mode, recorded from Kafka's (ORIGIN.md).

`make test` sends those about what differs from distributed mode. `make soak` sends all of the profile `plain`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from deploy.local import LocalCluster
from tests.contract.record_standalone import PLAIN, merged
from tests.contract.test_exchanges import REPLAY, have_spark_started
from tests.e2e.product import Product
from tests.paths import ROOT

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

HERE: Final = Path(__file__).parent
EXCHANGES: Final = merged()
# Each of them leaves nothing behind, and needs neither records nor long waits for failures.
QUICK: Final = ("root", "create", "internal")


@pytest.mark.parametrize(
    "groups",
    [
        pytest.param(QUICK, id="what_differs"),
        pytest.param(None, id="all", marks=pytest.mark.long),
    ],
)
def test_answers_are_those_of_kafkas_standalone_worker(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path, groups: tuple[str, ...] | None
) -> None:
    prepare = [sys.executable, HERE / "record_rest.py", "prepare", "--bootstrap", source_cluster.bootstrap_servers]
    # The topic may be there from another test: that it refuses to fill it twice is no matter here.
    subprocess.run(prepare, check=False, timeout=120)
    chosen = [each for each in EXCHANGES if groups is None or each["group"] in groups]
    properties = {**PLAIN, "offset.storage.file.filename": str(tmp_path / "connect.offsets")}
    script = ROOT / "bin" / "connect-standalone.sh"
    with Product(target_cluster, group="alone", properties=properties, command=[script]) as worker:
        if groups is None:
            have_spark_started(worker)
        said = replayed(worker, source_cluster, chosen, tmp_path)
        assert said == f"{len(chosen)} passed, 0 failed\n", said + worker.log_tail(100)


def replayed(worker: Product, source: LocalCluster, exchanges: list[dict[str, Any]], directory: Path) -> str:
    """What the replayer says of those that differ, and how many there were."""
    file = directory / "exchanges.json"
    file.write_text(json.dumps(exchanges), "utf-8")
    command = [
        *(sys.executable, "-c", REPLAY, "replay", "--lenient", "--url", str(worker.rest.base_url)),
        *("--var", f"source_bootstrap={source.bootstrap_servers}", "--file", file),
        *("--var", f"target_bootstrap={worker.cluster.bootstrap_servers}"),
    ]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=800, check=False)
    return done.stdout + done.stderr
