"""Answers the worker's questions from the session of its Spark application, in threads beside the queries.

A preview computes records, and an expression may take for ever. Spark also computes constants when it reads a statement.
So each question has a thread of its own. There are at most MOST_PREVIEWS of previews, and MOST_STATEMENTS of statements.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from mirror_connect.spark_jobs.internal_http import InternalHttp, RunHandle, RunOverError, WorkerUnreachableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("mirror_connect.spark_jobs")
# Longer than the worker holds a request.
HOLD_TIMEOUT_S: Final = 15.0
PAUSE_S: Final = 0.5
MOST_TRIES: Final = 5
MOST_PREVIEWS: Final = 2
MOST_STATEMENTS: Final = 4
# For how long a statement waits while so many others are read. The worker holds its question for longer.
WAIT_S: Final = 5.0
_OUT_OF_MEMORY: Final = "java.lang.OutOfMemoryError"
_PREVIEW: Final = "preview"
# A preview with a function of the user's.
_FUNCTION: Final = "function"


class Questions:
    """Fetches questions and answers them. `answers`: another connection, since `http` waits for the next question.

    `tasks_url`, `fingerprint`: where Spark's processes reach the worker.
    """

    def __init__(
        self,
        http: InternalHttp,
        session: SparkSession,
        answers: InternalHttp | None = None,
        tasks_url: str = "",
        fingerprint: str = "",
    ) -> None:
        self._tasks = tasks_url, fingerprint
        self._http = http
        self._answers = answers or http
        self._session = session
        # Made for the first question about a statement.
        self._of_statements: SparkSession | None = None
        self._made = threading.Lock()
        self._free = threading.Semaphore(MOST_PREVIEWS)
        self._readers = threading.Semaphore(MOST_STATEMENTS)

    def start(self) -> None:
        """Begins, in a thread."""
        threading.Thread(target=self._run, name="questions", daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                self.answer_next()
            except (WorkerUnreachableError, RunOverError):
                time.sleep(PAUSE_S)

    def answer_next(self) -> None:
        """Waits for a question, and answers it. WorkerUnreachableError, RunOverError."""
        question = self._http.call("GET", "/question", timeout=HOLD_TIMEOUT_S)["question"]
        if question is None:
            return
        if question["kind"] in (_PREVIEW, _FUNCTION):
            free, taken = self._free, self._free.acquire(blocking=False)
            others = f"{MOST_PREVIEWS} other previews are still computed"
        else:
            free, taken = self._readers, self._readers.acquire(timeout=WAIT_S)
            others = f"Spark still reads {MOST_STATEMENTS} other statements"
        if taken:
            name = f"answer-{question['kind']}"
            threading.Thread(target=self._work, args=(question, free), name=name, daemon=True).start()
        else:
            busy = f"{others}: try again, and restart the worker if they never end"
            self._tell(question, {"problem": busy, "setting": None})

    def _work(self, question: dict[str, Any], free: threading.Semaphore) -> None:
        try:
            self._tell(question, self._answer(question))
        except (WorkerUnreachableError, RunOverError):
            log.debug("The answer to a question (%s) did not reach the worker", question["kind"])
        finally:
            free.release()

    def _tell(self, question: dict[str, Any], answer: Any) -> None:
        """Again if need be. The worker keeps no connection for long without a request."""
        told = {"number": question["number"], "answer": answer}
        for _ in range(MOST_TRIES - 1):
            try:
                self._answers.call("POST", "/answer", told)
            except WorkerUnreachableError:
                time.sleep(PAUSE_S / 5)
            else:
                return
        self._answers.call("POST", "/answer", told)

    def _answer(self, question: dict[str, Any]) -> Any:
        from mirror_connect.spark_jobs.compute.statement import statement_session  # noqa: PLC0415 — seldom needed
        from mirror_connect.spark_jobs.compute.statement_error import class_name, needs_too_much  # noqa: PLC0415

        try:
            with self._made:
                if self._of_statements is None:
                    self._of_statements = statement_session(self._session)
            if question["kind"] == _PREVIEW:
                return self._previewed(self._of_statements, question["body"])
            return _answered(self._of_statements, question["kind"], question["body"])
        except Exception as error:  # noqa: BLE001 — whoever asked must not wait for nothing
            # Neither text nor trace: Spark's errors quote values of records.
            too_much = needs_too_much(error)
            what = too_much or class_name(error)
            # As a statement that Spark refuses, it is for whoever wrote it. Memory is also for the operator, who sizes it.
            theirs = too_much is not None and class_name(error) != _OUT_OF_MEMORY
            level = logging.INFO if theirs else logging.ERROR
            log.log(level, "A question of the worker's (%s) could not be answered: %s", question["kind"], what)
            return {"problem": f"Spark could not read it: {what}", "setting": None}

    def _previewed(self, session: SparkSession, body: Any) -> Any:
        from mirror_connect.spark_jobs.compute.statement_preview import preview_answer  # noqa: PLC0415 — with pyarrow
        from mirror_connect.spark_jobs.computing_query import lookup_frame  # noqa: PLC0415 — seldom needed

        if (run := body.get("run")) is None:
            return preview_answer(session, body)
        url, fingerprint = self._tasks
        handle = RunHandle(url, run["run_id"], run["token"], fingerprint)
        return preview_answer(session, body, lambda join, sql: lookup_frame(session, handle, join, sql))


def _answered(session: SparkSession, kind: str, body: Any) -> Any:
    from mirror_connect.spark_jobs.compute.statement_answers import statement_answer  # noqa: PLC0415 — seldom needed

    if kind == "statement":
        return statement_answer(session, body)
    if kind == _FUNCTION:
        from mirror_connect.spark_jobs.compute.function_preview import function_answer  # noqa: PLC0415 — with pyarrow

        return function_answer(body)
    raise ValueError(f"a question of kind {kind}")
