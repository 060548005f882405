"""What a dead letter holds: the record as the source has it, and, if the config wants that, headers about the error.

The headers are those of Kafka Connect's sinks. Their text has nothing of what the record holds, and no secret of the config.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from mirror_connect.connectors.mirror.dead_letters import DeadLetterTopic, transformation_classes
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.record_errors import RecordError
from mirror_connect.connectors.secrets import redact, secrets_of
from mirror_connect.connectors.task_protocol import TaskSpec
from mirror_connect.kafka_io.records import context_headers as headers
from mirror_connect.spark_jobs.copy.dead_letters import Written

STAGE: Final = "TRANSFORMATION"
# What Kafka's transformations raise for such a record.
EXCEPTION: Final = "org.apache.kafka.connect.errors.DataException"
# A reason may have a position in the record. Then each record has a reason of its own.
_MOST_KEPT: Final = 1_000


class LetterContext:
    """Of one task. `hidden`: values that no text may show."""

    def __init__(self, connector: str, task: int, config: Mapping[str, str], hidden: Collection[str] = ()) -> None:
        self._classes = transformation_classes(config)
        self._hidden = secrets_of(config).union(hidden)
        self._of_task = (headers.header(headers.CONNECTOR, connector), headers.header(headers.TASK, str(task)))
        self._of_partitions: dict[TopicPartition, tuple[bytes, bytes]] = {}
        self._of_reasons: dict[tuple[str, str], tuple[bytes, ...]] = {}

    def written(self, partition: TopicPartition, error: RecordError) -> bytes:
        """A letter with headers about the error."""
        assert error.original is not None
        rest = error.original.rest
        try:
            return headers.with_headers(rest, self._added(partition, error))
        except (ValueError, IndexError, OverflowError):
            return rest  # as it is better than not at all

    def _added(self, partition: TopicPartition, error: RecordError) -> list[bytes]:
        where = self._of_partitions.get(partition)
        if where is None:
            where = self._of_partitions[partition] = (
                headers.header(headers.TOPIC, partition.topic),
                headers.header(headers.PARTITION, str(partition.partition)),
            )
        why = self._of_reasons.get((error.transformation, error.reason))
        if why is None:
            if len(self._of_reasons) >= _MOST_KEPT:
                self._of_reasons.clear()
            why = self._of_reasons[error.transformation, error.reason] = self._why(error)
        return [*where, headers.header(headers.OFFSET, str(error.offset)), *self._of_task, *why]

    def _why(self, error: RecordError) -> tuple[bytes, ...]:
        message = redact(f"transformation {error.transformation} can't take the record: {error.reason}", self._hidden)
        return (
            headers.header(headers.STAGE, STAGE),
            headers.header(headers.CLASS, self._classes.get(error.transformation, error.transformation)),
            headers.header(headers.EXCEPTION, EXCEPTION),
            headers.header(headers.MESSAGE, message),
            # There is no stack of Java's behind it.
            headers.header(headers.STACK_TRACE, f"{EXCEPTION}: {message}\n"),
        )


def as_it_was(_: TopicPartition, error: RecordError) -> bytes:
    """A letter without further headers."""
    assert error.original is not None
    return error.original.rest


def written_of(topic: DeadLetterTopic, spec: TaskSpec) -> Written:
    """What makes the letters of a task."""
    if not topic.context:
        return as_it_was
    return LetterContext(spec.connector, spec.task, spec.config, spec.hidden).written
