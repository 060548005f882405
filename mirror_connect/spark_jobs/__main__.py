"""The Spark application of a worker: runs one streaming query for each task run in the worker's plan.

The worker starts it with a pipe on standard input. The first line is JSON: `url` and `token` of the internal HTTP,
`scratch` (a directory), `spark` (the worker's `spark.*` properties). The pipe's end means that the worker is gone. Then this
application ends at once, with its JVM and tasks.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

import psutil

from mirror_connect.connectors.user_code.hidden_memory import hide_memory
from mirror_connect.spark_jobs.query import start_query
from mirror_connect.spark_jobs.session import archive_option, open_session
from mirror_connect.spark_jobs.worker_client import InternalHttp, RunHandle, RunOverError, WorkerUnreachableError

log = logging.getLogger("mirror_connect.spark_jobs")
REPORT_S: Final = 0.5
PLAN_TIMEOUT_S: Final = 15.0
# Set when this process ends its JVM itself.
_ending: Final = threading.Event()


class Application:
    """Makes the running queries equal the plan, and reports their states to the worker."""

    def __init__(self, hello: dict[str, Any]) -> None:
        self._url: str = hello["url"]
        self._plan_http = InternalHttp(self._url, hello["token"])
        self._report_http = InternalHttp(self._url, hello["token"])
        self._scratch = Path(hello["scratch"])
        self._queries: dict[str, Any] = {}
        self._failed_starts: dict[str, str] = {}
        user = {"spark.local.dir": str(self._scratch), **hello["spark"]}
        user.setdefault("spark.sql.warehouse.dir", str(self._scratch / "warehouse"))
        if not archive_option():
            log.info(
                "Spark starts without an archive of its classes, in twice the time. mirror-connect archive makes one"
            )
        self._session = open_session(user)
        self._slots = self._session.sparkContext.defaultParallelism
        jvm: subprocess.Popen[bytes] = self._session.sparkContext._gateway.proc
        threading.Thread(target=_end_with_the_jvm, args=(jvm,), name="jvm", daemon=True).start()

    def run(self) -> None:
        """Applies the plan until the process ends."""
        threading.Thread(target=self._report_for_ever, name="reports", daemon=True).start()
        version = -1
        while True:
            try:
                plan = self._plan_http.call("GET", f"/plan?after={version}", timeout=PLAN_TIMEOUT_S)
            except (WorkerUnreachableError, RunOverError):
                time.sleep(REPORT_S)
                continue
            version = plan["version"]
            self._apply({run["run_id"]: run["token"] for run in plan["runs"]})

    def _apply(self, wanted: dict[str, str]) -> None:
        for run_id in [known for known in self._queries if known not in wanted]:
            # The worker removes a run from the plan when its task has returned or was killed.
            query = self._queries.pop(run_id)
            try:
                query.stop()
            except Exception:  # an error of one query must not affect the others
                log.exception("query of run %s did not stop", run_id)
            shutil.rmtree(self._scratch / run_id, ignore_errors=True)
        for run_id in [known for known in self._failed_starts if known not in wanted]:
            del self._failed_starts[run_id]
        for run_id, token in wanted.items():
            if run_id in self._queries or run_id in self._failed_starts:
                continue
            try:
                handle = RunHandle(self._url, run_id, token)
                self._queries[run_id] = start_query(self._session, handle, str(self._scratch / run_id))
            except Exception as error:  # the worker shows it as the failure of this task alone
                log.exception("query of run %s did not start", run_id)
                self._failed_starts[run_id] = f"{type(error).__name__}: {error}"

    def _report_for_ever(self) -> None:
        while True:
            runs: dict[str, dict[str, str | None]] = {
                run_id: {"state": "ENDED", "error": error} for run_id, error in self._failed_starts.copy().items()
            }
            for run_id, query in self._queries.copy().items():
                runs[run_id] = state_of(query)
            with contextlib.suppress(WorkerUnreachableError, RunOverError):
                self._report_http.call("POST", "/driver", {"slots": self._slots, "runs": runs, "pid": os.getpid()})
            time.sleep(REPORT_S)


def state_of(query: Any) -> dict[str, str | None]:
    """ACTIVE, ENDED with its error, or UNKNOWN with the reason if the state can't be read."""
    try:
        if query.isActive:
            return {"state": "ACTIVE", "error": None}
    except Exception as error:  # noqa: BLE001 — the worker decides; without a JVM this process ends soon
        return {"state": "UNKNOWN", "error": _first_line(error)}
    try:
        return {"state": "ENDED", "error": str(query.exception() or "the query ended")}
    except Exception as error:  # noqa: BLE001 — it has ended anyway
        return {"state": "ENDED", "error": f"the query ended, and its error can't be read: {_first_line(error)}"}


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _end_with_the_worker(scratch: str) -> None:
    """Blocks until standard input ends, then ends this whole process tree without asking anyone."""
    while sys.stdin.readline():
        pass
    _ending.set()
    # py4j logs the loss of its JVM, which is intended here.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    _kill_the_rest()
    shutil.rmtree(scratch, ignore_errors=True)
    # The main thread may have started another process in between. Without the directory it can't do that again.
    _kill_the_rest()
    os._exit(0)


def _end_with_the_jvm(jvm: subprocess.Popen[bytes]) -> None:
    """Ends this process when its JVM ends, as it can do nothing without. The worker notices that and starts another one."""
    code = jvm.wait()
    if _ending.is_set():
        return
    # The worker shows the last critical line as the reason of this process's end.
    if code < 0:
        memory = ", as the kernel does it when memory is short" if code == -signal.SIGKILL else ""
        log.critical("its JVM was ended by signal %d (%s)%s", -code, _signal_name(-code), memory)
    else:
        log.critical("its JVM ended with exit code %d", code)
    _kill_the_rest()
    os._exit(1)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def _kill_the_rest() -> None:
    """Kills all processes that this one has started, until none is found: they may fork while they die."""
    # The worker starts this application in a session of its own. Orphans stay in it, although they are no children.
    own_session = os.getsid(0) == os.getpid()
    while True:
        found = psutil.process_iter() if own_session else psutil.Process().children(recursive=True)
        rest = [process for process in found if _is_rest(process, own_session)]
        if not rest:
            return
        for process in rest:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(rest, timeout=0.5)


def _is_rest(process: psutil.Process, own_session: bool) -> bool:
    try:
        if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
            return False
        return not own_session or os.getsid(process.pid) == os.getpid()
    except (psutil.NoSuchProcess, ProcessLookupError, PermissionError):
        return False


def main() -> None:
    """Entry point of `python -m mirror_connect.spark_jobs`."""
    hide_memory()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s %(message)s", stream=sys.stderr)
    logging.getLogger("mirror_connect").setLevel(logging.INFO)
    for noisy in ("py4j", "pyspark"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    first_line = sys.stdin.readline()
    if not first_line:
        return  # the worker ended before it wrote the first line
    hello = json.loads(first_line)
    ending = threading.Thread(target=_end_with_the_worker, args=(hello["scratch"],), name="stdin", daemon=True)
    ending.start()
    try:
        Application(hello).run()
    finally:
        if _ending.is_set():
            # If Spark's start loses its JVM, it fails here. The other thread still kills processes, and then ends this one.
            # An earlier end could leave a JVM that has just started, which would stay for ever.
            ending.join()


if __name__ == "__main__":
    main()
