"""Exchanges with a worker that has exactly-once on, recorded from Kafka's (ORIGIN.md)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from deploy.local import LocalCluster
from tests.contract.record_exactly_once import ENABLED
from tests.contract.test_exchanges import have_spark_started
from tests.contract.test_exchanges_standalone import replayed
from tests.e2e.product import Product

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

HERE: Final = Path(__file__).parent
# Kafka's worker never ends these two, and what it then shows is still there.
NEVER_ENDED: Final = ("e-own-reset", "e-own-none", "e-own-reset-again")
# test_exactly_once_validations.py has them without a worker.
WITHOUT_A_WORKER: Final = "validate"
EXCHANGES: Final = [
    each
    for each in json.loads((HERE / "rest-exactly-once.json").read_text("utf-8"))
    if each["id"] not in NEVER_ENDED and each["group"] != WITHOUT_A_WORKER
]


@pytest.mark.long
def test_answers_are_those_of_kafkas_worker_with_exactly_once(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    prepare = [sys.executable, HERE / "record_rest.py", "prepare", "--bootstrap", source_cluster.bootstrap_servers]
    subprocess.run(prepare, check=False, timeout=120)
    with Product(target_cluster, group="exactly", properties=ENABLED) as worker:
        have_spark_started(worker)
        said = replayed(worker, source_cluster, EXCHANGES, tmp_path)
        assert said == f"{len(EXCHANGES)} passed, 0 failed\n", said + worker.log_tail(100)
