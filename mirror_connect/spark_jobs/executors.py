"""The executors of the application, as Spark knows them now, and the end of those that the worker gives up."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from mirror_connect.spark_jobs.executor_answers import ExecutorAnswers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("mirror_connect.spark_jobs")
# Spark gives the executor no task long before that; then only the cluster is waited for.
ASKED_S: Final = 1.0
# The driver is in Spark's list as well, with no slot on a cluster.
_DRIVER: Final = "driver"


class Executors:
    """Asks Spark's driver. A look is a few calls into the JVM, whatever their number."""

    def __init__(self, session: SparkSession) -> None:
        self._context: Any = session.sparkContext._jsc.sc()
        writer = session.sparkContext._jvm.org.apache.spark.status.api.v1.JacksonMessageWriter()
        self._as_json: Any = writer.mapper()
        self._answers = ExecutorAnswers(session)
        self._given_up: set[str] = set()
        self._profile: Any = self._context.resourceProfileManager().defaultResourceProfile()

    @property
    def stopped(self) -> bool:
        """Whether Spark has ended the application, as when a cluster's operator kills it."""
        return bool(self._context.isStopped())

    def slots(self) -> int:
        """How many tasks can run at a time. An executor that is being decommissioned has no slot any more."""
        return int(self._context.maxNumConcurrentTasks(self._profile))

    def all(self) -> list[dict[str, Any]]:
        """Each that is alive: `id`, `host`, `slots`, how many `tasks` it has, whether it is `draining` (decommissioned).

        `silent_s`: for how long its JVM has not answered, as long as it has tasks.
        """
        draining = self._draining()
        found = json.loads(self._as_json.writeValueAsString(self._context.statusStore().executorList(True)))
        executors = [each for each in found if each["id"] != _DRIVER]
        self._answers.keep({each["id"] for each in executors})
        return [
            {
                "id": each["id"],
                "host": _host_of(each["hostPort"]),
                "slots": each["maxTasks"],
                "tasks": each["activeTasks"],
                "draining": each["id"] in draining,
                "silent_s": round(self._answers.silent_s(each["id"]), 1) if each["activeTasks"] else 0.0,
            }
            for each in executors
        ]

    def _draining(self) -> set[str]:
        try:
            found: str = self._context.schedulerBackend().executorsPendingDecommission().keySet().mkString(",")
        except Exception:  # Spark changes the map meanwhile, or has none
            log.debug("The executors that are being decommissioned can't be read", exc_info=True)
            return set()
        return set(filter(None, found.split(",")))

    def replace(self, executors: Iterable[str]) -> None:
        """Ends these executors and asks the cluster for others. Spark gives them no task from now on.

        By itself, Spark would wait for two minutes until it takes an executor for lost. The cluster may take a while to
        answer, or may not be there, so this is done in the background.
        """
        for executor in set(executors) - self._given_up:
            self._given_up.add(executor)
            ending = threading.Thread(target=self._replace, args=(executor,), name=f"end-of-{executor}", daemon=True)
            ending.start()
            ending.join(ASKED_S)

    def _replace(self, executor: str) -> None:
        try:
            if not self._context.killAndReplaceExecutor(executor):
                log.warning("Spark did not end executor %s: it does not know it any more", executor)
        except Exception:  # Spark notices the loss later, by itself
            log.exception("executor %s was not ended", executor)


def _host_of(address: str) -> str:
    """The host of `host:port`. Of an executor that has just come Spark knows the host alone."""
    host, _, port = address.rpartition(":")
    return host if port.isdigit() and host else address
