"""Which partitions belong to the open transaction, what is taken from their feeds, and whether their batches are settled.

Up to Kafka 3.9 the producer adds a partition to the transaction before its first batch there (AddPartitionsToTxn). On a
cluster with the transactions of KIP-890 its broker does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, Protocol

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.producer.target_partition import ProducerIdAndEpoch, TargetPartition
from mirror_connect.kafka_io.producer.transaction_coordinator import TransactionCoordinator
from mirror_connect.kafka_io.producer.transactional_feeds import Gate, GatedFeed, TransactionalFeed
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode

_NOT_ATTEMPTED: Final = frozenset({ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED})
# One topic can't be written to at present; others can.
_OF_ONE_TOPIC: Final = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
_NO_ANSWER: Final = -1


class TransactionSender(Protocol):
    """What transactions need of the sender."""

    producer: ProducerIdAndEpoch
    answered: asyncio.Event
    failed: asyncio.Future[None]

    @property
    def partitions(self) -> Mapping[TopicPartition, TargetPartition]:
        """All partitions of the producer."""

    @property
    def busy(self) -> bool:
        """Whether requests are under way, or batches are being split."""

    def hold(self) -> None:
        """Sends nothing until `go_on`."""

    def go_on(self) -> None:
        """Sends again."""

    def ready(self, targets: Iterable[TargetPartition]) -> None:
        """These partitions may have something to send."""

    def retry(self, target: TargetPartition, code: int, message: str, *, elsewhere: bool) -> None:
        """The partition is tried again later, because of this code."""

    def stalled(self, target: TargetPartition) -> bool:
        """Whether the partition has had trouble for a while."""

    def wait_shortly(self, target: TargetPartition) -> None:
        """The partition is tried again within milliseconds."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs this until the sender is closed. Its error ends the producer."""

    def fail(self, error: BaseException) -> None:
        """Ends the producer."""


class TransactionPartitions:
    """The partitions of one producer, as its transactions see them.

    `touched`: with a batch of this transaction, or with one that stayed from the last. `added`: by the target's word.
    `adding`: the request that adds some is under way. `sends()` is called before it; `refused(code)` if none can be added.
    """

    def __init__(
        self,
        sender: TransactionSender,
        coordinator: TransactionCoordinator,
        sends: Callable[[], None],
        refused: Callable[[int], None],
    ) -> None:
        self._sender = sender
        self._coordinator = coordinator
        self._sends = sends
        self._refused = refused
        self.gate = Gate()
        self.touched: dict[TargetPartition, None] = {}
        self.added: set[TargetPartition] = set()
        self.adding: asyncio.Task[None] | None = None
        self._to_add: dict[TargetPartition, None] = {}
        self._own: dict[TargetPartition, None] = {}

    def gated(self, feed: object, *, ahead: bool) -> GatedFeed:
        """The feed behind the gate. TypeError if it can't give its batches again."""
        if not isinstance(feed, TransactionalFeed):
            raise TypeError(f"{type(feed).__name__} can't give its batches again, as a transaction needs it")
        return GatedFeed(feed, self.gate, ahead=ahead)

    def enrol(self, target: TargetPartition, feed: GatedFeed, former: TargetPartition | None) -> None:
        """A partition of the producer, with its feed. `former`: the one in whose place it comes."""
        feed.target = target
        if target.ahead:
            self._own[target] = None
        if former is not None:
            self._own.pop(former, None)
            if former in self.touched:
                self.touched[target] = None

    def open(self) -> None:
        """A transaction begins: batches may be taken."""
        self.gate.data = self.gate.own = True
        held, self.gate.held = self.gate.held, {}
        self._sender.go_on()
        self._sender.ready({**held, **self.touched})

    def close(self) -> None:
        """Nothing is taken or sent."""
        self.gate.data = self.gate.own = False
        self._sender.hold()

    def hold(self, target: TargetPartition) -> None:
        """No transaction is open; `open` comes back to this partition."""
        if not target.unacked:
            self.gate.held[target] = None

    def admits(self, target: TargetPartition, *, at_once: bool) -> bool:
        """Whether the partition of the open transaction may send now. `at_once`: its broker adds it."""
        if not (self.gate.data or target.ahead) and self._stays(target):
            return False  # `open` comes back to it
        self.touched[target] = None
        if at_once or target in self.added:
            return True
        self._to_add[target] = None
        if self.adding is None:
            self.adding = self._sender.spawn(self._add())
        return False

    def settled(self, *, own: bool) -> Callable[[], bool]:
        """A function that says whether all batches are settled. `own`: those of the task's own records, too.

        Those can't stay for the next transaction.
        """
        pending = list(self.touched)

        def settled() -> bool:
            nonlocal pending
            pending = [target for target in pending if not self._is_settled(target)]
            if not pending:
                pending = [target for target in self.touched if not self._is_settled(target)]
            return not pending and not (own and any(target.unacked for target in self._own))

        return settled

    def _is_settled(self, target: TargetPartition) -> bool:
        return not target.unacked or self._stays(target)

    def _stays(self, target: TargetPartition) -> bool:
        """Whether its batches stay for the next transaction: none was written, and its trouble lasts."""
        return bool(target.unacked) and target.settled and self._sender.stalled(target)

    async def stop_adding(self) -> None:
        """Ends the request under way. Its epoch is over soon."""
        if self.adding is not None:
            self.adding.cancel()
            await asyncio.gather(self.adding, return_exceptions=True)
            self.adding = None

    def drop(self) -> Iterable[TargetPartition]:
        """Drops all batches; returns the partitions whose feeds must know. Another epoch comes for all partitions."""
        dropped = {**self.touched, **self._own}
        for target in (*self._sender.partitions.values(), *dropped):
            target.renounce()
        self.gate.held.update(dropped)
        self.touched.clear()
        return dropped

    def end(self) -> None:
        """The transaction is over."""
        self.touched = {target: None for target in self.touched if target.unacked}
        self.added.clear()
        self._to_add.clear()

    async def _add(self) -> None:
        """Adds partitions to the transaction, until none waits for that."""
        try:
            while self._to_add and self.gate.own:
                asked, self._to_add = self._to_add, {}
                self._sends()
                by_name = {TopicPartition(target.topic, target.partition): target for target in asked}
                errors = await self._coordinator.add(self._sender.producer, list(by_name))
                self._take({target: errors.get(name, _NO_ANSWER) for name, target in by_name.items()})
        finally:
            self.adding = None
            self._sender.answered.set()

    def _take(self, codes: Mapping[TargetPartition, int]) -> None:
        """With one error, none is added."""
        wrong = {code for code in codes.values() if code not in _NOT_ATTEMPTED}
        if not wrong:
            self.added.update(codes)
            self._sender.ready(codes)
        elif wrong <= _OF_ONE_TOPIC:
            for target, code in codes.items():
                if code in _NOT_ATTEMPTED:
                    self._to_add[target] = None
                else:
                    elsewhere = code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    self._sender.retry(target, code, "", elsewhere=elsewhere)
        else:
            self._refused(next(iter(wrong - _OF_ONE_TOPIC)))
