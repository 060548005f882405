"""Spark's executors as pods of a stand-in for Kubernetes: its API is answered here, and containers are processes.

What Spark asks for, and with which rights, is real, and so is all that an executor does. What a node does with an image is
not: the process has this checkout's Python and files, as a container of the worker's image has them.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import jsonschema_rs
import yaml

from deploy.docker.spark_executor import EXECUTOR, executor_command
from deploy.local.free_ports import free_port, give_back
from deploy.local.guarded_process import GuardedProcess
from deploy.local.spark_executor import Executor, session_of
from deploy.local.watchdog import watchdog
from tests.fakes.pods_api import Object, PodsApi
from tests.paths import FIXTURES, ROOT

KUBERNETES: Final = ROOT / "deploy" / "kubernetes"
LOOPBACK: Final = "127.0.0.1"
DRIVER_POD: Final = "mirror-connect-0"
PORTS: Final = ("spark.driver.port", "spark.driver.blockManager.port", "task.listener.port")
# What the image has as /opt/decom.sh, and the grace period of a pod that sets none.
HOOK: Final = ROOT / "deploy" / "docker" / "decommission.sh"
GRACE_S: Final = 30.0
# Directories of volumes, which a process without a root of its own has elsewhere.
_DIRECTORIES: Final = ("SPARK_LOCAL_DIRS",)
_IMAGE: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "JAVA_HOME")


class ContainerProcess(GuardedProcess):
    """The container of an executor's pod. It ends with this process, and all that it has started does."""

    def __init__(self, pod: Mapping[str, Any], directory: Path) -> None:
        directory.mkdir()
        self.pod_name = pod["metadata"]["name"]
        self.watched: threading.Thread | None = None
        (container,) = pod["spec"]["containers"]
        assert container["args"] == [EXECUTOR], container
        given = {each["name"]: _value(each, pod) for each in container["env"]}
        given |= {name: str(directory) for name in _DIRECTORIES if name in given}
        environment = {name: os.environ[name] for name in _IMAGE if name in os.environ} | given
        environment["TMPDIR"] = str(directory)
        self._environment = environment
        self._hook: list[str] = container["lifecycle"]["preStop"]["exec"]["command"]
        log = directory / "container.log"
        super().__init__(self.pod_name, executor_command(environment), log=log, environment=environment)
        watchdog().guard_session(self.pid)

    def executors(self) -> list[Executor]:
        """Its executor, while it lives."""
        found = [Executor.of(self.pod_name, process) for process in session_of(self.pid)]
        return [each for each in found if each is not None]

    def wait_ended(self) -> int:
        """Waits until it ends, however long that takes; its exit code."""
        return self._process.wait()

    def drain(self) -> bool:
        """Its hook, then SIGTERM, then kill -9 after its grace. Returns whether it has ended within the hook."""
        assert self._hook == ["/opt/decom.sh"], self._hook
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run([HOOK], env=self._environment, timeout=GRACE_S, check=True)
        ended = not self.alive
        self.stop(1.0)
        return ended

    def end_all(self) -> None:
        """kill -9 of all its processes."""
        for process in session_of(self.pid):
            if process.pid != self.pid:
                process.kill()
        self.kill()


class Pods:
    """A context manager; at its end no pod is left. `api`: what Spark has asked for.

    Rights, template and properties are those of deploy/kubernetes, with addresses and ports of this machine.
    """

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="pods-"))
        watchdog().guard_directory(str(self.directory))
        self._values = yaml.safe_load((KUBERNETES / "values-executors.yaml").read_text("utf-8"))["properties"]
        role = next(
            each
            for each in yaml.safe_load_all((KUBERNETES / "spark-executors.yaml").read_text("utf-8"))
            if each["kind"] == "Role"
        )
        self.namespace: str = self._values["spark.kubernetes.namespace"]
        self.api = PodsApi(self.namespace, role["rules"], schema_faults)
        self.api.created, self.api.deleted = self._start, self._end
        self._ports = {name: free_port() for name in PORTS}
        self._containers: dict[str, ContainerProcess] = {}

    def __enter__(self) -> Self:
        self.api.__enter__()
        self.driver = self.api.add("pods", {"metadata": {"name": DRIVER_POD}, "spec": {"containers": []}})
        ready = {"phase": "Running", "podIP": LOOPBACK, "conditions": [{"type": "Ready", "status": "True"}]}
        self.api.change("pods", DRIVER_POD, {"status": ready})
        return self

    def __exit__(self, *_: object) -> None:
        for each in list(self._containers.values()):
            each.end_all()
        self.api.__exit__()
        for port in self._ports.values():
            give_back(port)
        shutil.rmtree(self.directory, ignore_errors=True)
        watchdog().forget_directory(str(self.directory))

    @property
    def properties(self) -> dict[str, str]:
        """What a worker of this product needs in its properties to use the cluster."""
        return {
            **{name: value for name, value in self._values.items() if not name.startswith("config.providers")},
            "spark.master": f"k8s://{self.api.url}",
            "spark.kubernetes.executor.podTemplateFile": str(KUBERNETES / "spark-executor-pod.yaml"),
            "spark.kubernetes.driver.pod.name": DRIVER_POD,
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            **{name: str(port) for name, port in self._ports.items()},
        }

    @property
    def executors(self) -> list[Executor]:
        """The living executors of all pods, in the order of their ids."""
        found = [each for container in list(self._containers.values()) for each in container.executors()]
        return sorted(found, key=lambda each: (each.application, int(each.id)))

    def asked(self) -> list[Object]:
        """The executors' pods that are there."""
        return [each for each in self.api.all("pods") if each["metadata"]["name"] != DRIVER_POD]

    def drain(self, executor: Executor) -> bool:
        """Ends a pod as Kubernetes does when its node is drained. Returns whether it was ready for that in time."""
        ended = self._containers[executor.worker].drain()
        self.api.remove("pods", executor.worker)
        return ended

    def _start(self, pod: Object) -> None:
        name = pod["metadata"]["name"]
        container = self._containers[name] = ContainerProcess(pod, self.directory / name)
        status = {"phase": "Running", "podIP": LOOPBACK, "containerStatuses": [_container_status(pod, {"running": {}})]}
        self.api.change("pods", name, {"status": status})
        container.watched = threading.Thread(target=self._watch, args=(pod, container), daemon=True)
        container.watched.start()

    def _watch(self, pod: Object, container: ContainerProcess) -> None:
        code = container.wait_ended()
        phase = "Succeeded" if code == 0 else "Failed"
        ended = _container_status(pod, {"terminated": {"exitCode": code if code >= 0 else 128 - code}})
        self.api.change("pods", container.pod_name, {"status": {"phase": phase, "containerStatuses": [ended]}})

    def _end(self, pod: Object) -> None:
        container = self._containers.pop(pod["metadata"]["name"], None)
        if container is not None:
            container.end_all()


def schema_faults(plural: str, each: Object) -> Sequence[str]:
    """What Kubernetes' schemas find in a pod or a ConfigMap."""
    bundle = json.loads((FIXTURES / "schemas" / "kubernetes-1.37.json").read_text("utf-8"))
    named = {"apiVersion": "v1", "kind": {"pods": "Pod", "configmaps": "ConfigMap"}[plural]}
    if any(each.get(name) != value for name, value in named.items()):
        return [f"it is not {named}"]
    if plural == "pods":
        checked = {name: value for name, value in each.items() if name in ("metadata", "spec")}
        kind = {"$ref": "#/$defs/io.k8s.api.core.v1.PodTemplateSpec"}
    else:
        checked, kind = each, bundle["kinds"]["ConfigMap"]
    whole = {"$schema": bundle["$schema"], "$defs": bundle["$defs"], **kind}
    return [error.message for error in jsonschema_rs.validator_for(whole).iter_errors(checked)]


def _container_status(pod: Object, state: Object) -> Object:
    container = pod["spec"]["containers"][0]
    return {"name": container["name"], "image": container["image"], "ready": "running" in state, "state": state}


def _value(variable: Mapping[str, Any], pod: Mapping[str, Any]) -> str:
    source = variable.get("valueFrom")
    if source is None:
        return str(variable.get("value") or "")
    fields: dict[str, str] = {"status.podIP": LOOPBACK, "metadata.name": pod["metadata"]["name"]}
    return fields[source["fieldRef"]["fieldPath"]]
