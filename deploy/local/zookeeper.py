"""The ZooKeeper of a local cluster of Kafka before 3.0: one process, with its data beside that of the brokers."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Final

from deploy.local.broker_config import HOST, write_properties
from deploy.local.errors import NotInTime
from deploy.local.java_process import JavaProcess

_DUMPED: Final = "ephemeral nodes dump:"


class ZooKeeper:
    """Starts before the brokers and stops after them. It keeps running while brokers are killed."""

    def __init__(self, name: str, port: int, directory: Path, version: str) -> None:
        self.port = port
        self.log = directory / "zookeeper.log"
        self._name = f"ZooKeeper of {name}"
        self._directory = directory
        self._version = version
        self._process: JavaProcess | None = None

    def start(self, seconds: float = 180.0) -> None:
        """Start it, unless it runs, and wait until it serves."""
        if self._process is not None and self._process.alive:
            return
        properties = {
            "dataDir": str(self._directory / "data"),
            "clientPort": str(self.port),
            "clientPortAddress": HOST,
            # Sessions may be as short as two ticks; a killed broker's must end before it may register again.
            "tickTime": "500",
            "maxClientCnxns": "0",
            "4lw.commands.whitelist": "dump",
            # It would need another port, and Jetty.
            "admin.enableServer": "false",
        }
        path = write_properties(self._directory / "zookeeper.properties", properties)
        process = self._process = JavaProcess(
            self._name,
            "org.apache.zookeeper.server.ZooKeeperServerMain",
            [str(path)],
            log=self.log,
            heap="128m",
            version=self._version,
        )
        until = time.monotonic() + seconds
        while self._ephemerals() is None:
            if not process.alive:
                raise process.failure()
            if time.monotonic() > until:
                raise NotInTime(f"{self._name} does not serve after {seconds:g} s (log: {self.log})")
            time.sleep(0.05)

    def wait_until_forgotten(self, node: int, seconds: float = 180.0) -> None:
        """Returns when a killed broker's session has ended. Before that the broker can't register and ends."""
        until = time.monotonic() + seconds
        while (there := self._ephemerals()) is None or f"/brokers/ids/{node}" in there:
            if time.monotonic() > until:
                raise NotInTime(f"{self._name} still has broker {node} after {seconds:g} s (log: {self.log})")
            time.sleep(0.1)

    def stop(self) -> None:
        """SIGTERM: every change is on disk before it is acknowledged."""
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()

    def _ephemerals(self) -> set[str] | None:
        """The ephemeral nodes of all sessions; None while it does not answer."""
        try:
            with socket.create_connection((HOST, self.port), timeout=5) as connection:
                connection.sendall(b"dump")
                with connection.makefile(encoding="utf-8", errors="replace") as answer:
                    lines = [line.strip() for line in answer]
        except OSError:
            return None
        # It may accept connections and still answer that it doesn't serve yet.
        return set(lines) if _DUMPED in lines else None
