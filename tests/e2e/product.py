"""The whole product as one process tree: started by bin/connect-distributed.sh as a user does it, driven through REST."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import httpx
import psutil

from deploy.local import LocalCluster, free_port
from deploy.local.spark_executor import Executor
from deploy.local.started import Started
from deploy.local.watchdog import watchdog
from tests.e2e.ends import end_offsets, wait_ends
from tests.e2e.spark_clusters import MODEST, ExecutorsOfCluster, chosen, shared_cluster
from tests.paths import ROOT
from tests.waiting import WaitTimedOut, wait_for_state

BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
MIRROR_SOURCE: Final = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
OFFSETS_PARTITIONS: Final = 5
# On a busy machine Spark takes most of a minute to start, and a slow one takes three times as long.
PATIENCE_S: Final = 360.0
# The parts of the tree, as `Product.parts` names them. On a Spark cluster daemons and tasks are the executors'.
WORKER, DRIVER, JVM, DAEMON, TASK = "worker", "driver", "jvm", "daemon", "task"
EXECUTOR: Final = "executor"


class Product(Started):
    """One worker on `cluster`, with Spark. Properties win over what is needed to start at all; `group` names its topics.

    `command` starts it in the place of bin/connect-distributed.sh; it gets the path of the properties and `arguments`.
    `spark`: the cluster that its tasks run on; without one TESTS_SPARK_MASTER says (tests/e2e/spark_clusters.py).
    A context manager; after `stop` or `kill` it can be started again, with its port and group.
    """

    def __init__(
        self,
        cluster: LocalCluster,
        *,
        group: str = "connect",
        properties: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        command: Sequence[Path | str] = (ROOT / "bin" / "connect-distributed.sh",),
        arguments: Sequence[str] = (),
        spark: ExecutorsOfCluster | None = None,
    ) -> None:
        self.cluster = cluster
        shared = spark is None and chosen()
        self.spark: ExecutorsOfCluster | None = shared_cluster() if shared else spark
        self.group = group
        self.port = free_port()
        # A connection that the worker is about to close is not used again: it closes one that was idle for five seconds.
        limits = httpx.Limits(keepalive_expiry=1.0)
        self.rest = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=90, limits=limits)
        self.directory = Path(tempfile.mkdtemp(prefix=f"product-{group}-"))
        watchdog().guard_directory(str(self.directory))
        self.log_file = self.directory / "worker.log"
        self.properties = {
            "plugin.path": str(self.directory / "plugins"),
            **worker_properties(cluster, group, self.port),
            **(self.spark.properties if self.spark is not None else {}),
            **(MODEST if shared else {}),
            **(properties or {}),
        }
        self._command = command
        self._arguments = arguments
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        # Every process seen in the tree: one whose parent was killed is found again here.
        self._seen: dict[int, psutil.Process] = {}
        # Where its drivers listen for executors.
        self._drivers: set[int] = set()

    # Life.

    def launch(self) -> Self:
        """Start the process and return at once."""
        lines = [f"{name}={_escaped(value)}\n" for name, value in self.properties.items()]
        path = self.directory / "connect.properties"
        path.write_text("".join(lines))
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, path, *self._arguments],
                # Not the checkout, whose modules would be imported before those that are installed.
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )
        watchdog().guard_process(self._process.pid)
        return self

    def start(self, seconds: float = PATIENCE_S) -> Self:
        """Start it and wait until the herder answers (Spark may take longer)."""
        return self.launch().wait_answers(seconds)

    def wait_answers(self, seconds: float = PATIENCE_S) -> Self:
        """Wait until the herder answers."""

        def answers() -> bool:
            self.check_alive()
            with contextlib.suppress(httpx.HTTPError):
                return self.rest.get("/connectors").status_code == httpx.codes.OK
            return False

        try:
            wait_for_state(answers, "the worker answers", seconds)
        except WaitTimedOut as error:
            raise WaitTimedOut(f"{error}; its log ends with:\n{self.log_tail()}") from None
        return self

    def wait_ended(self, seconds: float = PATIENCE_S) -> int:
        """Wait until the worker has ended by itself; its exit code."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise WaitTimedOut(f"not within {seconds:g} s: the worker has ended\n{self.log_tail()}") from None
        watchdog().forget_process(self.process.pid)
        return code

    def stop(self, seconds: float = PATIENCE_S) -> int:
        """SIGTERM, and wait; the exit code. WaitTimedOut if anything of the tree is left."""
        self.parts()
        self.process.terminate()
        code = self.wait_ended(seconds)
        wait_for_state(lambda: not self.survivors(), "no process of the tree is left")
        return code

    def kill(self, *parts: str) -> None:
        """kill -9 the parts named (WORKER, DRIVER, JVM, DAEMON, TASK), as good as at once; all of them if none is."""
        self.signal(signal.SIGKILL, *parts)
        if not parts or WORKER in parts:
            self.wait_ended()

    def signal(self, number: int, *parts: str) -> list[psutil.Process]:
        """Send a signal to every process of these parts, all parts if none is named; returns them."""
        tree = self.parts()
        chosen = [process for part in parts or tree for process in tree.get(part, [])]
        for process in chosen:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)
        return chosen

    def close(self) -> None:
        """End everything, whatever state it is in, and remove the files."""
        if self._process is not None:
            with contextlib.suppress(psutil.Error):
                self.parts()
            if self._process.poll() is None:
                self._process.terminate()
                try:
                    self._process.wait(12)
                except subprocess.TimeoutExpired:
                    self._process.kill()
            for process in self.survivors():
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            self.wait_ended()
        self.rest.close()
        shutil.rmtree(self.directory, ignore_errors=True)
        watchdog().forget_directory(str(self.directory))

    # Processes.

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The worker's process."""
        assert self._process is not None, "the worker was not started"
        return self._process

    def check_alive(self) -> None:
        """AssertionError with the log's end if the worker has ended."""
        code = self.process.poll()
        assert code is None, f"the worker ended with code {code}:\n{self.log_tail()}"

    def parts(self) -> dict[str, list[psutil.Process]]:
        """The living tree by part. Processes of a part that was killed are in no tree: see `survivors`."""
        found: dict[str, list[psutil.Process]] = {part: [] for part in (WORKER, DRIVER, JVM, DAEMON, TASK, EXECUTOR)}
        with contextlib.suppress(psutil.NoSuchProcess):
            root = psutil.Process(self.process.pid)
            for process in (root, *root.children(recursive=True)):
                self._seen[process.pid] = process
                with contextlib.suppress(psutil.NoSuchProcess):
                    part = _part_of(process, root)
                    if part and process.status() != psutil.STATUS_ZOMBIE:
                        found[part].append(process)
                        if part == JVM and self.spark is not None:
                            self._drivers |= {
                                each.laddr.port for each in process.net_connections("tcp") if not each.raddr
                            }
        for executor in self._own_executors():
            found[EXECUTOR].append(executor.process)
            found[DAEMON] += executor.daemons()
            found[TASK] += executor.tasks()
            self._seen |= {process.pid: process for process in executor.tree()}
        return found

    def executors(self) -> list[Executor]:
        """The executors of its tasks on the Spark cluster; on a local master there are none."""
        self.parts()
        return self._own_executors()

    def _own_executors(self) -> list[Executor]:
        return [each for each in self.spark.executors if each.driver in self._drivers] if self.spark is not None else []

    def pids(self, part: str) -> set[int]:
        """Process ids of a part now."""
        return {process.pid for process in self.parts()[part]}

    def survivors(self) -> list[psutil.Process]:
        """Whatever of the trees seen so far (see `parts`) is alive."""
        return [process for process in self._seen.values() if _alive(process)]

    # REST.

    def connector_path(self, name: str) -> str:
        """Where REST has a connector."""
        return f"/connectors/{name}"

    def put(self, name: str, config: Mapping[str, str]) -> dict[str, Any]:
        """PUT a connector's config; the answer's body."""
        return dict(self._json("PUT", f"{self.connector_path(name)}/config", dict(config)))

    def call(self, method: str, path: str) -> Any:
        """A request that has to succeed; the answer's body."""
        return self._json(method, path)

    def delete(self, name: str) -> None:
        """DELETE a connector, and wait until it has no tasks left."""
        self._json("DELETE", self.connector_path(name))
        wait_for_state(
            lambda: self.rest.get(self.connector_path(name)).status_code == httpx.codes.NOT_FOUND, f"{name} is gone"
        )

    def status(self, name: str) -> dict[str, Any]:
        """The status, empty while there is none."""
        answer = self.rest.get(f"{self.connector_path(name)}/status")
        return dict(answer.json()) if answer.status_code == httpx.codes.OK else {}

    def source_offsets(self, name: str) -> dict[int, int]:
        """Partition → the committed source offset that the worker lists, of a connector of one topic."""
        offsets = self.call("GET", f"{self.connector_path(name)}/offsets")["offsets"]
        return {each["partition"]["partition"]: each["offset"]["offset"] for each in offsets}

    def states(self, name: str) -> list[str]:
        """State of the connector, then those of its tasks."""
        status = self.status(name)
        return [status["connector"]["state"], *(task["state"] for task in status["tasks"])] if status else []

    def wait_running(self, name: str, tasks: int = 1, seconds: float = PATIENCE_S) -> None:
        """Wait until the connector and exactly `tasks` tasks are RUNNING."""
        self.wait_states(name, ["RUNNING"] * (tasks + 1), seconds)

    def wait_states(self, name: str, states: list[str], seconds: float = PATIENCE_S) -> None:
        """Wait for these states: the connector's, then the tasks'. What has FAILED by then is no late state."""

        def reached() -> bool:
            self.check_alive()
            return self.states(name) == states

        try:
            wait_for_state(reached, f"{name} is {states}", seconds)
        except WaitTimedOut as error:
            self.check_alive()
            status = self.status(name)
            assert "FAILED" in states or "FAILED" not in self.states(name), f"{name} has failed: {status}"
            raise WaitTimedOut(f"{error}; it is {status}\n{self.log_tail()}") from None

    def wait_going_on(self, name: str, cluster: LocalCluster, topic: str, seconds: float = 180.0) -> None:
        """Wait until every partition of `topic` gets records that were not there before.

        What is not RUNNING when the time is over brings none yet: that is late, and WaitTimedOut. AssertionError otherwise.
        """
        before = end_offsets(cluster, topic)
        try:
            wait_ends(cluster, topic, {partition: end + 1 for partition, end in before.items()}, seconds)
            return
        except AssertionError as error:
            missing = error
        self.check_alive()
        states = self.states(name)
        if set(states) == {"RUNNING"} or "FAILED" in states:
            raise missing
        raise WaitTimedOut(f"{missing}; {name} is {self.status(name)}")

    def task_ids(self, name: str) -> list[int]:
        """Ids of the tasks that the status knows."""
        return [int(task["id"]) for task in self.status(name).get("tasks", [])]

    def _json(self, method: str, path: str, body: object = None) -> Any:
        # As in Connect: while the worker is about to become the leader it asks callers to come again.
        until = time.monotonic() + PATIENCE_S
        while True:
            answer = self.rest.request(method, path, json=body) if body is not None else self.rest.request(method, path)
            if answer.status_code not in (httpx.codes.CONFLICT, httpx.codes.SERVICE_UNAVAILABLE):
                break
            if time.monotonic() > until:
                raise WaitTimedOut(
                    f"not within {PATIENCE_S:g} s: {method} {path} is not asked to come again; {answer.text}"
                )
            time.sleep(0.2)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}\n{self.log_tail()}"
        return answer.json() if answer.content else None

    # Log.

    def log_text(self) -> str:
        """All that the worker has said, over all its starts."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def log_tail(self, lines: int = 25) -> str:
        """The last lines of it."""
        return "\n".join(self.log_text().splitlines()[-lines:])


def wait_gone(processes: list[psutil.Process], seconds: float) -> None:
    """Wait until none of them is alive."""
    alive = psutil.wait_procs(processes, timeout=seconds)[1]
    if left := [each for each in alive if _alive(each)]:
        raise WaitTimedOut(f"not within {seconds:g} s: these have ended: {left}")


def worker_properties(cluster: LocalCluster, group: str, port: int) -> dict[str, str]:
    """What a worker needs to start: the same for Apache's Connect (deploy.local.connect) with the same `group`."""
    login = cluster.client_properties()
    return {
        **login,
        **{f"{who}.{name}": value for who in ("producer", "consumer", "admin") for name, value in login.items()},
        "group.id": group,
        "config.storage.topic": f"{group}-configs",
        "offset.storage.topic": f"{group}-offsets",
        "status.storage.topic": f"{group}-status",
        "config.storage.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "offset.storage.partitions": str(OFFSETS_PARTITIONS),
        "status.storage.partitions": "1",
        "key.converter": BYTES,
        "value.converter": BYTES,
        "listeners": f"http://127.0.0.1:{port}",
    }


def mirror_config(source: LocalCluster, target: LocalCluster, topics: str, **settings: str) -> dict[str, str]:
    """A MirrorSourceConnector of A → B for Java and for us alike; `settings` have `_` for `.` and win."""
    return {
        "connector.class": MIRROR_SOURCE,
        "topics": topics,
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        **{f"source.cluster.{name}": value for name, value in source.client_properties().items()},
        **{f"target.cluster.{name}": value for name, value in target.client_properties().items()},
        "key.converter": BYTES,
        "value.converter": BYTES,
        "header.converter": BYTES,
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "sync.topic.configs.enabled": "false",
        "sync.topic.acls.enabled": "false",
        "tasks.max": "1",
        "refresh.topics.interval.seconds": "1",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }


def _part_of(process: psutil.Process, root: psutil.Process) -> str | None:
    if process.pid == root.pid:
        return WORKER
    command = process.cmdline()
    if not command:
        return None
    if "mirror_connect.spark_jobs" in command:
        return DRIVER
    if "mirror_connect.spark_jobs.daemon" in command:
        # A task is a fork of the daemon and keeps its command line.
        parent = process.parent()
        return TASK if parent and "mirror_connect.spark_jobs.daemon" in parent.cmdline() else DAEMON
    return JVM if Path(command[0]).name.startswith("java") else None


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
