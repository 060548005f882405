"""What is compared: Apache's Kafka Connect with MirrorMaker 2, and this product, behind one face."""

from __future__ import annotations

import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self

import httpx

from benchmarks.accounting import ProcessTree, java_kind, product_kind
from benchmarks.last_words import last_words
from deploy.demo.worker import ROOT, WorkerProcess
from deploy.local import LocalCluster, LocalError, free_port
from deploy.local.broker_config import write_properties
from deploy.local.connect import BYTES, KAFKA_JVM, ConnectWorker
from deploy.local.free_ports import give_back
from deploy.local.watchdog import watchdog

MM2: Final = "mm2"
MM2_NO_SYNCS: Final = "mm2-no-syncs"
MM2_TUNED: Final = "mm2-tuned"
OURS: Final = "ours"
BEFORE: Final = "before"
LABELS: Final = {
    MM2: "MirrorMaker 2, defaults",
    MM2_NO_SYNCS: "MirrorMaker 2, without offset syncs",
    MM2_TUNED: "MirrorMaker 2, tuned",
    OURS: "mirror-connect",
    BEFORE: "mirror-connect, the other checkout",
}
NONE: Final[Mapping[str, str]] = MappingProxyType({})
NO_SYNCS: Final = {"emit.offset-syncs.enabled": "false"}
# As its users tune it for throughput: large batches, compressed once more, and fetches that fill them.
TUNED: Final = {
    "producer.override.batch.size": str(1 << 20),
    "producer.override.linger.ms": "50",
    "producer.override.compression.type": "lz4",
    "producer.override.buffer.memory": str(128 << 20),
    "producer.override.max.request.size": str(8 << 20),
    "source.consumer.fetch.min.bytes": str(1 << 18),
    "source.consumer.fetch.max.bytes": str(64 << 20),
    "source.consumer.max.partition.fetch.bytes": str(8 << 20),
    "source.consumer.max.poll.records": "5000",
}
START_PATIENCE_S: Final = 180.0
PLUGIN: Final = "org.apache.kafka.connect.mirror.MirrorSourceConnector"


class SideError(RuntimeError):
    """A side did not do what is to be measured."""


def connector_config(
    source: LocalCluster, target: LocalCluster, alias: str, topics: str, tasks: int = 1
) -> dict[str, str]:
    """The same connector for both sides: nothing set but what one broker on each side asks for."""
    return {
        "connector.class": PLUGIN,
        "tasks.max": str(tasks),
        "topics": topics,
        "source.cluster.alias": alias,
        **{f"source.cluster.{name}": value for name, value in source.client_properties().items()},
        "target.cluster.alias": "target",
        **{f"target.cluster.{name}": value for name, value in target.client_properties().items()},
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "key.converter": BYTES,
        "value.converter": BYTES,
    }


class Side(ABC):
    """A worker that runs connectors; a context manager. Its remote topics are named `<name>.<topic>`."""

    def __init__(self, name: str, target: LocalCluster, group: str) -> None:
        self.name = name
        self.target = target
        self.group = group
        # On the monotonic clock, when the process was started.
        self.began = 0.0

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            # Its log goes with it.
            for line in self.last_words():
                error.add_note(f"{LABELS[self.name]} said: {line}")
        self.close()

    def last_words(self) -> list[str]:
        """What it has complained of so far, in the words of its log."""
        try:
            return last_words(self.log.read_text(errors="replace"))
        except OSError:
            return []

    @property
    @abstractmethod
    def log(self) -> Path:
        """Where standard output and error of the process go."""

    @property
    @abstractmethod
    def url(self) -> str:
        """Of the REST API."""

    @abstractmethod
    def start(self) -> None:
        """Starts the process; whether it answers is another question."""

    @abstractmethod
    def tree(self) -> ProcessTree:
        """All its processes."""

    @abstractmethod
    def check_alive(self) -> None:
        """SideError with its last words if it has ended."""

    @abstractmethod
    def close(self) -> None:
        """Ends it."""

    def wait_answering(self, path: str = "/connectors") -> float:
        """Seconds from the start of the process until GET `path` was answered with 200."""
        return self._until(lambda: self._status("GET", path) == httpx.codes.OK, f"GET {path} answers 200")

    def put(self, connector: str, config: Mapping[str, str]) -> float:
        """PUTs the connector, again and again while the worker is not ready; seconds from the start of the process."""
        path = f"/connectors/{connector}/config"
        return self._until(
            lambda: self._status("PUT", path, dict(config)) in (httpx.codes.OK, httpx.codes.CREATED),
            f"PUT {path} is accepted",
        )

    def restart(self, connector: str) -> None:
        """Starts the connector again, and none of its tasks."""
        path = f"/connectors/{connector}/restart"
        self._until(lambda: self._status("POST", path) == httpx.codes.NO_CONTENT, f"POST {path} is accepted")

    def delete(self, connector: str) -> None:
        """Removes the connector."""
        path = f"/connectors/{connector}"
        self._until(lambda: self._status("DELETE", path) in (httpx.codes.NO_CONTENT, httpx.codes.NOT_FOUND), path)

    def wait_running(self, connector: str, tasks: int = 1) -> None:
        """Returns when the connector and so many of its tasks are RUNNING."""
        self._until(lambda: self._running(connector, tasks), f"{connector} is running")

    def status(self, connector: str) -> Any:
        """As GET /connectors/NAME/status tells it. SideError if it does not."""
        reply = self._request("GET", f"/connectors/{connector}/status")
        if reply is None or reply.status_code != httpx.codes.OK:
            raise SideError(f"{LABELS[self.name]} does not tell the status of {connector}")
        return reply.json()

    def _running(self, connector: str, tasks: int) -> bool:
        reply = self._request("GET", f"/connectors/{connector}/status")
        if reply is None or reply.status_code != httpx.codes.OK:
            return False
        status: Any = reply.json()
        failed = [each for each in (status["connector"], *status["tasks"]) if each["state"] == "FAILED"]
        if failed:
            raise SideError(f"{LABELS[self.name]}: {connector} is FAILED: {str(failed[0].get('trace', ''))[:500]}")
        states = [each["state"] for each in (status["connector"], *status["tasks"])]
        return len(states) > tasks and set(states) == {"RUNNING"}

    def _status(self, method: str, path: str, body: Any = None) -> int:
        reply = self._request(method, path, body)
        if reply is not None and reply.status_code == httpx.codes.BAD_REQUEST:
            raise SideError(f"{LABELS[self.name]}: {method} {path}: {reply.text[:500]}")
        return reply.status_code if reply is not None else 0

    def _request(self, method: str, path: str, body: Any = None) -> httpx.Response | None:
        try:
            # It is plain HTTP; verifying, each request would read the system's certificates, and take CPU from the side.
            return httpx.request(method, self.url + path, json=body, timeout=60, verify=False)
        except httpx.TransportError:
            return None

    def _until(self, done: Callable[[], bool], what: str) -> float:
        until = time.monotonic() + START_PATIENCE_S
        while not done():
            self.check_alive()
            if time.monotonic() > until:
                raise SideError(f"{LABELS[self.name]}: it is not so after {START_PATIENCE_S:g} s that {what}")
            time.sleep(0.02)
        return time.monotonic() - self.began


class MirrorMaker(Side):
    """MirrorSourceConnector in Kafka Connect's distributed worker, with its defaults."""

    def __init__(self, name: str, target: LocalCluster, group: str, properties: Mapping[str, str] = NONE) -> None:
        super().__init__(name, target, group)
        self._worker = _EarlyWorker(target, properties, group=group, options=KAFKA_JVM)

    @property
    def url(self) -> str:
        return self._worker.rest_url

    @property
    def log(self) -> Path:
        return self._worker.log

    def start(self) -> None:
        self.began = time.monotonic()
        self._worker.start()

    def tree(self) -> ProcessTree:
        return ProcessTree(self._worker.process.pid, java_kind)

    def check_alive(self) -> None:
        if not self._worker.process.alive:
            raise SideError(str(self._worker.process.failure()))

    def close(self) -> None:
        self._worker.close()


class _EarlyWorker(ConnectWorker):
    """Comes back at once: when it is ready is measured here."""

    def _wait_ready(self, seconds: float) -> None:
        del seconds


class Product(Side):
    """This product, started as a user starts it: bin/connect-distributed.sh FILE of a checkout that is set up."""

    def __init__(
        self,
        name: str,
        target: LocalCluster,
        group: str,
        properties: Mapping[str, str] = NONE,
        checkout: Path = ROOT,
    ) -> None:
        super().__init__(name, target, group)
        self._directory = Path(tempfile.mkdtemp(prefix="mirror-connect-benchmark-"))
        watchdog().guard_directory(str(self._directory))
        self._port = free_port()
        topics = {
            f"{kind}.storage.{setting}": value
            for kind, name_ in (("config", "configs"), ("offset", "offsets"), ("status", "status"))
            for setting, value in (("topic", f"{group}-{name_}"), ("replication.factor", "1"))
        }
        path = write_properties(
            self._directory / "worker.properties",
            {
                **target.client_properties(),
                **topics,
                "group.id": group,
                "offset.storage.partitions": "5",
                "status.storage.partitions": "1",
                "key.converter": BYTES,
                "value.converter": BYTES,
                "listeners": f"http://127.0.0.1:{self._port}",
                **properties,
            },
        )
        self._worker = WorkerProcess(path, self.log, {}, checkout)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def log(self) -> Path:
        return self._directory / "worker.log"

    def start(self) -> None:
        self.began = time.monotonic()
        self._worker.__enter__()
        # kill -9 of the benchmark must not leave a worker behind; Spark ends with its worker.
        watchdog().guard_process(self._worker.pid)

    def tree(self) -> ProcessTree:
        return ProcessTree(self._worker.pid, product_kind)

    def check_alive(self) -> None:
        try:
            self._worker.check_alive()
        except RuntimeError as error:
            raise SideError(str(error)) from None

    def close(self) -> None:
        try:
            self._worker.stop()
            watchdog().forget_process(self._worker.pid)
        except RuntimeError:
            # It was never started.
            pass
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)
            watchdog().forget_directory(str(self._directory))
            give_back(self._port)


def open_side(
    name: str,
    target: LocalCluster,
    suffix: str = "",
    *,
    other: Path | None = None,
    properties: Mapping[str, str] = NONE,
) -> Side:
    """A side that has not been started; its group and internal topics carry `suffix`. `other`: the checkout of BEFORE.

    `properties`: of the worker, beside the usual ones. Sides with one name and suffix are workers of one group.
    """
    group = f"{name}{suffix}"
    try:
        if name == BEFORE:
            assert other is not None, "a checkout to compare with was not given"
            return Product(name, target, group, properties, other)
        return (Product if name == OURS else MirrorMaker)(name, target, group, properties)
    except LocalError as error:
        raise SideError(str(error)) from None


def in_turns(sides: Sequence[str], number: int) -> Sequence[str]:
    """Their order in round `number`: every other round backwards, so that nobody is always the first one."""
    return sides if number % 2 == 0 else sides[::-1]


def config_of(name: str, config: Mapping[str, str]) -> dict[str, str]:
    """The connector's config for a side: without offset syncs MirrorMaker 2 refuses every setting about them."""
    if name == MM2_TUNED:
        return {**config, **TUNED}
    if name != MM2_NO_SYNCS:
        return dict(config)
    return {key: value for key, value in config.items() if not key.startswith("offset-syncs.")} | NO_SYNCS
