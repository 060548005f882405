"""What the driver tells while there is no executor. With a real master: tests/spark/test_executors_of_a_cluster.py."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from mirror_connect.spark_jobs.missing_executor import ASKED_EVERY_S, MissingExecutor
from tests.waiting import wait_for_state


class Driver:
    """A driver on a cluster. `masters`: cores and memory of each one's workers; one that is missing does not answer.

    `page`: the port of their page. By default nobody answers there.
    """

    def __init__(self, master: str, **settings: str) -> None:
        self.now = 100.0
        self.masters: dict[str, list[tuple[int, int]]] = {}
        self.asked: list[str] = []
        self.page = 9
        spark = SimpleNamespace(
            deploy=SimpleNamespace(
                master=SimpleNamespace(
                    **{"MasterMessages$BoundPortsRequest$": SimpleNamespace(**{"MODULE$": "ports?"})}
                ),
                **{"DeployMessages$RequestMasterState$": SimpleNamespace(**{"MODULE$": "state?"})},
            ),
            rpc=SimpleNamespace(RpcAddress=SimpleNamespace(fromSparkURL=lambda url: url.removeprefix("spark://"))),
            SparkEnv=SimpleNamespace(
                get=lambda: SimpleNamespace(rpcEnv=lambda: SimpleNamespace(setupEndpointRef=self._reference))
            ),
        )
        tags = SimpleNamespace(**{"ClassTag$": SimpleNamespace(**{"MODULE$": SimpleNamespace(Any=lambda: "any")})})
        jvm = SimpleNamespace(
            org=SimpleNamespace(apache=SimpleNamespace(spark=spark)), scala=SimpleNamespace(reflect=tags)
        )
        chosen = {name.replace("_", "."): value for name, value in settings.items()}
        session: Any = SimpleNamespace(
            sparkContext=SimpleNamespace(_jvm=jvm, master=master, getConf=lambda: SimpleNamespace(get=chosen.get))
        )
        self.missing = MissingExecutor(session, lambda: self.now)

    def _reference(self, master: str, name: str) -> Any:
        assert name == "Master"
        self.asked.append(master)
        there = self.masters[master]
        workers = [SimpleNamespace(cores=lambda each=each: each[0], memory=lambda each=each: each[1]) for each in there]
        answers = {
            "ports?": SimpleNamespace(webUIPort=lambda: self.page),
            "state?": SimpleNamespace(workers=lambda: workers),
        }
        return SimpleNamespace(askSync=lambda question, tag: answers[question])

    def answer(self) -> Any:
        """What is told when the masters have answered."""
        self.missing.told()
        wait_for_state(lambda: not self.missing._asking or not self.missing._asking.is_alive(), "they have answered")
        return self.missing.told()["workers"]


def test_it_tells_its_size_and_what_spark_workers_have() -> None:
    driver = Driver("spark://m:7077", spark_executor_cores="64", spark_executor_memory="512m")
    driver.masters["m:7077"] = [(4, 2048), (8, 1024)]
    assert driver.answer() == [(4, 2048), (8, 1024)]
    assert driver.missing.told() == {"cores": "64", "memory": "512m", "workers": [(4, 2048), (8, 1024)]}
    assert set(driver.asked) == {"m:7077"}
    driver.now += ASKED_EVERY_S
    driver.masters["m:7077"] = []
    assert driver.answer() == []


@pytest.fixture
def page() -> Iterator[dict[str, Any]]:
    """What a master's page on this machine answers; its `port` beside it."""
    told: dict[str, Any] = {}

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/json/"
            self.send_response(200)
            self.end_headers()
            self.wfile.write(told["body"])

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
            pass

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        serving.start()
        told["port"] = server.server_port
        yield told
        server.shutdown()
        serving.join(10)


@pytest.mark.parametrize("state", ["DEAD", "UNKNOWN", "DECOMMISSIONED"])
def test_a_spark_worker_that_gets_no_executor_is_not_counted(page: dict[str, Any], state: str) -> None:
    driver = Driver("spark://127.0.0.1:7077")
    # Over the driver's connection it looks as the others do.
    driver.masters["127.0.0.1:7077"] = [(4, 2048), (8, 1024)]
    driver.page = page["port"]
    living, other = {"cores": 4, "memory": 2048, "state": "ALIVE"}, {"cores": 8, "memory": 1024, "state": state}
    page["body"] = json.dumps({"workers": [living, other]}).encode()
    assert driver.answer() == [(4, 2048)]
    page["body"] = json.dumps({"workers": [other]}).encode()
    driver.now += ASKED_EVERY_S
    assert driver.answer() == []


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"workers": [{}]}', b'{"workers": null}', b"[]"])
def test_a_page_of_another_kind_is_not_believed(page: dict[str, Any], body: bytes) -> None:
    driver = Driver("spark://127.0.0.1:7077")
    driver.masters["127.0.0.1:7077"] = [(4, 2048)]
    driver.page, page["body"] = page["port"], body
    assert driver.answer() == [(4, 2048)]


def test_of_several_masters_those_count_that_answer() -> None:
    driver = Driver("spark://a:7077,b:7077,c:7077")
    driver.masters |= {"b:7077": [], "c:7077": [(2, 512)]}
    assert driver.answer() == [(2, 512)]
    driver.masters.clear()
    driver.now += ASKED_EVERY_S
    assert driver.answer() is None


@pytest.mark.parametrize("master", ["yarn", "k8s://https://m:6443", "local-cluster[1,1,1]"])
def test_no_other_kind_of_master_is_asked(master: str) -> None:
    driver = Driver(master, spark_executor_memory="512m")
    assert driver.answer() is None
    assert driver.asked == []
