"""What becomes of records that can't be transformed: errors.tolerance, errors.log.enable and errors.log.include.messages.

With `none` the first of them ends the task, after everything before it is committed. With `all` they are skipped, and
counted. A line in the log is written only if the config wants one. It shows the record only if the config wants that, too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from mirror_connect.connectors.config.table import Settings
from mirror_connect.connectors.mirror.dead_letters import DeadLetterTopic
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.record_errors import RecordError, SkippedRecords, TransformationError
from mirror_connect.connectors.wording import counted

_MOST_SHOWN: Final = 1000
MEND: Final = (
    "Correct the transformation or the producer of such records, or skip them with errors.tolerance=all. "
    "Then restart the task"
)


class ErrorCounts:
    """How many records could not be transformed, were skipped, and are in the log. `last_ms`: when the last one came.

    `letters`: given to the dead letter topic; `failed_letters`: refused by it.
    """

    __slots__ = ("errors", "failed_letters", "last_ms", "letters", "logged", "skipped")

    def __init__(self) -> None:
        self.errors = self.skipped = self.logged = 0
        self.letters = self.failed_letters = 0
        self.last_ms: int | None = None


class RecordFailures:
    """Of one task. `log`: takes a line. `wall`: seconds since 1970. `failed` is set when a record has ended the task.

    `letters`: the topic that skipped records go to; None: they go nowhere.
    """

    def __init__(
        self,
        settings: Settings,
        log: Callable[[str], None],
        wall: Callable[[], float] = time.time,
        *,
        letters: DeadLetterTopic | None = None,
    ) -> None:
        self._what = "is skipped, as errors.tolerance=all" if letters is None else f"goes to topic {letters.name}"
        self._all = "are skipped" if letters is None else f"go to topic {letters.name}"
        self.tolerant = settings.text("errors.tolerance") == "all"
        self._logs = settings.boolean("errors.log.enable")
        self._shows = settings.boolean("errors.log.include.messages")
        self._log = log
        self._wall = wall
        self._line: str | None = None
        self.failed = asyncio.Event()
        self.counts = ErrorCounts()

    def skip(self, partition: TopicPartition, records: SkippedRecords) -> None:
        """These records of a batch were left out."""
        self.counts.skipped += records.count
        self._count(records.count)
        if not self._logs:
            return
        self.counts.logged += records.count
        for error in records.kept:
            self._log(f"{_line(partition, error)}. The record {self._what}{self._content(error)}")
        more = records.count - len(records.kept)
        if more:
            self._log(
                f"{partition}: {counted(more, 'more record')} of that batch could not be transformed and {self._all}"
            )

    def end(self, partition: TopicPartition, error: RecordError) -> None:
        """The task ends before this record."""
        self._count(1)
        if self._line is not None:
            return
        self._line = _line(partition, error)
        if self._logs:
            self.counts.logged += 1
            self._log(f"{self._line}{self._content(error)}")
        self.failed.set()

    def raise_failure(self) -> None:
        """TransformationError if a record has ended the task."""
        if self._line is not None:
            raise TransformationError(f"{self._line}. {MEND}")

    def _count(self, records: int) -> None:
        self.counts.errors += records
        self.counts.last_ms = int(self._wall() * 1000)

    def _content(self, error: RecordError) -> str:
        if not self._shows:
            return ""
        return f". Its key is {_shown(error.key)}, its value {_shown(error.value)}"


def _line(partition: TopicPartition, error: RecordError) -> str:
    return (
        f"{partition.topic}, partition {partition.partition}, offset {error.offset}: transformation {error.transformation} "
        f"can't take the record: {error.reason}"
    )


def _shown(raw: bytes | None) -> str:
    if raw is None:
        return "null"
    text = ascii(raw[:_MOST_SHOWN].decode(errors="backslashreplace"))
    return text if len(raw) <= _MOST_SHOWN else f"{text} and {len(raw) - _MOST_SHOWN} bytes more"
