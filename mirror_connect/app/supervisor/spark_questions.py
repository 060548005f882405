"""Questions that only Spark can answer: the worker asks, the driver of its Spark application fetches and answers.

The driver answers each in a thread of its own, beside its queries (spark_jobs/questions.py). Jobs run only for a preview
that joins lookups. A question has a time limit, in which Spark may still be starting.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

# Longer than a start of Spark, and less than a client of REST waits (90 s).
PATIENCE_S: Final = 30.0
MOST_WAITING: Final = 32


class SparkAway(Exception):
    """Spark did not answer in time; the text says why, and what to do."""


class SparkSlow(SparkAway):
    """It is there, and works on the question."""


@dataclass(eq=False)
class _Question:
    number: int
    kind: str
    body: Any = field(repr=False)
    answered: asyncio.Future[Any] = field(repr=False)


class SparkQuestions:
    """See the module. `absence`: why there is no Spark now, as a line for people; None if it is there.

    `asked` is called with each question, which may be the first reason for that Spark.
    """

    def __init__(self, absence: Callable[[], str | None], asked: Callable[[], None] = lambda: None) -> None:
        self._absence = absence
        self._tell = asked
        self._numbers = itertools.count(1)
        # Not answered yet, in order.
        self._open: dict[int, _Question] = {}
        self._waiting: list[_Question] = []
        self._asked = asyncio.Event()

    @property
    def waiting(self) -> bool:
        """Whether there is one that is not answered."""
        return bool(self._open)

    async def ask(self, kind: str, body: Any, patience_s: float = PATIENCE_S) -> Any:
        """The driver's answer. SparkAway."""
        if len(self._open) >= MOST_WAITING:
            raise SparkAway(f"{MOST_WAITING} other questions wait for Spark: try again")
        question = _Question(next(self._numbers), kind, body, asyncio.get_running_loop().create_future())
        self._open[question.number] = question
        self._waiting.append(question)
        self._asked.set()
        self._tell()
        try:
            async with asyncio.timeout(patience_s):
                return await question.answered
        except TimeoutError:
            why = self._absence()
            # It is a sentence for statuses.
            found = f" ({why.removesuffix('.')})" if why else ""
            error = SparkSlow if why is None and question not in self._waiting else SparkAway
            raise error(f"Spark did not answer within {patience_s:g} s{found}: try again") from None
        finally:
            del self._open[question.number]
            if question in self._waiting:
                self._waiting.remove(question)

    async def next(self, hold_s: float) -> dict[str, Any] | None:
        """The next question for the driver; waits for one. None: there is none yet."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(hold_s):
                if not self._waiting:
                    self._asked.clear()
                    await self._asked.wait()
        if not self._waiting:
            return None
        question = self._waiting.pop(0)
        return {"number": question.number, "kind": question.kind, "body": question.body}

    def answer(self, number: int, answer: Any) -> None:
        """The driver's answer. Nobody may wait for it any more."""
        question = self._open.get(number)
        if question is not None and not question.answered.done():
            question.answered.set_result(answer)

    def end(self) -> None:
        """Answers a request of the driver that is held."""
        self._asked.set()
