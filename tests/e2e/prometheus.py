"""A real Prometheus that scrapes a worker every second, with the alerts of deploy/prometheus."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

import httpx
import yaml

from deploy.local import free_port
from deploy.local.free_ports import give_back
from deploy.local.watchdog import watchdog
from tests.paths import ROOT
from tests.waiting import wait_for_state

RULES: Final = ROOT / "deploy" / "prometheus" / "mirror-connect.rules.yml"
# As Strimzi's PodMonitor takes them from a pod.
OF_THE_POD: Final = {
    "strimzi_io_kind": "KafkaMirrorMaker2",
    "strimzi_io_cluster": "mm2",
    "namespace": "default",
    "kubernetes_pod_name": "mm2-0",
    "pod": "mm2-0",
}


class Prometheus:
    """See the module. `address`: host:port of what is scraped. The alerts wait for a second at most."""

    def __init__(self, address: str) -> None:
        self._port = free_port()
        self._directory = Path(tempfile.mkdtemp(prefix="prometheus-"))
        watchdog().guard_directory(str(self._directory))
        rules = re.sub(r"for: \w+", "for: 1s", RULES.read_text("utf-8"))
        (self._directory / "rules.yml").write_text(rules, "utf-8")
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yml"],
            "scrape_configs": [
                {"job_name": "mirror-connect", "static_configs": [{"targets": [address], "labels": OF_THE_POD}]}
            ],
        }
        (self._directory / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{self._port}", timeout=30)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        command = [
            "prometheus",
            f"--config.file={self._directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
            "--log.level=warn",
        ]
        with (self._directory / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        watchdog().guard_process(self._process.pid)
        try:
            wait_for_state(self._scraped, "Prometheus has scraped twice")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends it."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            watchdog().forget_process(self._process.pid)
        self._http.close()
        shutil.rmtree(self._directory, ignore_errors=True)
        watchdog().forget_directory(str(self._directory))
        give_back(self._port)

    @property
    def url(self) -> str:
        """Where it answers."""
        return str(self._http.base_url)

    def query(self, expression: str) -> list[Mapping[str, Any]]:
        """The instant vector of an expression."""
        answer = self._http.get("/api/v1/query", params={"query": expression}).json()
        assert answer["status"] == "success", f"{expression}: {answer}"
        found: list[Mapping[str, Any]] = answer["data"]["result"]
        return found

    def firing(self, alert: str) -> list[Mapping[str, Any]]:
        """The labels of an alert that fires."""
        return [each["metric"] for each in self.query(f'ALERTS{{alertname="{alert}",alertstate="firing"}}')]

    def _scraped(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._directory / "log").read_text("utf-8")[-2000:]
        try:
            return bool(self.query("count_over_time(mirror_connect_build_info[1m]) >= 2"))
        except (httpx.HTTPError, ValueError):
            return False  # while it starts, it answers in words
