"""The transactions of a producer: when batches may be sent, how a transaction ends, and what follows if it can't commit.

There is no I/O here. transaction_coordinator.py asks, sender.py sends, producer_identity.py takes epochs. The rules:

- Batches are taken only while a transaction is open, and their partition belongs to it (transaction_partitions.py). On a
  cluster with transaction.version 2 (KIP-890) each transaction has an epoch of its own, with sequences from 0.
- EndTxn is sent when every batch is acknowledged. Only where a partition has trouble for a while, batches that were
  certainly not written stay for the next transaction: a partition without a leader doesn't hold back the others.
- If the transaction can't be committed, the producer waits for the requests under way and takes the next epoch. In KIP-890
  EndTxn gives it. Otherwise InitProducerId does: the coordinator aborts what is open before it answers. Either way the
  markers carry a higher epoch, so no late batch is written behind them. (Without KIP-890, EndTxn alone would leave the
  epoch. So it aborts only where no partition was added for certain, and no batch was sent.) Then all feeds are told.
- An EndTxn whose answer was lost is sent again, until an answer says how it ended. Then a new epoch comes first: the lost
  one may still arrive, and must not end the next transaction. If another owner came meanwhile, nobody can tell, and the
  task ends.
- The target aborts a transaction that is open for longer than transaction.timeout.ms, and so does the producer.

Whether an epoch was refused because of the timeout or of another owner is found out like this. The coordinator refuses
(id, epoch) after either of them. But it raises the epoch once to abort an open transaction, and never gives that epoch to
anybody: another owner gets a later one. So if the transaction was open for certain, (id, epoch + 1) is asked for. That
succeeds only if nobody else has come.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import Enum, auto
from typing import Final, cast

from mirror_connect.connectors.errors import NotAuthorized
from mirror_connect.connectors.problems import Problem, ProblemCode, Problems
from mirror_connect.kafka_io.producer.in_flight_batch import InFlightBatch
from mirror_connect.kafka_io.producer.produce_outcome import FencedError, FenceLostError, Outcome
from mirror_connect.kafka_io.producer.producer_identity import ProducerIdentity
from mirror_connect.kafka_io.producer.target_partition import ProducerIdAndEpoch, TargetPartition
from mirror_connect.kafka_io.producer.transaction_coordinator import TransactionCoordinator
from mirror_connect.kafka_io.producer.transaction_errors import (
    NOT_WRITTEN,
    AbortCause,
    TransactionAbortedError,
    aborts,
    concerns,
    error_of_batch,
)
from mirror_connect.kafka_io.producer.transaction_partitions import TransactionPartitions, TransactionSender
from mirror_connect.kafka_io.producer.transactional_feeds import GatedFeed
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode, error_name
from mirror_connect.kafka_io.protocol.transactions import EndTxnResponse

# A cluster is upgraded seldom. An upgrade need not be noticed sooner.
VERSION_AGE_S: Final = 60.0
# The coordinator needs one more epoch than this to abort. The next one asked for comes with another producer id.
LAST_EPOCH: Final = (1 << 15) - 2
_POLL_S: Final = 0.2
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0


class TransactionState(Enum):
    """What a producer may do."""

    READY = auto()  # no transaction is open
    OPEN = auto()
    DRAINING = auto()  # no more data is taken, the task's own records are
    COMMITTING = auto()
    ABORTING = auto()


class Transactions:
    """The transactions of one producer, one after the other. One event loop.

    `broken` is set as soon as the open transaction can't be committed any more. `commits`, `aborts`: how many there were.
    `gives_epochs`: the target has KIP-890.
    """

    def __init__(
        self,
        sender: TransactionSender,
        coordinator: TransactionCoordinator,
        identity: ProducerIdentity,
        problems: Problems,
        *,
        transactional_id: str,
        timeout_ms: int,
    ) -> None:
        self._sender = sender
        self._coordinator = coordinator
        self._identity = identity
        self._problems = problems
        self.transactional_id = transactional_id
        self._subject = f"transactional id {transactional_id}"
        self.timeout_ms = timeout_ms
        self._loop = asyncio.get_running_loop()
        self.state = TransactionState.READY
        self.broken = asyncio.Event()
        self.commits = 0
        self.aborts = 0
        self._aborted: Problem | None = None
        # It never changes while a transaction is open.
        self.gives_epochs = False
        self._version_at = -math.inf
        self.partitions = TransactionPartitions(sender, coordinator, self.sends, self._refused)
        # When the first request left, in the loop's time; None while nothing was sent.
        self._began: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._acknowledged = False
        # Whether the target was asked to commit.
        self._committing = False
        self._in_row = 0
        self._error: TransactionAbortedError | None = None
        self._outcome: asyncio.Future[None] = self._loop.create_future()
        self._closed = False

    # For the owner of the producer.

    @property
    def problem(self) -> Problem | None:
        """Why transactions are aborted again and again, or why none is ended; None after a commit."""
        return self._aborted if self._in_row > 1 else self._coordinator.problem

    @property
    def empty(self) -> bool:
        """Whether nothing was sent in this transaction."""
        return self._began is None

    @property
    def left_s(self) -> float:
        """Seconds until the target aborts the open transaction."""
        return math.inf if self._began is None else self._began + self.timeout_ms / 1000 - self._loop.time()

    async def begin(self) -> None:
        """Opens a transaction, when the one before has ended. Nothing is sent for that."""
        await self._until(lambda: self.state is TransactionState.READY, quietly=True)
        if self._closed:
            raise RuntimeError("the transactions of this producer are closed")
        if self._loop.time() - self._version_at > VERSION_AGE_S:
            await self._look_at_version()
        if self._sender.producer.epoch >= LAST_EPOCH:
            await self._begin_anew()
        self.broken.clear()
        self._error = None
        self._outcome = self._loop.create_future()
        self._enter(TransactionState.OPEN)
        self.partitions.open()

    def stop_taking(self) -> None:
        """Takes no more data in the open transaction, from now on. `drain` follows."""
        self.partitions.gate.data = False

    async def drain(self) -> None:
        """Takes no more data. Returns when each batch that was taken is acknowledged.

        A partition with lasting trouble isn't waited for, if its batches were certainly not written. The task's own records
        may still be written. TransactionAbortedError.
        """
        if self.state is TransactionState.OPEN:
            self.partitions.gate.data = False
            self._enter(TransactionState.DRAINING)
        await self._until(self.partitions.settled(own=False))

    async def commit(self) -> None:
        """Commits what was acknowledged, after `drain` and after all of the task's own records.

        Returns when the target has decided for it. TransactionAbortedError: it never will. If this is cancelled, the commit
        goes on; call it again to wait for it.
        """
        if self.state in (TransactionState.OPEN, TransactionState.DRAINING):
            await self.drain()
            settled = self.partitions.settled(own=True)
            await self._until(lambda: self.partitions.adding is None and settled())
            # From here on, without a pause in between: nothing may be sent while the end is under way.
            self._enter(TransactionState.COMMITTING)
            self.partitions.close()
            if self._began is None or not (self.partitions.added or self.gives_epochs):
                self._has_ended()
            else:
                self._committing = True
                self._sender.spawn(self._commit())
        await self._until(self._outcome.done)

    async def abort(self, why: str, cause: AbortCause = AbortCause.GIVEN_UP) -> None:
        """Gives the open transaction up. Returns when all feeds know, and the next one may begin."""
        self.break_off(TransactionAbortedError(cause, why))
        await self._until(lambda: self.state is TransactionState.READY, quietly=True)

    async def close(self, seconds: float) -> None:
        """Aborts what is open, so that readers needn't wait for its timeout. Gives up after so many seconds."""
        self._closed = True
        if self.state is TransactionState.OPEN and self._began is None:
            self.partitions.close()
            return
        try:
            async with asyncio.timeout(seconds):
                await self.abort("the task ends")
        except Exception:  # noqa: BLE001 - too late, or what `failed` has told already
            return

    # For the sender and the producer.

    async def start(self) -> None:
        """The producer id is there; nothing of a former owner is open any more."""
        await self._look_at_version()

    def admits(self, target: TargetPartition) -> bool:
        """Whether the partition may send now. If not, it is made ready later."""
        if self.state in (TransactionState.OPEN, TransactionState.DRAINING):
            return self.partitions.admits(target, at_once=self.gives_epochs)
        self.partitions.hold(target)
        return False

    def sends(self) -> None:
        """A request that may begin the target's transaction is about to be written."""
        if self._began is None:
            self._began = self._loop.time()
            self._timer = self._loop.call_later(self.timeout_ms / 1000, self._timed_out)

    def acknowledged(self, target: TargetPartition) -> None:
        """A batch is written. While its transaction is open, brokers keep their state of this producer."""
        self._acknowledged = True
        target.remembered_until = math.inf

    def judged(self, target: TargetPartition, sent: InFlightBatch, code: int) -> bool:
        """Whether the answer for a batch, with this code, concerns the transaction. Then all is done that follows."""
        if not concerns(target, sent, code):
            return False
        if code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            self._sender.fail(FenceLostError(self.transactional_id))
        error = error_of_batch(target, sent, code, self.timeout_ms)
        target.answered(sent, Outcome.RETRY, absent=code in NOT_WRITTEN)
        if error is not None:
            self.break_off(error)
        elif code == ErrorCode.CONCURRENT_TRANSACTIONS:
            self._sender.wait_shortly(target)
        return True

    def break_off(self, error: TransactionAbortedError) -> None:
        """The open transaction can't be committed. Aborts it, and tells all feeds. Does nothing if none is open."""
        if self.state in (TransactionState.OPEN, TransactionState.DRAINING):
            self._abort(error)

    # How it ends.

    async def _commit(self) -> None:
        answer = await self._coordinator.end(self._sender.producer, committed=True, gives_epoch=self.gives_epochs)
        if answer.error == ErrorCode.NONE:
            self._is_committed(answer)
        elif not self._acknowledged:
            # Nothing was in it, so nothing is lost. Brokers may have refused all batches before the target began it.
            self._coordinator.doubtful = True
            self._has_ended()
        elif self._coordinator.doubtful and answer.error != ErrorCode.INVALID_TXN_STATE:
            # It may be committed. Only who reads the target from now on can tell, and that is this task's successor.
            self._sender.fail(self._identity.fenced())
        else:
            error = aborts(answer.error, "the target refused to commit", self.timeout_ms)
            assert error is not None  # the coordinator's other answers are not final
            self._abort(error)

    def _is_committed(self, answer: EndTxnResponse) -> None:
        self.commits += 1
        self._in_row = 0
        if self._aborted is not None:
            self._aborted = None
            self._problems.resolve(self._subject, ProblemCode.TRANSACTION_ABORTED)
        following = None
        if self.gives_epochs:
            following = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch, transactional=True)
        self._has_ended(following)

    def _has_ended(self, following: ProducerIdAndEpoch | None = None) -> None:
        """It is committed, or nothing was in it. `following`: the epoch of the next one, if it is known to be another."""
        self._stop_timer()
        for target in self.partitions.touched:
            target.remembered_until = 0.0
            cast(GatedFeed, target.feed).committed()
        self._outcome.set_result(None)
        if following is not None:
            self._coordinator.doubtful = False
            self._use(following, self.partitions.touched)
        if self._coordinator.doubtful:
            self._sender.spawn(self._renew())
        else:
            self._is_ready()

    async def _renew(self) -> None:
        """Takes a new epoch before the next transaction: an EndTxn may still be under way to the target."""
        try:
            producer = await self._identity.take(self._sender.producer)
        except (FencedError, NotAuthorized) as error:
            self._sender.fail(error)
            return
        self._coordinator.doubtful = False
        self._use(producer, self._sender.partitions.values())
        self._is_ready()

    def _use(self, producer: ProducerIdAndEpoch, targets: Iterable[TargetPartition]) -> None:
        """Nothing is under way. What stayed from the last transaction gets the new epoch, with sequences from 0."""
        self._sender.producer = producer
        for target in targets:
            target.restamp(producer, fenced=True)

    def _abort(self, error: TransactionAbortedError) -> None:
        self.aborts += 1
        self._in_row += 1
        self._error = error
        self._stop_timer()
        self._enter(TransactionState.ABORTING)
        self.partitions.close()
        self._aborted = Problem(
            self._subject,
            ProblemCode.TRANSACTION_ABORTED,
            "A transaction was aborted, and its records are copied again",
            str(error),
        )
        self._problems.report(self._aborted)
        self.broken.set()
        self._sender.answered.set()
        self._sender.spawn(self._recover(error))

    async def _recover(self, error: TransactionAbortedError) -> None:
        """Takes the next epoch, which aborts what is open on the target; then tells the feeds."""
        while self._sender.busy:
            self._sender.answered.clear()
            await self._sender.answered.wait()
        await self.partitions.stop_adding()
        try:
            producer = await self._next_epoch()
        except (FencedError, NotAuthorized) as refused:
            self._sender.fail(refused)
            return
        self._coordinator.doubtful = False
        self._sender.producer = producer
        for target in self.partitions.drop():
            cast(GatedFeed, target.feed).aborted(error)
        await self._look_at_version()
        if self._in_row > 1:
            await asyncio.sleep(min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** min(self._in_row - 2, 10)))
        self._outcome.set_exception(error)
        self._outcome.exception()  # nobody may be waiting for it
        self._is_ready()

    async def _next_epoch(self) -> ProducerIdAndEpoch:
        current = self._sender.producer
        if self._began is not None and not self._committing and (self.gives_epochs or not self.partitions.added):
            answer = await self._coordinator.end(current, committed=False, gives_epoch=self.gives_epochs)
            if answer.error == ErrorCode.NONE and self.gives_epochs:
                return ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch, transactional=True)
        # The module's text says why.
        open_for_certain = not self._coordinator.doubtful and (
            self._acknowledged if self.gives_epochs else bool(self.partitions.added)
        )
        try:
            return await self._identity.take(current)
        except FencedError:
            if not open_for_certain:
                raise
        return await self._identity.take(replace(current, epoch=current.epoch + 1))

    def _is_ready(self) -> None:
        self.partitions.end()
        self._began = None
        self._acknowledged = self._committing = False
        self._enter(TransactionState.READY)

    def _timed_out(self) -> None:
        self.break_off(
            TransactionAbortedError(
                AbortCause.TIMED_OUT,
                f"it was open for longer than transaction.timeout.ms ({self.timeout_ms}); raise that, if the target's "
                "transaction.max.timeout.ms allows it, or let transactions be shorter (transaction.boundary.interval.ms)",
            )
        )

    def _refused(self, code: int) -> None:
        text = "the target refused to add partitions"
        other = TransactionAbortedError(AbortCause.BY_TARGET, f"{text} ({error_name(code)})")
        self.break_off(aborts(code, text, self.timeout_ms) or other)

    async def _until(self, happened: Callable[[], bool], *, quietly: bool = False) -> None:
        """Waits for it. Raises what ends the producer; if not `quietly`, why the transaction is aborted, once feeds know.

        FencedError, NotAuthorized, TransactionAbortedError.
        """
        sender = self._sender
        while True:
            if sender.failed.done():
                sender.failed.result()
            if not quietly and self._outcome.done() and self._outcome.exception() is not None:
                self._outcome.result()
            if self.state is not TransactionState.ABORTING and happened():
                return
            sender.answered.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await sender.answered.wait()

    async def _look_at_version(self) -> None:
        """Only between transactions. If the cluster was upgraded meanwhile, all begins with another epoch."""
        new = await self._coordinator.gives_epochs()
        known, self._version_at = self._version_at, self._loop.time()
        if new != self.gives_epochs:
            self.gives_epochs = new
            if known > -math.inf:
                await self._begin_anew()

    async def _begin_anew(self) -> None:
        self._use(await self._identity.take(self._sender.producer), self._sender.partitions.values())

    def _enter(self, state: TransactionState) -> None:
        self.state = state
        self._sender.answered.set()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
