"""A Spark application of a worker: runs one streaming query for each task run in the worker's plan.

The worker starts it with a pipe on standard input. The first line is JSON: `url` and `token` of the internal HTTP,
`tasks` (its `url` and `fingerprint` for executors; null if they are here), `scratch` (a directory), `spark` (the worker's
`spark.*` properties), `statements` (whether it reads and applies those of connectors). The pipe's end means that the worker
is gone. Then this application ends at once, with its JVM and tasks.

The JVM starts as soon as that line is read. Everything else is imported while the JVM comes up.
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
from collections.abc import Callable
from typing import Any, Final

import psutil

from mirror_connect.connectors.spark_masters import is_local
from mirror_connect.connectors.user_code.hidden_memory import hide_memory
from mirror_connect.spark_jobs.jvm import JvmEndedError
from mirror_connect.spark_jobs.log_levels import log_to_standard_error
from mirror_connect.spark_jobs.session import Opening
from mirror_connect.spark_jobs.spark_settings import DEFAULTS, archive_option

log = logging.getLogger("mirror_connect.spark_jobs")
# Set when this process ends its JVM itself.
_ending: Final = threading.Event()
# What is done then before all processes are killed.
_first_of_all: Final[list[Callable[[], None]]] = []


def run(hello: dict[str, Any]) -> None:
    """Opens the session, and applies the worker's plan until the process ends."""
    scratch = hello["scratch"]
    user: dict[str, str] = {"spark.sql.warehouse.dir": f"file:{scratch}/warehouse", **hello["spark"]}
    # Executors elsewhere have no such directory. The driver's is by default Java's temporary directory, which is this one.
    if is_local(user.get("spark.master", DEFAULTS["spark.master"])):
        user.setdefault("spark.local.dir", scratch)
    if not archive_option():
        log.info("Spark starts without an archive of its classes, in twice the time. mirror-connect archive makes one")
    try:
        opening = Opening(user, statements=hello["statements"])
    except OSError as error:
        log.critical("its JVM could not be started: %s", error)
        sys.exit(1)
    log.debug("Start: the JVM is coming up")
    from mirror_connect.spark_jobs import kubernetes_objects  # noqa: PLC0415 — see the module
    from mirror_connect.spark_jobs.application import Application  # noqa: PLC0415

    try:
        session = opening.session()
    except JvmEndedError:
        sys.exit(1)
    log.debug("Start: the session is open")
    jvm: subprocess.Popen[bytes] = session.sparkContext._gateway.proc
    threading.Thread(target=_end_with_the_jvm, args=(jvm,), name="jvm", daemon=True).start()
    if kubernetes_objects.are_made(session):
        _first_of_all.append(kubernetes_objects.ending(session))
        kubernetes_objects.remove_in_background(session)
    Application(hello, session).run()


def _end_with_the_worker(scratch: str) -> None:
    """Blocks until standard input ends, then ends this whole process tree without asking any of it."""
    while sys.stdin.readline():
        pass
    _ending.set()
    # py4j logs the loss of its JVM, which is intended here.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    for step in _first_of_all:
        step()
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
    milestones = os.environ.get("MIRROR_CONNECT_LOG_LEVEL", "").upper() == "DEBUG"
    log_to_standard_error(logging.DEBUG if milestones else logging.INFO)
    for noisy in ("py4j", "pyspark"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    first_line = sys.stdin.readline()
    if not first_line:
        return  # the worker ended before it wrote the first line
    hello = json.loads(first_line)
    ending = threading.Thread(target=_end_with_the_worker, args=(hello["scratch"],), name="stdin", daemon=True)
    ending.start()
    try:
        run(hello)
    finally:
        if _ending.is_set():
            # If Spark's start loses its JVM, it fails here. The other thread still kills processes, and then ends this one.
            # An earlier end could leave a JVM that has just started, which would stay for ever.
            ending.join()


if __name__ == "__main__":
    main()
