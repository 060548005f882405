"""Apache's Kafka Connect worker and dedicated MirrorMaker 2, which this product is compared with."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from deploy.local.broker_config import HOST, write_properties
from deploy.local.cluster import LocalCluster
from deploy.local.errors import LocalError, NotInTime
from deploy.local.free_ports import free_port, give_back
from deploy.local.java_process import CONNECT, JavaProcess
from deploy.local.kafka_jars import KAFKA_VERSION
from deploy.local.watchdog import watchdog

# The defaults of kafka-run-class.sh, for measurements: a comparison with a slowed-down Java would prove nothing.
KAFKA_JVM: Final = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"


class _Program:
    """One of Kafka's Java programs that reads a properties file; a context manager."""

    main_class: str

    def __init__(
        self,
        name: str,
        properties: Mapping[str, str],
        *,
        heap: str = "2g",
        options: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
        version: str = KAFKA_VERSION,
    ) -> None:
        self.name = name
        self.properties = dict(properties)
        self.directory = Path(tempfile.mkdtemp(prefix=f"connect-{name}-"))
        watchdog().guard_directory(str(self.directory))
        self.log = self.directory / "program.log"
        self._heap = heap
        self._options = options
        self._environment = dict(environment or {})
        self._version = version
        self._process: JavaProcess | None = None

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def process(self) -> JavaProcess:
        """The process handle: pid, stop, kill, suspend, resume, cpu_seconds of the whole tree."""
        if self._process is None:
            raise LocalError(f"{self.name} was not started")
        return self._process

    def files(self) -> list[str]:
        """What stands behind the properties file on the command line."""
        return []

    def start(self, seconds: float = 270.0) -> Self:
        """Start it with the properties as they are now, and wait until it is ready."""
        path = write_properties(self.directory / "program.properties", self.properties)
        self._process = JavaProcess(
            self.name,
            self.main_class,
            [str(path), *self.files()],
            log=self.log,
            heap=self._heap,
            options=self._options,
            environment=self._environment,
            version=self._version,
        )
        self._wait_ready(seconds)
        return self

    def stop(self, seconds: float = 90.0) -> int:
        """SIGTERM, kill -9 if it has not ended after `seconds`; the exit code."""
        return self.process.stop(seconds)

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()

    def cpu_seconds(self) -> float:
        """CPU time of the whole process tree so far."""
        return self.process.cpu_seconds()

    def close(self) -> None:
        """End it and remove its files."""
        if self._process is not None and self._process.alive:
            self._process.stop(10)
        shutil.rmtree(self.directory, ignore_errors=True)
        watchdog().forget_directory(str(self.directory))

    def _wait_ready(self, seconds: float) -> None:
        """Return when it can be used."""


class _Worker(_Program):
    """A Connect worker on a cluster; `needed`: beside the cluster's login, what it needs to start."""

    # What answers 200 once it can be used: it needs the group and the config topic, the root does not.
    ready_path: str

    def __init__(
        self,
        name: str,
        cluster: LocalCluster,
        needed: Mapping[str, str],
        properties: Mapping[str, str] | None,
        *,
        heap: str,
        options: Sequence[str] | None,
        environment: Mapping[str, str] | None,
    ) -> None:
        self._port = free_port()
        self.rest_url = f"http://{HOST}:{self._port}"
        login = {**cluster.client_properties()}
        usual = {
            **login,
            # The logins of connectors' producers and consumers are separate settings from the worker's login.
            **{f"{who}.{name}": value for who in ("producer", "consumer", "admin") for name, value in login.items()},
            "key.converter": BYTES,
            "value.converter": BYTES,
            "listeners": self.rest_url,
            # Reading every class of the class path for plugins would take seconds at each start.
            "plugin.discovery": "service_load",
        }
        super().__init__(
            name,
            usual | dict(needed) | dict(properties or {}),
            heap=heap,
            options=options,
            environment=environment,
            version=cluster.version,
        )

    def request(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Status and parsed body (None if empty, text if no JSON) of a REST call, whatever the status is."""
        data = None if body is None else json.dumps(body).encode()
        call = urllib.request.Request(
            self.rest_url + path, data=data, method=method, headers={"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(call, timeout=100) as reply:
                status, text = reply.status, reply.read()
        except urllib.error.HTTPError as error:
            with error:
                status, text = error.code, error.read()
        # While it starts, Jetty answers for it: in HTML.
        return status, json.loads(text) if text[:1] in (b"{", b"[", b'"') else text.decode(errors="replace") or None

    def wait_running(self, connector: str, tasks: int = 1, seconds: float = 180.0) -> None:
        """Return when `connector` and at least `tasks` of its tasks are RUNNING; LocalError with the state if not."""
        until = time.monotonic() + seconds
        state: Any = None
        while time.monotonic() < until:
            status, state = self.request("GET", f"/connectors/{connector}/status")
            if status == 200:
                states = [state["connector"]["state"], *(task["state"] for task in state["tasks"])]
                if len(states) > tasks and set(states) == {"RUNNING"}:
                    return
            time.sleep(0.2)
        raise NotInTime(f"connector {connector} is not running after {seconds:g} s: {state}")

    def close(self) -> None:
        """Ends it, removes its files and gives its port back."""
        super().close()
        give_back(self._port)

    def _wait_ready(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while True:
            try:
                if self.request("GET", self.ready_path)[0] == 200:
                    return
            except OSError:
                pass
            if not self.process.alive:
                raise self.process.failure()
            if time.monotonic() > until:
                raise NotInTime(f"{self.name} does not answer at {self.rest_url} after {seconds:g} s")
            time.sleep(0.1)


class ConnectWorker(_Worker):
    """`ConnectDistributed` on a cluster. `properties` override the ones that it needs to start."""

    main_class = CONNECT
    ready_path = "/connectors"

    def __init__(
        self,
        cluster: LocalCluster,
        properties: Mapping[str, str] | None = None,
        *,
        group: str = "connect",
        heap: str = "2g",
        options: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        needed = {
            "group.id": group,
            "config.storage.topic": f"{group}-configs",
            "offset.storage.topic": f"{group}-offsets",
            "status.storage.topic": f"{group}-status",
            "config.storage.replication.factor": "1",
            "offset.storage.replication.factor": "1",
            "status.storage.replication.factor": "1",
            "offset.storage.partitions": "5",
            "status.storage.partitions": "1",
        }
        name = f"{group} worker"
        super().__init__(name, cluster, needed, properties, heap=heap, options=options, environment=environment)


class StandaloneWorker(_Worker):
    """`ConnectStandalone` on a cluster. `connectors`: configs with their names, each a properties file.

    `offsets`: its offset file; without it, one in its own directory.
    """

    main_class = "org.apache.kafka.connect.cli.ConnectStandalone"
    # After the last connector file.
    ready_path = "/health"

    def __init__(
        self,
        cluster: LocalCluster,
        connectors: Sequence[Mapping[str, str]] = (),
        properties: Mapping[str, str] | None = None,
        *,
        offsets: Path | None = None,
        heap: str = "2g",
        options: Sequence[str] | None = None,
    ) -> None:
        super().__init__("standalone worker", cluster, {}, properties, heap=heap, options=options, environment=None)
        self.connectors = list(connectors)
        self.offsets = offsets or self.directory / "connect.offsets"
        self.properties.setdefault("offset.storage.file.filename", str(self.offsets))

    def files(self) -> list[str]:
        """The connectors' files, written as the configs are now."""
        return [
            str(write_properties(self.directory / f"connector-{number}.properties", config))
            for number, config in enumerate(self.connectors)
        ]


class DedicatedMirrorMaker(_Program):
    """`MirrorMaker` with an mm2.properties; it has no REST port, so it counts as ready once it is started.

    `aliases`: of source and target, the clusters' names unless given.
    """

    main_class = "org.apache.kafka.connect.mirror.MirrorMaker"

    def __init__(
        self,
        source: LocalCluster,
        target: LocalCluster,
        properties: Mapping[str, str] | None = None,
        *,
        aliases: tuple[str, str] | None = None,
        heap: str = "2g",
        options: Sequence[str] | None = None,
    ) -> None:
        upstream, downstream = aliases or (source.name, target.name)
        needed = {"clusters": f"{upstream},{downstream}"}
        for alias, cluster in ((upstream, source), (downstream, target)):
            needed |= {f"{alias}.{name}": value for name, value in cluster.client_properties().items()}
            for topic in ("config.storage", "offset.storage", "status.storage"):
                needed[f"{alias}.{topic}.replication.factor"] = "1"
        needed |= {f"{upstream}->{downstream}.enabled": "true", f"{downstream}->{upstream}.enabled": "false"}
        needed |= dict.fromkeys(
            (
                "replication.factor",
                "offset-syncs.topic.replication.factor",
                "checkpoints.topic.replication.factor",
                "heartbeats.topic.replication.factor",
            ),
            "1",
        )
        super().__init__(
            f"mirror-{upstream}-{downstream}",
            needed | dict(properties or {}),
            heap=heap,
            options=options,
            version=target.version,
        )
