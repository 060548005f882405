"""Which objects in Kubernetes a driver deletes, and how long its end waits. With Spark: tests/e2e/test_kubernetes.py."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from mirror_connect.spark_jobs import kubernetes_objects
from mirror_connect.spark_jobs.kubernetes_objects import STOP_S, are_made, ending, remove_those_of_former_drivers


class Objects:
    """A kind of objects as fabric8's client selects them. Each: name, application, the pod that owns it, role."""

    def __init__(self, all_: list[tuple[str, str, str, str]]) -> None:
        self.all = all_

    def inNamespace(self, name: str) -> Objects:  # noqa: N802 - Java's names
        assert name == "kafka"
        return self

    def withLabel(self, name: str, value: str) -> Objects:  # noqa: N802
        assert name == "spark-role"
        return Objects([each for each in self.all if each[3] == value])

    def withoutLabel(self, name: str, value: str) -> Objects:  # noqa: N802
        assert name == "spark-app-selector"
        return Objects([each for each in self.all if each[1] != value])

    def withName(self, name: str) -> Any:  # noqa: N802
        def delete() -> None:
            self.all[:] = [each for each in self.all if each[0] != name]

        return SimpleNamespace(delete=delete)

    def list(self) -> Any:
        found = [SimpleNamespace(getMetadata=lambda each=each: _metadata(each)) for each in self.all]
        return SimpleNamespace(getItems=lambda: found)


def _metadata(each: tuple[str, str, str, str]) -> Any:
    owners = [SimpleNamespace(getName=lambda: each[2])] if each[2] else []
    return SimpleNamespace(getName=lambda: each[0], getOwnerReferences=lambda: owners)


def session(backend: Any, master: str = "k8s://https://h:6443", pod: str = "worker-0") -> Any:
    settings = {"spark.kubernetes.namespace": "kafka", **({kubernetes_objects.DRIVER_POD: pod} if pod else {})}
    java = SimpleNamespace(schedulerBackend=lambda: backend)
    return SimpleNamespace(
        sparkContext=SimpleNamespace(
            master=master,
            applicationId="now",
            getConf=lambda: SimpleNamespace(get=settings.get),
            _jsc=SimpleNamespace(sc=lambda: java),
        )
    )


def client_of(pods: Objects, maps: Objects) -> Any:
    return SimpleNamespace(
        kubernetesClient=lambda: SimpleNamespace(pods=lambda: pods, configMaps=lambda: maps),
    )


def test_what_other_applications_of_the_same_pod_have_left_is_deleted() -> None:
    pods = Objects(
        [
            ("ended", "before", "worker-0", "executor"),
            ("mine", "now", "worker-0", "executor"),
            ("of-another-worker", "other", "worker-1", "executor"),
            ("of-nobody", "x", "", "executor"),
            ("a-driver", "before", "worker-0", "driver"),
        ]
    )
    maps = Objects([("map", "before", "worker-0", "executor"), ("my-map", "now", "worker-0", "executor")])
    assert remove_those_of_former_drivers(session(client_of(pods, maps))) == 2
    assert [each[0] for each in pods.all] == ["mine", "of-another-worker", "of-nobody", "a-driver"]
    assert [each[0] for each in maps.all] == ["my-map"]


def test_without_the_name_of_the_drivers_pod_nothing_is_deleted() -> None:
    pods = Objects([("ended", "before", "", "executor")])
    assert remove_those_of_former_drivers(session(client_of(pods, Objects([])), pod="")) == 0
    assert len(pods.all) == 1


@pytest.mark.parametrize(
    ("master", "made"),
    [("k8s://https://h:6443", True), ("yarn", False), ("spark://h:7077", False), ("local[4]", False)],
)
def test_only_a_driver_that_asks_kubernetes_makes_any(master: str, made: bool) -> None:
    assert are_made(session(None, master)) is made


def test_the_end_waits_for_spark_and_not_for_ever() -> None:
    stopped, stuck = threading.Event(), threading.Event()
    ending(session(SimpleNamespace(stop=stopped.set)))()
    assert stopped.is_set()
    began = time.monotonic()
    ending(session(SimpleNamespace(stop=lambda: stuck.wait(60))))()
    assert time.monotonic() - began >= STOP_S
    assert not stuck.is_set()
    stuck.set()


def test_a_jvm_that_is_gone_does_not_keep_the_end() -> None:
    def gone() -> None:
        raise OSError("the JVM is gone")

    ending(session(SimpleNamespace(stop=gone)))()
