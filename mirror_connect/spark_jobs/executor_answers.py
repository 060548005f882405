"""Whether the JVMs of executors answer: a frozen one, or one behind a cut network, does not.

Spark's driver notices that after two minutes. Here each executor with tasks is asked now and then for the state of a block
that does not exist, which costs it nothing. Nobody waits for the answer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("mirror_connect.spark_jobs")
ASKED_EVERY_S: Final = 5.0


@dataclass
class _Asked:
    """`answer`: Spark's future, None if it has come. `silent_since`: when the first question without an answer was asked."""

    executor: Any
    at: float
    answer: Any = None
    silent_since: float | None = None


class ExecutorAnswers:
    """See the module. `clock` gives seconds."""

    def __init__(self, session: SparkSession, clock: Callable[[], float] = time.monotonic) -> None:
        self._jvm: Any = session.sparkContext._jvm
        self._clock = clock
        self._asked: dict[str, _Asked] = {}
        self._question: Any = None
        self._any: Any = None

    def keep(self, executors: Collection[str]) -> None:
        """Forgets all but these."""
        self._asked = {each: asked for each, asked in self._asked.items() if each in executors}

    def silent_s(self, executor: str) -> float:
        """For how long it has not answered; 0 if it has, or can't be asked yet."""
        try:
            return self._look(executor, self._clock())
        except Exception:  # an executor that comes or goes; without an answer others judge it as before
            log.debug("Executor %s can't be asked", executor, exc_info=True)
            self._asked.pop(executor, None)
            return 0.0

    def _look(self, executor: str, now: float) -> float:
        asked = self._asked.get(executor)
        if asked is None:
            asked = self._asked[executor] = _Asked(self._reference(executor), now - ASKED_EVERY_S)
        if asked.answer is not None and asked.answer.isCompleted():
            if asked.answer.value().get().isSuccess():
                asked.silent_since = None
            asked.answer = None
        if asked.answer is None and now - asked.at >= ASKED_EVERY_S:
            asked.answer, asked.at = asked.executor.ask(self._question, self._any), now
            asked.silent_since = now if asked.silent_since is None else asked.silent_since
        return 0.0 if asked.silent_since is None else now - asked.silent_since

    def _reference(self, executor: str) -> Any:
        """Of its block manager, which each executor has. An error if it has not registered yet."""
        spark = self._jvm.org.apache.spark
        if self._question is None:
            block = spark.storage.BroadcastBlockId(0, "nothing")
            self._question = getattr(spark.storage, "BlockManagerMessages$GetBlockStatus")(block, False)
            # Of any type: the answer is that it answers.
            self._any = getattr(getattr(self._jvm.scala.reflect, "ClassTag$"), "MODULE$").Any()
        return spark.SparkEnv.get().blockManager().master().getExecutorEndpointRef(executor).get()
