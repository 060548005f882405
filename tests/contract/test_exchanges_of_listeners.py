"""The recorded exchanges about listeners, CORS and configured headers: two workers set up as the recorder's profiles say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from deploy.local import LocalCluster, free_port
from tests.contract.test_exchanges import REPLAY
from tests.e2e.product import Product

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

HERE: Final = Path(__file__).parent
EXCHANGES: Final = json.loads((HERE / "rest.json").read_text("utf-8"))
HTTP: Final = {
    "access.control.allow.origin": "https://ui.example.org",
    "access.control.allow.methods": "GET,POST,PUT,DELETE",
    "response.http.headers.config": (
        'add X-Demo: one, set X-Frame-Options: DENY, "add Cache-Control: no-cache, no-store"'
    ),
}


def replayed(worker: Product, profiles: str, *arguments: str) -> str:
    """What the replayer says of those that differ, and how many there were."""
    command = [
        *(sys.executable, "-c", REPLAY, "replay", "--lenient"),
        *("--url", str(worker.rest.base_url), "--profiles", profiles, *arguments),
    ]
    return subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=800, check=False).stdout


def all_of(*profiles: str) -> str:
    return f"{sum(each.get('profile') in profiles for each in EXCHANGES)} passed, 0 failed\n"


def test_listeners_of_admin_cors_and_headers_are_those_of_kafka_connect(target_cluster: LocalCluster) -> None:
    admin = f"http://127.0.0.1:{free_port()}"
    with Product(target_cluster, group="exchanges-http", properties={**HTTP, "admin.listeners": admin}) as worker:
        said = replayed(worker, "http,admin", "--admin-url", admin)
        assert said == all_of("http", "admin"), said + worker.log_tail()


# A start of a worker for a few exchanges.
@pytest.mark.long
def test_a_worker_without_admin_and_topic_tracking_answers_as_kafka_connect(target_cluster: LocalCluster) -> None:
    properties = {"admin.listeners": "", "topic.tracking.enable": "false"}
    with Product(target_cluster, group="exchanges-noadmin", properties=properties) as worker:
        said = replayed(worker, "noadmin")
        assert said == all_of("noadmin"), said + worker.log_tail()
