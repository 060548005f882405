"""Whether executors answer: with a made-up Spark whose executors answer, hang, and come late.

Real executors, of which one is frozen before its first task: tests/spark/test_executors_of_a_cluster.py.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mirror_connect.spark_jobs.executor_answers import ASKED_EVERY_S, ExecutorAnswers


class _Future:
    def __init__(self, success: bool | None) -> None:
        self.success = success

    def isCompleted(self) -> bool:  # noqa: N802
        return self.success is not None

    def value(self) -> Any:
        return SimpleNamespace(get=lambda: SimpleNamespace(isSuccess=lambda: self.success))


class Spark:
    """A driver's JVM; `answers`: what the executor does with a question: True, False for an error, None for nothing."""

    def __init__(self) -> None:
        self.now = 100.0
        self.answers: bool | None = True
        self.registered = True
        self.questions: list[_Future] = []
        master = SimpleNamespace(getExecutorEndpointRef=lambda _: SimpleNamespace(get=self._reference))
        env = SimpleNamespace(blockManager=lambda: SimpleNamespace(master=lambda: master))
        storage = SimpleNamespace(BroadcastBlockId=lambda number, name: (number, name))
        setattr(storage, "BlockManagerMessages$GetBlockStatus", lambda block, ask: (block, ask))
        tags = SimpleNamespace()
        setattr(tags, "ClassTag$", SimpleNamespace(**{"MODULE$": SimpleNamespace(Any=lambda: "any")}))
        spark = SimpleNamespace(SparkEnv=SimpleNamespace(get=lambda: env), storage=storage)
        jvm = SimpleNamespace(
            org=SimpleNamespace(apache=SimpleNamespace(spark=spark)), scala=SimpleNamespace(reflect=tags)
        )
        session: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jvm=jvm))
        self.asked = ExecutorAnswers(session, lambda: self.now)

    def _reference(self) -> Any:
        if not self.registered:
            raise ValueError("None.get")
        return SimpleNamespace(ask=self._ask)

    def _ask(self, *_: object) -> _Future:
        self.questions.append(_Future(self.answers))
        return self.questions[-1]

    def later(self, seconds: float) -> float:
        """What is told after so long, with a look each half a second."""
        told = 0.0
        for _ in range(int(seconds * 2)):
            self.now += 0.5
            told = self.asked.silent_s("3")
        return told


@pytest.fixture
def spark() -> Spark:
    return Spark()


def test_who_answers_is_asked_now_and_then(spark: Spark) -> None:
    assert spark.later(60) < 1
    assert len(spark.questions) == pytest.approx(60 / ASKED_EVERY_S, abs=1)


def test_who_does_not_answer_is_silent_since_it_was_asked_and_not_asked_again(spark: Spark) -> None:
    spark.later(10)
    spark.answers = None
    asked = len(spark.questions)
    assert spark.later(30) == pytest.approx(30 - ASKED_EVERY_S / 2, abs=ASKED_EVERY_S / 2)
    assert len(spark.questions) == asked + 1
    # It wakes.
    spark.questions[-1].success = spark.answers = True
    assert spark.later(1) < 1


def test_a_question_that_failed_is_no_answer(spark: Spark) -> None:
    spark.answers = False
    assert spark.later(30) >= 29


def test_who_has_not_registered_yet_is_not_silent(spark: Spark) -> None:
    spark.registered = False
    assert spark.later(30) == 0
    spark.registered = True
    spark.answers = None
    assert spark.later(10) >= 9


def test_who_has_gone_is_forgotten(spark: Spark) -> None:
    spark.answers = None
    spark.later(30)
    spark.asked.keep({"4"})
    assert spark.later(1) < 1
