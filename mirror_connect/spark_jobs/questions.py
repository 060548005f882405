"""Answers the worker's questions from the session of its Spark application, in a thread beside the queries."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from mirror_connect.spark_jobs.internal_http import InternalHttp, RunOverError, WorkerUnreachableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("mirror_connect.spark_jobs")
# Longer than the worker holds a request.
HOLD_TIMEOUT_S: Final = 15.0
PAUSE_S: Final = 0.5


class Questions:
    """Fetches questions and answers them, one after the other."""

    def __init__(self, http: InternalHttp, session: SparkSession) -> None:
        self._http = http
        self._session = session
        # Made for the first question about a statement.
        self._of_statements: SparkSession | None = None

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
        if question is not None:
            answer = self._answer(question["kind"], question["body"])
            self._http.call("POST", "/answer", {"number": question["number"], "answer": answer})

    def _answer(self, kind: str, body: Any) -> Any:
        from mirror_connect.spark_jobs.compute.statement import statement_session  # noqa: PLC0415 — seldom needed
        from mirror_connect.spark_jobs.compute.statement_answers import statement_answer  # noqa: PLC0415

        try:
            if kind != "statement":
                raise ValueError(f"a question of kind {kind}")
            if self._of_statements is None:
                self._of_statements = statement_session(self._session)
            return statement_answer(self._of_statements, body)
        except Exception as error:  # whoever asked must not wait for nothing
            log.exception("A question of the worker's could not be answered")
            return {"problem": f"Spark could not read it: {type(error).__name__}", "setting": None}
