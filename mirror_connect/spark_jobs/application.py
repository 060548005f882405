"""The driver's loop: one streaming query for each run in the worker's plan, and reports of their states."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mirror_connect.connectors.spark_masters import is_local
from mirror_connect.connectors.task_protocol import LogLevels
from mirror_connect.spark_jobs.executor_errors import executor_line, fatal_error, statement_line
from mirror_connect.spark_jobs.executors import Executors
from mirror_connect.spark_jobs.full_heap import FullHeap
from mirror_connect.spark_jobs.internal_http import InternalHttp, RunHandle, RunOverError, WorkerUnreachableError
from mirror_connect.spark_jobs.jvm_figures import EVERY_S, heap_sample, jvm_figures
from mirror_connect.spark_jobs.jvm_log import set_jvm_level
from mirror_connect.spark_jobs.log_levels import apply
from mirror_connect.spark_jobs.missing_executor import MissingExecutor
from mirror_connect.spark_jobs.query import start_query, warm_up
from mirror_connect.spark_jobs.questions import Questions
from mirror_connect.spark_jobs.warm_executors import WarmExecutors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("mirror_connect.spark_jobs")
REPORT_S: Final = 0.5
PLAN_TIMEOUT_S: Final = 15.0
_FULL_ADVICE: Final = "Raise spark.transform.driver.memory, or make the statement smaller"


class Application:
    """Makes the running queries equal the plan, and reports their states to the worker. `hello`: see __main__.py."""

    def __init__(self, hello: dict[str, Any], session: SparkSession) -> None:
        self._plan_http = InternalHttp(hello["url"], hello["token"])
        self._report_http = InternalHttp(hello["url"], hello["token"])
        # Where executors reach the worker: on a cluster not where this driver does.
        tasks = hello.get("tasks") or {"url": hello["url"], "fingerprint": ""}
        self._tasks_url: str = tasks["url"]
        self._fingerprint: str = tasks["fingerprint"]
        self._questions: Questions | None = None
        if hello["statements"]:
            asked, answers = (InternalHttp(hello["url"], hello["token"]) for _ in range(2))
            self._questions = Questions(asked, session, answers, self._tasks_url, self._fingerprint)
        self._scratch = Path(hello["scratch"])
        self._queries: dict[str, Any] = {}
        self._failed_starts: dict[str, str] = {}
        self._session = session
        # On this machine, slots never change.
        local = is_local(session.sparkContext.master)
        self._slots = session.sparkContext.defaultParallelism if local else 0
        self._executors = None if local else Executors(session)
        self._missing = None if local else MissingExecutor(session)
        self._warm = None if local else WarmExecutors(session.sparkContext)
        self._jvm_told = -EVERY_S
        # Where statements are applied in this JVM. On a cluster executors apply them.
        self._full_heap = FullHeap() if local and hello["statements"] else None

    def run(self) -> None:
        """Applies the plan until the process ends."""
        threading.Thread(target=self._report_for_ever, name="reports", daemon=True).start()
        if self._questions is not None:
            self._questions.start()
        version, cold = -1, True
        while True:
            try:
                plan = self._plan_http.call("GET", f"/plan?after={version}", timeout=PLAN_TIMEOUT_S)
            except (WorkerUnreachableError, RunOverError):
                time.sleep(REPORT_S)
                continue
            version = plan["version"]
            self._set_log_levels(LogLevels(**plan["log_levels"]))
            if cold and not plan["runs"]:
                threading.Thread(target=self._warm_up, name="warm-up", daemon=True).start()
            cold = False
            if self._executors is not None:
                # Before queries start: they must not begin there.
                self._executors.replace(plan.get("given_up", ()))
            self._apply({run["run_id"]: run for run in plan["runs"]})

    def _set_log_levels(self, told: LogLevels) -> None:
        try:
            apply(told, lambda name, level: set_jvm_level(self._session, name, level))
        except Exception:  # tasks must run whatever the log does
            log.exception("log levels were not set")

    def _warm_up(self) -> None:
        """Nobody waits for this session's first query, so it is one that does nothing."""
        scratch = self._scratch / "warm-up"
        try:
            warm_up(self._session, str(scratch))
            log.debug("Start: the first query has ended")
        except Exception:  # the next query shows what is wrong
            log.debug("The first query failed", exc_info=True)
        shutil.rmtree(scratch, ignore_errors=True)

    def _apply(self, wanted: dict[str, dict[str, Any]]) -> None:
        for run_id in [known for known in self._queries if known not in wanted]:
            # The worker removes a run from the plan when its task has returned or was killed.
            query = self._queries.pop(run_id)
            if self._executors is None:
                self._stop(run_id, query)
            else:
                # Its executor may be frozen, and others must not wait for it.
                threading.Thread(target=self._stop, args=(run_id, query), name=f"stop-{run_id}", daemon=True).start()
        for run_id in [known for known in self._failed_starts if known not in wanted]:
            del self._failed_starts[run_id]
        for run_id, run in wanted.items():
            if run_id in self._queries or run_id in self._failed_starts:
                continue
            try:
                handle = RunHandle(self._tasks_url, run_id, run["token"], self._fingerprint)
                scratch = str(self._scratch / run_id)
                self._queries[run_id] = self._start(run, handle, scratch)
                log.debug("Start: the query of run %s is started", run_id)
            except Exception as error:  # the worker shows it as the failure of this task alone
                log.exception("query of run %s did not start", run_id)
                self._failed_starts[run_id] = f"{type(error).__name__}: {error}"

    def _start(self, run: dict[str, Any], handle: RunHandle, scratch: str) -> Any:
        if run.get("sql") is None:
            return start_query(self._session, handle, scratch, shared=run["shared"])
        # Most drivers never need these.
        from mirror_connect.connectors.mirror.record_transform import transform_from_json  # noqa: PLC0415
        from mirror_connect.spark_jobs.computing_query import start_computing_query  # noqa: PLC0415

        return start_computing_query(self._session, handle, transform_from_json(run["sql"]), scratch)

    def _stop(self, run_id: str, query: Any) -> None:
        try:
            query.stop()
        except Exception:  # an error of one query must not affect the others
            log.exception("query of run %s did not stop", run_id)
        shutil.rmtree(self._scratch / run_id, ignore_errors=True)

    def _jvm_figures(self) -> dict[str, Any] | None:
        """Now and then; None in between, and if the JVM does not answer."""
        now = time.monotonic()
        if now - self._jvm_told < EVERY_S:
            return None
        self._jvm_told = now
        try:
            return jvm_figures(self._session.sparkContext._jvm)
        except Exception:  # figures alone must not end the reports
            log.debug("The figures of the JVM can't be read", exc_info=True)
            return None

    def _heap_problem(self) -> str | None:
        """That the heap is too full to work with, and what to do; None if it is not."""
        if self._full_heap is None:
            return None
        try:
            found = self._full_heap.take(heap_sample(self._session.sparkContext._jvm, time.monotonic()))
        except Exception:  # without its JVM this process ends soon
            log.debug("The heap can't be read", exc_info=True)
            return None
        return None if found is None else f"{found}. {_FULL_ADVICE}"

    def _report_for_ever(self) -> None:
        while True:
            runs: dict[str, dict[str, str | None]] = {
                run_id: {"state": "ENDED", "error": error} for run_id, error in self._failed_starts.copy().items()
            }
            for run_id, query in self._queries.copy().items():
                runs[run_id] = state_of(query)
            figures = self._jvm_figures()
            full = None if figures is None else self._heap_problem()
            with contextlib.suppress(WorkerUnreachableError, RunOverError):
                report = {"runs": runs, "pid": os.getpid(), "jvm": figures, "full": full, **self._room()}
                self._report_http.call("POST", "/driver", report)
            if full is not None:
                # Nothing else interrupts an expression. The worker knows by now which tasks wait for one.
                log.critical("%s", full)
                self._session.sparkContext._gateway.proc.kill()
                return
            time.sleep(REPORT_S)

    def _room(self) -> dict[str, Any]:
        """How many slots there are; on a cluster, of which executors. Ends the JVM if Spark has ended the application."""
        if self._executors is None:
            return {"slots": self._slots}
        try:
            if self._executors.stopped:
                log.critical("its cluster has ended the application; the lines before in the log say why")
                self._session.sparkContext._gateway.proc.kill()
            executors = self._executors.all()
            self._slots = self._executors.slots()
        except Exception:  # without its JVM this process ends soon
            log.debug("The executors can't be read", exc_info=True)
            # No list, as an empty one would say that all are lost.
            return {"slots": self._slots}
        if self._warm is not None:
            self._warm.seen(each["id"] for each in executors if not each["draining"])
        room = {"slots": self._slots, "executors": executors}
        return room if executors or self._missing is None else {**room, "missing": self._missing.told()}


def state_of(query: Any) -> dict[str, str | None]:
    """ACTIVE, ENDED with its error, or UNKNOWN with the reason if the state can't be read.

    `fatal`: of what a record needed more than there is, STACK or MEMORY.
    """
    try:
        if query.isActive:
            return {"state": "ACTIVE", "error": None}
    except Exception as error:  # noqa: BLE001 — the worker decides; without a JVM this process ends soon
        return {"state": "UNKNOWN", "error": _first_line(error)}
    try:
        why = str(query.exception() or "the query ended")
        line = executor_line(why) or statement_line(why) or why
        fatal = fatal_error(why)
        return {"state": "ENDED", "error": line} if fatal is None else {"state": "ENDED", "error": line, "fatal": fatal}
    except Exception as error:  # noqa: BLE001 — it has ended anyway
        return {"state": "ENDED", "error": f"the query ended, and its error can't be read: {_first_line(error)}"}


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
