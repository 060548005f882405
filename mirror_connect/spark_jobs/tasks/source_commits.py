"""The commits of a source task: twice a second, before partitions leave it, and for the last time.

Source offsets follow the acknowledgements of their records, and the offset ranges of these records are written before them.
With exactly-once a transaction has both (source_transactions.py); here it is only ended.

When the task is ordered to finish, it waits up to 1.5 s for batches in flight, and commits. At the end of its epoch it waits
longer: nobody waits for the task then, and a slow link needn't send the same batches twice. It doesn't wait for partitions
that the target doesn't accept at present, as all others pause meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.spark_jobs.tasks.source_parts import SourceParts
from mirror_connect.spark_jobs.tasks.source_transactions import SourceTransactions
from mirror_connect.spark_jobs.tasks.task_frame import Running

COMMIT_S: Final = 0.5
# A task that is ordered to finish ends within two seconds: 1.5 at most for acknowledgements, the rest for the commit.
SETTLE_S: Final = 1.5
# For an epoch's end: longer than any request may take, so that only an unreachable target leaves batches unacknowledged.
EPOCH_SETTLE_S: Final = 60.0
# Nobody waits for an epoch's last commit, so ranges may be slower than at any other.
PATIENT_RANGES_S: Final = 2.0
LAST_RANGES_S: Final = 0.15
LAST_COMMIT_S: Final = 0.25


class SourceCommits:
    """Of one run of a source task, in one event loop."""

    def __init__(self, parts: SourceParts) -> None:
        self._parts = parts
        # Held from reading the source offsets to their commit. Older ones must not overwrite newer ones, and none may be
        # written after the partition has gone to another task.
        self._committing = asyncio.Lock()
        # When somebody began to wait for the end, on the loop's clock; None while nobody does.
        self._awaited_since: float | None = None

    def works(self) -> Mapping[str, Coroutine[Any, Any, None]]:
        """See TaskWork."""
        transactions = self._parts.transactions
        if transactions is None:
            return {"commit": self._commit_for_ever()}
        return {**transactions.works(), "stalls": self._keep_stalls()}

    async def finish(self, works: Running) -> None:
        """Commits for the last time, when nothing is fetched any more."""
        transactions = self._parts.transactions
        if transactions is None:
            # Source offsets are committed meanwhile: a kill must not repeat more than at any other time.
            await self._settle()
            works["commit"].cancel()
            await self._commit_last()
        else:
            if works["commit"].done():
                works["commit"].result()
            await self._end(transactions)

    async def release(self, leaving: Sequence[TopicPartition]) -> None:
        """Commits what is copied of partitions that another task gets. After this nothing of them is on its way."""
        parts = self._parts
        targets = [parts.targets[p] for p in leaving]
        if parts.transactions is not None:
            if leaving:
                async with parts.transactions.held(SETTLE_S):
                    await parts.mapping.committed()
                    await parts.mapping.before_commit(SETTLE_S, last=True)
                    await parts.producer.release(targets, SETTLE_S)
            return
        await parts.producer.release(targets, SETTLE_S)
        if leaving and parts.letters is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SETTLE_S):
                    await parts.letters.settle()
        if leaving and not await self._commit_now(SETTLE_S, SETTLE_S):
            async with self._committing:
                # If these were written after the new owner's source offsets, its partitions would go back.
                await parts.source_offsets.withdraw()
            parts.link.log(
                "Source offsets of partitions that were taken away were not committed in time; records may be copied again"
            )

    async def _commit_for_ever(self) -> None:
        parts = self._parts
        interval = min(COMMIT_S, parts.spec.commit_interval_ms / 1000)
        loop = asyncio.get_running_loop()
        due = loop.time() + interval
        while True:
            # A steady pace: a wait for ranges makes the next commit no later. Yet there is a pause before each of them.
            await asyncio.sleep(max(due - loop.time(), interval / 2))
            due = loop.time() + interval
            async with self._committing:
                parts.stalled.give_back()
                parts.stalled.show(parts.problems())
                await parts.note_source_offsets()
                await parts.report_passed()
                # A crash in between leaves ranges of records that are read again. Readers of ranges expect that.
                await parts.mapping.before_commit()
                parts.source_offsets.commit()
            await parts.mapping.committed()
            parts.link.counters["commits"] = parts.source_offsets.commits

    async def _keep_stalls(self) -> None:
        """With transactions: as often as source offsets are committed without them."""
        while True:
            await asyncio.sleep(COMMIT_S)
            self._parts.stalled.give_back()
            self._parts.stalled.show(self._parts.problems())

    async def _commit_now(self, ranges_s: float, offsets_s: float) -> bool:
        """Writes offset ranges, then the source offsets that belong to them; False if these weren't written in time."""
        parts = self._parts
        async with self._committing:
            await parts.mapping.committed()
            syncs = asyncio.create_task(parts.mapping.flush(offsets_s))
            try:
                await parts.note_source_offsets()
                await parts.report_passed()
                await parts.mapping.before_commit(ranges_s, last=True)
                flushed = await parts.source_offsets.flush(offsets_s)
                await syncs
                return flushed
            finally:
                syncs.cancel()

    # The end.

    async def _settle(self) -> None:
        """Waits until all batches in flight are acknowledged; SETTLE_S at most once somebody waits for the end."""
        settling = asyncio.create_task(self._settled())
        try:
            await self._while_nobody_waits(settling)
            if not self._parts.link.abandon_wanted:
                await asyncio.wait({settling}, timeout=SETTLE_S)
        finally:
            settling.cancel()
            await asyncio.gather(settling, return_exceptions=True)

    async def _settled(self) -> None:
        await self._parts.producer.settle(self._parts.targets.values(), EPOCH_SETTLE_S)
        if self._parts.letters is not None:
            await self._parts.letters.settle()

    async def _commit_last(self) -> None:
        """Commits for the last time: patiently while nobody waits for the end, or else in the little time that is left."""
        link = self._parts.link
        self._parts.frame.raise_failure()
        patient = asyncio.create_task(self._commit_now(PATIENT_RANGES_S, EPOCH_SETTLE_S))
        try:
            await self._while_nobody_waits(patient)
            if patient.done():
                link.committed = patient.result()
                return
        finally:
            patient.cancel()
            await asyncio.gather(patient, return_exceptions=True)
        if not link.abandon_wanted:
            # The commit has what acknowledgements did not need of their time: what it leaves out is copied again.
            now = asyncio.get_running_loop().time()
            waited = 0.0 if self._awaited_since is None else now - self._awaited_since
            left = max(0.0, SETTLE_S - LAST_RANGES_S - waited)
            link.committed = await self._commit_now(LAST_RANGES_S, LAST_COMMIT_S + left)

    async def _end(self, transactions: SourceTransactions) -> None:
        """Ends the open transaction for the last time, as patiently as `_settle` and `_commit_last` are."""
        parts = self._parts
        parts.frame.raise_failure()
        ending = asyncio.create_task(transactions.end())
        try:
            await self._while_nobody_waits(ending)
            if not parts.link.abandon_wanted:
                await asyncio.wait({ending}, timeout=SETTLE_S + LAST_COMMIT_S)
            # What is left is aborted, and was never seen. But nobody knows the end of a commit that has no answer yet.
            parts.link.committed = ending.done()
            if ending.done():
                ending.result()
                await parts.mapping.committed()
                await parts.mapping.before_commit(LAST_RANGES_S, last=True)
                await parts.mapping.flush(LAST_COMMIT_S)
        finally:
            ending.cancel()
            await asyncio.gather(ending, return_exceptions=True)

    async def _while_nobody_waits(self, work: asyncio.Task[Any]) -> None:
        """Waits until the work is done, or the worker waits for this task's end or for partitions that it must give away.

        At the end of its epoch nobody waits. Then it waits for batches on a slow link, which needn't be sent twice.
        """
        link = self._parts.link
        while link.finish_wanted and not work.done():
            if link.end_ordered or link.orders.assignment_version > link.assignment_version:
                if self._awaited_since is None:
                    self._awaited_since = asyncio.get_running_loop().time()
                return
            link.changed.clear()
            heard = asyncio.create_task(link.changed.wait())
            await asyncio.wait({work, heard}, return_when=asyncio.FIRST_COMPLETED)
            heard.cancel()
