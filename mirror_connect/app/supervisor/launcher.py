"""A Spark application of the worker as a process tree: starts it, reads its log, and ends it completely.

The first one of a process is launched before there is an event loop (`launch`): Spark takes longest of all at a start.
Only this module knows how Spark is started. The tree has a session of its own (setsid), so that the worker can find and kill
all of it, also PySpark's daemon, which leaves the process group.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Final

import psutil

from mirror_connect.app.config.kafka_environment import with_heap
from mirror_connect.app.config.statement_properties import properties_of
from mirror_connect.app.supervisor.scratch import Scratch, remove_stale
from mirror_connect.app.supervisor.spark_log import SparkLog, with_settings
from mirror_connect.connectors.spark_masters import is_local
from mirror_connect.connectors.user_code.user_class import PLUGIN_MODULES, PLUGIN_PATH
from mirror_connect.connectors.user_code.user_function import ALLOWED
from mirror_connect.kafka_io.client.java_options import for_tasks

DRIVER: Final = ("-m", "mirror_connect.spark_jobs")
# The variables that the application gets from the worker's environment. Others may be secrets for EnvVarConfigProvider.
PASSED_ON: Final = (
    *("XDG_CACHE_HOME", "CACHE_DIRECTORY", "MIRROR_CONNECT_LOG_LEVEL"),
    *("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "JAVA_HOME", "LD_LIBRARY_PATH", "PYTHONPATH"),
    PLUGIN_PATH,
    PLUGIN_MODULES,
    ALLOWED,
)
# And those by which Spark finds a cluster and logs in there: YARN, Kubernetes (fabric8's client), Kerberos.
PASSED_ON_FOR_CLUSTERS: Final = (
    *("HADOOP_CONF_DIR", "YARN_CONF_DIR", "HADOOP_USER_NAME", "KRB5_CONFIG", "KRB5CCNAME"),
    *("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "KUBERNETES_SERVICE_PORT_HTTPS"),
)
# How long the last lines of a log may take after all its writers are gone.
LOG_ENDS_S: Final = 2.0


class SparkApplication:
    """One process tree. `start` it, await `exited`, `end` it; it can't be started twice.

    `launch` does the first half of `start`, without an event loop. `tasks`: the channel of executors (TaskChannel.told).
    `statements`: whether it reads and applies the statements of connectors.
    """

    def __init__(
        self, spark: Mapping[str, str], tasks: Mapping[str, str] | None = None, *, statements: bool = False
    ) -> None:
        self._tasks = tasks
        self._statements = statements
        self._spark = with_heap(properties_of(spark, statements=statements), os.environ)
        self._process: subprocess.Popen[bytes] | None = None
        self._scratch: Scratch | None = None
        self._log = SparkLog()
        self._following: asyncio.Task[None] | None = None
        self._code: asyncio.Future[int] | None = None

    @property
    def pid(self) -> int | None:
        """The driver's process id; it is also the id of the tree's session."""
        return self._process.pid if self._process else None

    @property
    def last_words(self) -> str:
        """The last log line that is no stack frame, with the settings that it is about; empty if there is none."""
        return with_settings(self._log.last_words, self._spark)

    def launch(self, url: str, token: str) -> None:
        """Starts the driver; the token travels through its standard input, never as an argument or in the environment.

        OSError. Its log is read from `start` on.
        """
        scratch = self._scratch = Scratch()
        local = is_local(self._spark.get("spark.master", "local"))
        passed_on = PASSED_ON if local else (*PASSED_ON, *PASSED_ON_FOR_CLUSTERS)
        environment = {name: os.environ[name] for name in passed_on if name in os.environ}
        environment |= {name: value for name, value in os.environ.items() if name.startswith("SPARK_")}
        environment |= for_tasks(os.environ)
        environment |= {
            "PYSPARK_PYTHON": sys.executable,
            # Executors elsewhere could not reach a driver on loopback.
            **({"SPARK_LOCAL_IP": "127.0.0.1"} if local else {}),
            "PYTHONUNBUFFERED": "1",
            # As -P, also for the processes of tasks: no module comes from the directory in which the worker was started.
            "PYTHONSAFEPATH": "1",
            "TMPDIR": str(scratch.path),
        }
        try:
            process = self._process = subprocess.Popen(
                [sys.executable, *DRIVER],
                stdin=subprocess.PIPE,
                # In one pipe: a JVM that can't start writes the reason to its standard output.
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environment,
                # `start` reads it without a buffer of its own in between.
                bufsize=0,
            )
        except BaseException:
            scratch.remove()
            raise
        assert process.stdin is not None
        hello = {
            "url": url,
            "token": token,
            "tasks": self._tasks,
            "statements": self._statements,
            "scratch": str(scratch.path),
            "spark": self._spark,
        }
        with contextlib.suppress(OSError):  # it died at once; `exited` tells
            _write_all(process.stdin.fileno(), json.dumps(hello).encode() + b"\n")

    async def start(self, url: str, token: str) -> None:
        """Starts the driver, unless it is launched already, and follows its log. OSError."""
        await asyncio.to_thread(remove_stale)
        if self._process is None:
            await asyncio.to_thread(self.launch, url, token)
        process = self._process
        assert process is not None
        loop = asyncio.get_running_loop()
        code = self._code = loop.create_future()
        threading.Thread(target=_wait, args=(process, loop, code), name="spark", daemon=True).start()
        reader = asyncio.StreamReader(limit=1 << 20)
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.stdout)
        self._following = asyncio.create_task(self._follow_log(reader, transport))

    async def exited(self) -> int:
        """Waits for the driver's end, then kills its remaining processes; returns the exit code."""
        if self._process is None or self._code is None:
            return 0
        # Several callers may wait here; one that is cancelled must not end the wait of the others.
        code = await asyncio.shield(self._code)
        self._close_input()
        await asyncio.to_thread(self._kill_tree)
        if self._following is not None:
            await asyncio.wait([self._following], timeout=LOG_ENDS_S)
        if self._scratch is not None:
            await asyncio.to_thread(self._scratch.remove)
        return code

    async def end(self, patience_s: float) -> None:
        """Closes the pipe, waits, and kills the rest of the tree. When this returns, no process of it is alive."""
        if self._process is None or self._code is None:
            return
        self._close_input()
        await asyncio.wait([self._code], timeout=patience_s)
        await asyncio.to_thread(self._kill_tree)
        await self.exited()

    def kill(self) -> None:
        """Ends what `launch` has started and `start` has not followed; blocks until no process of it is alive."""
        if self._process is None or self._code is not None:
            return
        self._kill_tree()
        self._process.wait()
        self._close_input()
        if self._process.stdout is not None:
            self._process.stdout.close()
        if self._scratch is not None:
            self._scratch.remove()

    def kill_task(self, pid: int) -> bool:
        """Kills one task's process if it belongs to this tree; returns whether it was there."""
        if pid == self.pid or not self.owns(pid):
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return True

    def signal_of(self, pid: int) -> int | None:
        """See interfaces.Application."""
        return self._log.signals.get(pid)

    def owns(self, pid: int) -> bool:
        """Whether a living process with this id belongs to this tree."""
        return self.pid is not None and _session_of(pid) == self.pid and not _is_zombie(pid)

    def _kill_tree(self) -> None:
        """Kills every process of the session until none is left (a process may fork meanwhile)."""
        while alive := [pid for pid in psutil.pids() if self.owns(pid)]:
            for pid in alive:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            psutil.wait_procs([process for process in map(_process, alive) if process is not None], timeout=1.0)

    def _close_input(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    async def _follow_log(self, stream: asyncio.StreamReader, transport: asyncio.ReadTransport) -> None:
        try:
            while True:
                try:
                    line = await stream.readline()
                except ValueError:  # longer than the limit: dropped, the next line is read
                    continue
                if not line:
                    return
                self._log.take(line.decode(errors="replace").rstrip())
        finally:
            transport.close()


def _wait(process: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop, code: asyncio.Future[int]) -> None:
    """Tells the loop the exit code of a process; in a thread of its own."""
    found = process.wait()

    def tell() -> None:
        if not code.done():
            code.set_result(found)

    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(tell)


def _write_all(pipe: int, content: bytes) -> None:
    while content:
        content = content[os.write(pipe, content) :]


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def _is_zombie(pid: int) -> bool:
    process = _process(pid)
    try:
        return process is None or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _process(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess:
        return None
