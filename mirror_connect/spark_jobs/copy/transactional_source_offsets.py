"""Writes a task's source offsets in the same transaction as the records that they belong to.

They are written last: whoever reads connect-offsets to its end has to wait for each transaction that is open there.
"""

from __future__ import annotations

import asyncio
import time

from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.spark_jobs.copy.source_offsets_writer import SourceOffsetsWriter


class TransactionalSourceOffsets(SourceOffsetsWriter):
    """Call `write` in the transaction, then `committed` or `aborted`."""

    @property
    def changed(self) -> bool:
        """Whether noted offsets differ from the committed ones."""
        return any(each.offset >= 0 and self._committed.get(p) != each for p, each in self._noted.items())

    async def write(self) -> None:
        """Writes the offsets that changed since the last commit. TransactionAbortedError."""
        noted, self._noted = self._noted, {}
        self._written = {p: each for p, each in noted.items() if each.offset >= 0 and self._committed.get(p) != each}
        self._began = time.monotonic()
        try:
            records = self._records().items()
            await asyncio.gather(*(self._partition(number).write(each) for number, each in records))
        except PartitionRefusedError as error:
            self.measures.failed += 1
            if not self.failure.done():
                self.failure.set_exception(error)
            raise

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
