"""A standalone Spark cluster on this machine: a master, and Spark workers, which start executors; each its own process.

They run from the jars of PySpark's package. What they start is in their own sessions, so that all of it can be ended.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import secrets
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self
from urllib.error import URLError
from urllib.request import urlopen

from deploy.local.cluster_daemon import ClusterDaemon, passed_on
from deploy.local.errors import NotInTime
from deploy.local.free_ports import free_port, give_back
from deploy.local.java import java_command
from deploy.local.java_process import QUICK
from deploy.local.spark_executor import Executor, session_of
from deploy.local.started import Started
from deploy.local.watchdog import watchdog
from mirror_connect.spark_jobs.jvm import MODULE_OPTIONS, class_path, spark_home

MASTER: Final = "org.apache.spark.deploy.master.Master"
WORKER: Final = "org.apache.spark.deploy.worker.Worker"
LOOPBACK: Final = "127.0.0.1"
HEAP: Final = "128m"
# What a worker may give to executors, by Spark's own count; nothing is allocated for it.
MEMORY: Final = "64g"
STARTS_S: Final = 360.0
POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Place:
    """Where a daemon runs: the directory of its files, its address, and what is called to enter its namespaces.

    `enter`: gets the command of Java as further arguments. `seen_as`, `spark_home`: its directory and PySpark's as the
    daemon sees them, if it has another root.
    """

    directory: Path
    host: str = LOOPBACK
    enter: Sequence[str] = ()
    seen_as: Path | None = None
    spark_home: Path = field(default_factory=spark_home)
    environment: Mapping[str, str] = field(default_factory=dict)


class SparkDaemon(ClusterDaemon):
    """A master or a Spark worker."""

    def __init__(
        self, name: str, main_class: str, arguments: Sequence[str], properties: Mapping[str, str], place: Place
    ) -> None:
        place.directory.mkdir(parents=True, exist_ok=True)
        seen = place.seen_as or place.directory
        # In a file, because everybody can read arguments.
        file = place.directory / "spark.properties"
        file.touch(0o600)
        file.write_text("".join(f"{key} {value}\n" for key, value in properties.items()))
        environment = passed_on() | {
            "CLASSPATH": class_path(spark_home()).replace(str(spark_home()), str(place.spark_home)),
            "SPARK_HOME": str(place.spark_home),
            "SPARK_LOCAL_IP": place.host,
            "SPARK_LOCAL_DIRS": str(seen),
            "SPARK_SCALA_VERSION": "2.13",
            "TMPDIR": str(seen),
            **place.environment,
        }
        command = [
            *place.enter,
            *java_command(),
            f"-Xmx{HEAP}",
            *QUICK,
            f"-Djava.io.tmpdir={seen}",
            *MODULE_OPTIONS,
            main_class,
            *("--host", place.host, "--properties-file", f"{seen}/spark.properties"),
            *arguments,
        ]
        super().__init__(name, command, place.directory, environment)


class SparkWorker(SparkDaemon):
    """A Spark worker with its slots (which Spark calls cores)."""

    def __init__(self, name: str, master_url: str, slots: int, properties: Mapping[str, str], place: Place) -> None:
        self.slots = slots
        work = (place.seen_as or place.directory) / "work"
        arguments = [
            *("--cores", str(slots), "--memory", MEMORY, "--work-dir", str(work)),
            *("--port", "0", "--webui-port", "0", master_url),
        ]
        super().__init__(name, WORKER, arguments, properties, place)

    def executors(self) -> list[Executor]:
        """The executors that it has started and that live, suspended or not."""
        found = [Executor.of(self.name, process) for process in session_of(self.pid)]
        return [each for each in found if each is not None]

    def log_of(self, executor: Executor) -> str:
        """What an executor, its daemon and its tasks have written to their standard error."""
        file = self.directory / "work" / executor.application / executor.id / "stderr"
        return file.read_text(errors="replace") if file.exists() else ""


class SparkCluster(Started):
    """`workers` Spark workers of `slots` slots each. A context manager; at its end nothing of the cluster is left.

    `secret`: what spark.authenticate.secret of an application has to be; made up if it is not given. Empty: Spark asks for
    none. `daemon_properties`: more of Spark's for master and workers.
    """

    def __init__(
        self,
        workers: int = 2,
        slots: int = 4,
        *,
        secret: str | None = None,
        daemon_properties: Mapping[str, str] = MappingProxyType({}),
        host: str = LOOPBACK,
    ) -> None:
        self.host = host
        self.directory = Path(tempfile.mkdtemp(prefix="spark-cluster-"))
        watchdog().guard_directory(str(self.directory))
        # An application whose executors are killed again and again goes on.
        self._daemon_properties = {
            "spark.deploy.maxExecutorRetries": "-1",
            # The server for submissions asks for no secret.
            "spark.master.rest.enabled": "false",
            **daemon_properties,
        }
        self._secret = secrets.token_urlsafe(24) if secret is None else secret
        if self._secret:
            self._daemon_properties |= {
                "spark.authenticate": "true",
                "spark.authenticate.secret": self._secret,
                "spark.network.crypto.enabled": "true",
            }
        self._first = [slots] * workers
        self._numbers = itertools.count(1)
        self._port, self._page = free_port(host), free_port(host)
        self._master: SparkDaemon | None = None
        self.workers: list[SparkWorker] = []

    @property
    def master_url(self) -> str:
        """For spark.master."""
        return f"spark://{self.host}:{self._port}"

    @property
    def page_url(self) -> str:
        """Where the master tells its workers and applications, as JSON."""
        return f"http://{self.host}:{self._page}/json/"

    @property
    def properties(self) -> dict[str, str]:
        """What a worker of this product needs in its properties to use the cluster."""
        access = {"spark.authenticate.secret": self._secret} if self._secret else {"spark.authenticate": "false"}
        return {"spark.master": self.master_url, **access}

    @property
    def master(self) -> SparkDaemon:
        """The master's process."""
        assert self._master is not None, "the Spark cluster was not started"
        return self._master

    @property
    def executors(self) -> list[Executor]:
        """The living executors of all workers, in the order of their ids."""
        found = [each for worker in self.workers for each in worker.executors()]
        return sorted(found, key=lambda each: (each.application, int(each.id)))

    def start(self) -> Self:
        """Starts the master, then the workers; returns when all of them are known to the master."""
        arguments = ["--port", str(self._port), "--webui-port", str(self._page)]
        place = Place(self.directory / "master", self.host)
        self._master = SparkDaemon("spark-master", MASTER, arguments, self._daemon_properties, place)
        for slots in self._first:
            self.add_worker(slots)
        return self.wait_workers(len(self._first))

    def add_worker(self, slots: int, place: Place | None = None) -> SparkWorker:
        """One more worker; returns at once."""
        name = f"spark-worker-{next(self._numbers)}"
        where = place or Place(self.directory / name, self.host)
        worker = SparkWorker(name, self.master_url, slots, self._daemon_properties, where)
        self.workers.append(worker)
        return worker

    def remove_worker(self, worker: SparkWorker) -> None:
        """Kills a worker with all of its executors, as when its host is lost."""
        self.workers.remove(worker)
        worker.end_all()

    def wait_workers(self, count: int, seconds: float = STARTS_S) -> Self:
        """Waits until the master knows so many living workers."""
        until = time.monotonic() + seconds
        while (known := self.state().get("aliveworkers", 0)) != count:
            for daemon in (self.master, *self.workers):
                if not daemon.alive:
                    raise daemon.failure()
            if time.monotonic() > until:
                raise NotInTime(f"after {seconds:g} s {self.master_url} has {known} of {count} workers")
            time.sleep(POLL_S)
        return self

    def wait_executors(self, count: int, seconds: float = STARTS_S) -> list[Executor]:
        """Waits for so many living executors, and returns them."""
        until = time.monotonic() + seconds
        while len(found := self.executors) != count:
            if time.monotonic() > until:
                raise NotInTime(f"after {seconds:g} s {self.master_url} has {len(found)} of {count} executors")
            time.sleep(POLL_S)
        return found

    def worker_of(self, executor: Executor) -> SparkWorker:
        """The worker that started an executor."""
        return next(worker for worker in self.workers if worker.name == executor.worker)

    def state(self) -> dict[str, Any]:
        """What the master's page has: workers, cores, activeapps …; empty while it does not answer."""
        with (
            # A page that is not there yet may be empty.
            contextlib.suppress(URLError, OSError, ValueError),
            urlopen(self.page_url, timeout=5) as page,
        ):
            return dict(json.load(page))
        return {}

    def close(self) -> None:
        """Ends everything and removes the files."""
        for daemon in (*self.workers, *([self._master] if self._master else [])):
            daemon.end_all()
        self.workers.clear()
        self._master = None
        for port in (self._port, self._page):
            give_back(port)
        shutil.rmtree(self.directory, ignore_errors=True)
        watchdog().forget_directory(str(self.directory))
