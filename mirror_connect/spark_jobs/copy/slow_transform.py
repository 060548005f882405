"""Says which records a statement or function has had for long, and ends the task if they do not come back.

An expression or a function may never return. Nothing else of the task would show that but its lag.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

from mirror_connect.connectors.mirror.record_transform import RecordTransform, setting_of_transform
from mirror_connect.connectors.mirror.transform_function import TransformFunction
from mirror_connect.connectors.mirror.transform_sql import TIMEOUT
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problem, ProblemCode, ProblemLine
from mirror_connect.connectors.record_errors import TransformationError
from mirror_connect.connectors.wording import counted
from mirror_connect.spark_jobs.copy.computed_batch import Computing

# After so many seconds the status and the log say so.
SHOWN_S: Final = 30.0
LOOK_S: Final = 0.5
# Of partitions: a function may get records of several at a time.
MOST_SHOWN: Final = 3


class SlowTransform:
    """Of one task. `timeout_ms`: spark.transform.timeout.ms. `log`: takes a line. `wall`: seconds since 1970."""

    def __init__(
        self, computing: Computing, timeout_ms: int, log: Callable[[str], None], wall: Callable[[], float] = time.time
    ) -> None:
        self._computing = computing
        self._timeout_ms = timeout_ms
        self._log = log
        self._wall = wall
        self._what = what_of(computing.transform)
        self._known: Mapping[TopicPartition, tuple[int, int]] | None = None
        self.problem: Problem | None = None

    async def watch(self) -> None:
        """Ends only with TransformationError: nothing came back within the timeout."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()

    def look(self) -> None:
        """Looks once. TransformationError."""
        waiting = self._computing.waits()
        if waiting is None or waiting.seconds < min(SHOWN_S, self._timeout_ms / 1000):
            if self.problem is not None:
                self._log(
                    ProblemLine.of(f"{self.problem.subject} continues: {self._what} has returned", self.problem.code)
                )
                self.problem = self._known = None
            return
        offsets, seconds = waiting
        where = _where(offsets)
        if seconds * 1000 >= self._timeout_ms:
            raise TransformationError(
                f"{where}: {self._what} has not returned for {seconds:.0f} s, which is more than {TIMEOUT}="
                f"{self._timeout_ms}. Correct it, or raise that setting, then restart the task"
            )
        if self._known == offsets:
            return
        self._known = offsets
        self.problem = Problem(
            str(next(iter(offsets))),
            ProblemCode.PARTITION_STALLED_TRANSFORMATION,
            f"{where}: {self._what} has not returned",
            advice=f"The task fails when that takes {self._timeout_ms / 1000:g} s ({TIMEOUT})",
            since=self._wall() - seconds,
        )
        self._log(
            ProblemLine.of(f"{self.problem.text} for {seconds:.0f} s; {_lower(self.problem.advice)}", self.problem.code)
        )


def _where(found: Mapping[TopicPartition, tuple[int, int]]) -> str:
    shown = [
        f"{partition.topic}, partition {partition.partition}, "
        + (f"offset {first}" if first == last else f"offsets {first} to {last}")
        for partition, (first, last) in list(found.items())[:MOST_SHOWN]
    ]
    more = len(found) - len(shown)
    return "; ".join([*shown, *([f"{counted(more, 'more partition')}"] if more else [])])


def what_of(transform: RecordTransform) -> str:
    """The setting, and which function it names."""
    setting = setting_of_transform(transform)
    return f"{setting} ({transform.name})" if isinstance(transform, TransformFunction) else setting


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]
