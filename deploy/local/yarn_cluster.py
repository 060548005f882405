"""YARN on this machine: a resource manager, and node managers, which start containers; each daemon its own process.

They are Hadoop's own programs (deploy/local/hadoop_jars.py), of the release whose client PySpark brings. Containers have
sessions of their own, so they are found by their environment. All files are in one directory, which is removed.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Self
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen
from xml.sax.saxutils import escape

import psutil

from deploy.local import hadoop_jars
from deploy.local.cluster_daemon import ClusterDaemon, passed_on
from deploy.local.errors import NotInTime
from deploy.local.free_ports import free_port, give_back
from deploy.local.java import java_command
from deploy.local.java_process import QUICK
from deploy.local.spark_executor import Executor
from deploy.local.started import Started
from deploy.local.watchdog import watchdog
from mirror_connect.spark_jobs.jvm import MODULE_OPTIONS, class_path, spark_home

RESOURCE_MANAGER: Final = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
NODE_MANAGER: Final = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
APPLICATION_MASTER: Final = "org.apache.spark.deploy.yarn.ExecutorLauncher"
LOOPBACK: Final = "127.0.0.1"
HEAP: Final = "256m"
# Of a node: an application master and one executor of four slots have room in it, and no second executor.
NODE_MB: Final = 2_600
STARTS_S: Final = 180.0
POLL_S: Final = 0.2
# A container has this variable from its node manager, and so have all processes that it starts.
_OF_CONTAINERS: Final = "LOCAL_DIRS"
_ACTIVE_NODES: Final = "Hadoop:service=ResourceManager,name=ClusterMetrics"
# One queue for all, in which application masters may take what they need.
_QUEUE: Final = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1",
}


class YarnDaemon(ClusterDaemon):
    """A resource manager or a node manager, with its settings in its directory."""

    def __init__(self, name: str, main_class: str, directory: Path, settings: Mapping[str, str]) -> None:
        conf = directory / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        write_settings(conf / "core-site.xml", {"hadoop.tmp.dir": str(directory / "tmp")})
        write_settings(conf / "yarn-site.xml", settings)
        write_settings(conf / "capacity-scheduler.xml", _QUEUE)
        java = java_command()[0]
        environment = passed_on() | {
            "CLASSPATH": os.pathsep.join((str(conf), f"{hadoop_jars.ensure()}/*", class_path(spark_home()))),
            # Containers get it from here.
            "JAVA_HOME": str(Path(java).resolve().parents[1]),
            "TMPDIR": str(directory),
        }
        command = [
            *(java, f"-Xmx{HEAP}", *QUICK, *MODULE_OPTIONS),
            f"-Djava.io.tmpdir={directory}",
            f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}",
            main_class,
        ]
        super().__init__(name, command, directory, environment)


class NodeManager(YarnDaemon):
    """A node manager; `end_all` is what the loss of its host is."""

    def containers(self) -> list[psutil.Process]:
        """All processes of its containers that live, suspended or not."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(_OF_CONTAINERS, "").startswith(str(self.directory)):
                    found.append(process)
        return found

    def executors(self) -> list[Executor]:
        """The executors among them."""
        found = [Executor.of(self.name, process) for process in self._guarded()]
        return [each for each in found if each is not None]

    def application_masters(self) -> list[psutil.Process]:
        """The JVMs of application masters among them."""
        found = []
        for process in self._guarded():
            with contextlib.suppress(psutil.Error):
                if APPLICATION_MASTER in process.cmdline():
                    found.append(process)
        return found

    def _guarded(self) -> list[psutil.Process]:
        """The containers, whose sessions end with this process from now on."""
        found = self.containers()
        for process in found:
            with contextlib.suppress(ProcessLookupError):
                if os.getsid(process.pid) == process.pid:
                    watchdog().guard_session(process.pid)
        return found

    def _members(self) -> Iterator[psutil.Process]:
        # Its JVM first, which would start others in the place of containers that ended.
        yield from super()._members()
        yield from self.containers()


class YarnCluster(Started):
    """`nodes` node managers with `memory_mb` each. A context manager; at its end nothing of the cluster is left.

    `settings`: more of YARN's own for all daemons.
    """

    def __init__(self, nodes: int = 2, memory_mb: int = NODE_MB, settings: Mapping[str, str] | None = None) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="yarn-cluster-"))
        watchdog().guard_directory(str(self.directory))
        names = ("address", "scheduler.address", "resource-tracker.address", "admin.address", "webapp.address")
        self._ports = {name: free_port() for name in names}
        self._settings = {
            **{f"yarn.resourcemanager.{name}": f"{LOOPBACK}:{port}" for name, port in self._ports.items()},
            "yarn.resourcemanager.hostname": LOOPBACK,
            # Memory alone decides; a slot is no processor.
            "yarn.scheduler.minimum-allocation-mb": "1",
            "yarn.scheduler.maximum-allocation-mb": str(memory_mb),
            "yarn.scheduler.maximum-allocation-vcores": "512",
            "yarn.nodemanager.resource.memory-mb": str(memory_mb),
            "yarn.nodemanager.resource.cpu-vcores": "512",
            # A disk that other tests fill is no broken disk.
            "yarn.nodemanager.disk-health-checker.enable": "false",
            **{
                f"yarn.nodemanager.{name}": f"{LOOPBACK}:0"
                for name in ("address", "localizer.address", "webapp.address")
            },
            **(settings or {}),
        }
        self._nodes = nodes
        self._numbers = itertools.count(1)
        self._resource_manager: YarnDaemon | None = None
        self.node_managers: list[NodeManager] = []

    @property
    def properties(self) -> dict[str, str]:
        """What a worker of this product needs in its properties to use the cluster."""
        return {
            "spark.master": "yarn",
            # YARN's address, which settings of Hadoop have, is on this machine.
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.yarn.jars": f"local:{spark_home()}/jars/*",
            "spark.yarn.stagingDir": (self.directory / "staging").as_uri(),
        }

    @property
    def environment(self) -> dict[str, str]:
        """And in its environment."""
        return {"HADOOP_CONF_DIR": str(self.directory / "client")}

    @property
    def daemons(self) -> list[YarnDaemon]:
        """The resource manager, then the node managers."""
        return [*([self._resource_manager] if self._resource_manager else []), *self.node_managers]

    @property
    def executors(self) -> list[Executor]:
        """The living executors of all nodes, in the order of their ids."""
        found = [each for node in self.node_managers for each in node.executors()]
        return sorted(found, key=lambda each: (each.application, int(each.id)))

    @property
    def containers(self) -> list[psutil.Process]:
        """All living processes of containers."""
        return [process for node in self.node_managers for process in node.containers()]

    @property
    def application_masters(self) -> list[psutil.Process]:
        """The living application masters: one for each application."""
        return [process for node in self.node_managers for process in node.application_masters()]

    def start(self) -> Self:
        """Starts all daemons; returns when the resource manager knows all nodes."""
        client = self.directory / "client"
        client.mkdir()
        write_settings(client / "core-site.xml", {"hadoop.tmp.dir": str(client / "tmp")})
        write_settings(client / "yarn-site.xml", self._settings)
        self._resource_manager = YarnDaemon(
            "resource-manager", RESOURCE_MANAGER, self.directory / "resource-manager", self._settings
        )
        for _ in range(self._nodes):
            self.add_node()
        return self.wait_nodes(self._nodes)

    def add_node(self) -> NodeManager:
        """One more node; returns at once."""
        name = f"node-manager-{next(self._numbers)}"
        directory = self.directory / name
        own = {f"yarn.nodemanager.{each}-dirs": str(directory / each) for each in ("local", "log")}
        node = NodeManager(name, NODE_MANAGER, directory, {**self._settings, **own})
        self.node_managers.append(node)
        return node

    def remove_node(self, node: NodeManager) -> None:
        """Kills a node manager and its containers, as when its host is lost."""
        self.node_managers.remove(node)
        node.end_all()

    def wait_nodes(self, count: int, seconds: float = STARTS_S) -> Self:
        """Waits until the resource manager has so many living nodes."""
        until = time.monotonic() + seconds
        while (known := self.active_nodes()) != count:
            for daemon in self.daemons:
                if not daemon.alive:
                    raise daemon.failure()
            if time.monotonic() > until:
                raise NotInTime(f"after {seconds:g} s YARN has {known} of {count} nodes (logs: {self.directory})")
            time.sleep(POLL_S)
        return self

    def active_nodes(self) -> int:
        """What the resource manager says; -1 while it does not answer."""
        page = f"http://{LOOPBACK}:{self._ports['webapp.address']}/jmx?qry={quote(_ACTIVE_NODES)}"
        with contextlib.suppress(URLError, OSError, ValueError), urlopen(page, timeout=5) as answer:
            for bean in json.load(answer)["beans"]:
                return int(bean["NumActiveNMs"])
        return -1

    def close(self) -> None:
        """Ends everything and removes the files."""
        for daemon in reversed(self.daemons):
            daemon.end_all()
        self.node_managers.clear()
        self._resource_manager = None
        for port in self._ports.values():
            give_back(port)
        shutil.rmtree(self.directory, ignore_errors=True)
        watchdog().forget_directory(str(self.directory))


def write_settings(path: Path, settings: Mapping[str, str]) -> None:
    """A file of Hadoop's settings."""
    lines = [
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in settings.items()
    ]
    path.write_text("\n".join(("<configuration>", *lines, "</configuration>", "")))
