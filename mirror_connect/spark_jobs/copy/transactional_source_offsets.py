"""Writes a task's source offsets in the same transaction as the records that they belong to.

They are written last: whoever reads connect-offsets to its end has to wait for each transaction that is open there.
"""

from __future__ import annotations

import time

from mirror_connect.connectors.task_protocol import TaskPartition, TaskSpec
from mirror_connect.kafka_io.producer.batch_producer import BatchProducer
from mirror_connect.kafka_io.records.record_batch import NewRecord
from mirror_connect.spark_jobs.copy.source_offsets_writer import SourceOffsetsWriter


class TransactionalSourceOffsets(SourceOffsetsWriter):
    """Call `prepare` and `write` in the transaction, then `committed` or `aborted`."""

    def __init__(self, producer: BatchProducer, spec: TaskSpec) -> None:
        super().__init__(producer, spec)
        self._prepared: dict[int, list[NewRecord]] = {}
        self._began = 0.0

    @property
    def changed(self) -> bool:
        """Whether noted offsets differ from the committed ones."""
        return any(each.offset >= 0 and self._committed.get(p) != each for p, each in self._noted.items())

    async def prepare(self) -> None:
        """Makes the records of offsets that changed since the last commit. The transaction may be aborted meanwhile."""
        self._begin()
        self._prepared = await self._records()

    async def write(self) -> None:
        """Writes what `prepare` made. TransactionAbortedError, PartitionRefusedError."""
        self._began = time.monotonic()
        await self._send(self._prepared)

    def committed(self) -> None:
        """The transaction was committed."""
        self.commits += bool(self._written)
        self.measures.done(self.measures.noted_ms, time.monotonic() - self._began if self._written else None)
        self._committed.update(self._written)
        self._written = {}

    def aborted(self) -> None:
        """The transaction was aborted. What `take_back` has not taken back is written in the next one."""
        self.measures.failed += 1
        self._noted = {**self._written, **self._noted}
        self._written = {}

    def take_back(self, partition: TaskPartition) -> None:
        """The partition is copied again: what was noted of it is not true any more."""
        self._noted.pop(partition, None)
        self._written.pop(partition, None)
