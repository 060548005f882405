"""What the driver tells while there is no executor. With a real master: tests/spark/test_executors_of_a_cluster.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mirror_connect.spark_jobs.missing_executor import ASKED_EVERY_S, MissingExecutor
from tests.waiting import wait_for_state


class Driver:
    """A driver on a cluster. `masters`: cores and memory of each one's workers; one that is missing does not answer."""

    def __init__(self, master: str, **settings: str) -> None:
        self.now = 100.0
        self.masters: dict[str, list[tuple[int, int]]] = {}
        self.asked: list[str] = []
        spark = SimpleNamespace(
            deploy=SimpleNamespace(**{"DeployMessages$RequestMasterState$": SimpleNamespace(**{"MODULE$": "state?"})}),
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
        return SimpleNamespace(askSync=lambda question, tag: SimpleNamespace(workers=lambda: workers))

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
    assert driver.asked == ["m:7077"]
    driver.now += ASKED_EVERY_S
    driver.masters["m:7077"] = []
    assert driver.answer() == []


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
