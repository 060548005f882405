"""Writes a task's own records in transactions: heartbeats and checkpoints, with the source offsets that belong to them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from mirror_connect.connectors.problems import Problem
from mirror_connect.kafka_io.producer.batch_producer import BatchProducer
from mirror_connect.kafka_io.producer.own_records import OwnRecords
from mirror_connect.kafka_io.producer.transaction_errors import AbortCause, TransactionAbortedError
from mirror_connect.kafka_io.records.record_batch import NewRecord

# Topic and number.
Place = tuple[str, int]


class OwnTransactions:
    """One transaction at a time; other calls wait. Nothing else writes with this producer, which is a transactional one."""

    def __init__(self, producer: BatchProducer) -> None:
        self._producer = producer
        self._one = asyncio.Lock()
        self._writers: dict[Place, OwnRecords] = {}

    async def write(self, records: Mapping[Place, Sequence[NewRecord]]) -> None:
        """Writes all of them in one transaction, again and again until it is committed. PartitionRefusedError."""
        transactions = self._producer.transactions
        if transactions is None:
            raise RuntimeError("this producer has no transactions")
        async with self._one:
            while True:
                await transactions.begin()
                try:
                    await self._write_all(records)
                    await transactions.commit()
                except TransactionAbortedError:
                    continue
                except BaseException:
                    # The next one could not begin while this one is open.
                    transactions.break_off(TransactionAbortedError(AbortCause.GIVEN_UP, "its records were given up"))
                    raise
                return

    @property
    def problems(self) -> Iterable[Problem | None]:
        """The problems of partitions that don't accept their records at present."""
        return [writer.target.problem for writer in self._writers.values()]

    async def _write_all(self, records: Mapping[Place, Sequence[NewRecord]]) -> None:
        writing = [asyncio.ensure_future(self._writer(*place).write(each)) for place, each in records.items()]
        try:
            await asyncio.gather(*writing)
        finally:
            await asyncio.gather(*writing, return_exceptions=True)

    def _writer(self, topic: str, partition: int) -> OwnRecords:
        if (topic, partition) not in self._writers:
            self._writers[topic, partition] = OwnRecords(self._producer, topic, partition)
        return self._writers[topic, partition]
