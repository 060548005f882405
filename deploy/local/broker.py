"""One broker of a local cluster. It keeps its ports and data over every start, stop and kill."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from deploy.local.broker_config import (
    INTERNAL,
    ClusterConfig,
    format_storage,
    server_properties,
    write_properties,
)
from deploy.local.errors import LocalError, NotInTime
from deploy.local.java_process import BROKER, JavaProcess
from deploy.local.storage_template import bootstrap_checkpoint
from deploy.local.zookeeper import ZooKeeper


class Broker:
    """Broker `node` (counted from 1). `properties` may be changed while it is stopped; the next start reads them."""

    def __init__(
        self,
        config: ClusterConfig,
        node: int,
        ports: Mapping[int, Mapping[str, int]],
        directory: Path,
        properties: Mapping[str, str],
        *,
        heap: str,
        jvm_options: Sequence[str] | None,
        version: str,
        zookeeper: ZooKeeper | None = None,
    ) -> None:
        self.node = node
        self.directory = directory
        self.log_dir = directory / "data"
        self.log = directory / "broker.log"
        self.properties = dict(properties)
        self._config = config
        self._ports = ports
        self._heap = heap
        self._jvm_options = jvm_options
        self._version = version
        self._zookeeper = zookeeper
        self._process: JavaProcess | None = None

    def __repr__(self) -> str:
        return f"Broker({self._config.name!r}, {self.node}, {'running' if self.alive else 'stopped'})"

    @property
    def alive(self) -> bool:
        """Whether its process exists, suspended or not."""
        return self._process is not None and self._process.alive

    @property
    def pid(self) -> int:
        """The process id; LocalError while it does not run."""
        return self._running().pid

    def port(self, listener: str) -> int:
        """The port of `listener`, the same for the life of the cluster."""
        return self._ports[self.node][listener]

    def launch(self) -> None:
        """Starts the process unless it runs; does not wait for it. With ZooKeeper an old session must end first."""
        if self.alive:
            return
        if self._zookeeper is not None:
            self._zookeeper.wait_until_forgotten(self.node)
        else:
            format_storage(self.log_dir, self._config.cluster_id, self.node, bootstrap_checkpoint(self._version))
        properties = server_properties(self._config, self.node, self._ports, self.log_dir, self.properties)
        path = write_properties(self.directory / "server.properties", properties)
        self._process = JavaProcess(
            f"broker {self.node} of {self._config.name}",
            BROKER,
            [str(path)],
            log=self.log,
            heap=self._heap,
            options=self._jvm_options,
            version=self._version,
        )

    def wait_listening(self, seconds: float = 180.0) -> None:
        """Returns when it accepts clients: a KRaft broker opens its ports once it is registered and has caught up."""
        process = self._running()
        until = time.monotonic() + seconds
        while not self._accepts():
            if not process.alive:
                raise process.failure()
            if time.monotonic() > until:
                raise NotInTime(f"{process.name} accepts no connection after {seconds:g} s (log: {self.log})")
            time.sleep(0.05)

    def start(self, seconds: float = 180.0) -> None:
        """Start it and wait until it accepts clients."""
        self.launch()
        self.wait_listening(seconds)

    def stop(self, seconds: float = 90.0) -> None:
        """SIGTERM, and kill -9 if it has not ended after `seconds`."""
        if self._process is not None:
            self._process.stop(seconds)

    def kill(self) -> None:
        """kill -9. The page cache keeps unwritten data, as in a crash of Kafka, not of the machine."""
        if self._process is not None:
            self._process.kill()

    def restart(self) -> None:
        """Stop and start."""
        self.stop()
        self.start()

    def suspend(self) -> None:
        """SIGSTOP: connections stay open and nothing answers."""
        self._running().suspend()

    def resume(self) -> None:
        """SIGCONT."""
        self._running().resume()

    def cpu_seconds(self) -> float:
        """CPU time of its process so far; 0.0 when it does not run."""
        return self._process.cpu_seconds() if self._process is not None else 0.0

    def _accepts(self) -> bool:
        try:
            with socket.create_connection((self._config.host, self.port(INTERNAL)), timeout=1):
                return True
        except OSError:
            return False

    def _running(self) -> JavaProcess:
        if self._process is None or not self._process.alive:
            raise LocalError(f"broker {self.node} of {self._config.name} does not run")
        return self._process
