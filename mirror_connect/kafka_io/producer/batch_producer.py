"""Batches into the target cluster: idempotent, in order within each partition, several requests in flight per broker.

The producer pulls: a partition has a feed, `wake` says that the feed has something, and a batch is taken out of it when a
request with room for it is about to leave. So what waits in a feed can still be merged, and memory holds a batch twice
only while it is on the wire. Work and wake-ups are per request: a batch costs no future and no task of its own.

What a broker knows of a producer it drops when the newest *record* it wrote to a partition is older than
producer.id.expiration.ms (one day): at its restart, and now and then. Mirrored records keep their old times, so for old
records a repetition after a lost answer may be written twice, and the lease alone holds off a former owner. Their order
is kept all the same: target_partition.py has one batch of them in flight.

Delivery never times out. What ends it: `failed` (fenced, credentials refused), or a partition's own refusal, which its
feed hears of. Nothing is written while the lease is not valid.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Final

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.rights import PRODUCING_USER, MissingRight, on_topic
from mirror_connect.connectors.told_once import ToldOnce
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.connection import ConnectionLost, RequestTimedOut, UnsupportedByBroker
from mirror_connect.kafka_io.client.copier_settings import ProducerSettings
from mirror_connect.kafka_io.client.outage import Outage
from mirror_connect.kafka_io.producer import produce_outcome as codes
from mirror_connect.kafka_io.producer.oversize import largest_message, too_large
from mirror_connect.kafka_io.producer.produce_outcome import FencedError, Outcome, PartitionRefusedError
from mirror_connect.kafka_io.producer.producer_identity import ProducerIdentity
from mirror_connect.kafka_io.producer.target_broker import TargetBroker
from mirror_connect.kafka_io.producer.target_partition import MERGE_LIMIT, Feed, ProducerId, Sent, TargetPartition
from mirror_connect.kafka_io.producer.task_lease import LeaseLostError
from mirror_connect.kafka_io.protocol.wire import Produce, ProducePartition, ProduceResponse
from mirror_connect.kafka_io.protocol.wire_codec import Writer

WIRE_LIMIT: Final = 16 << 20
# The broker remembers the last five batches of a producer in a partition; more in flight could not be told apart.
WINDOW: Final = 5
LEASE_POLL_S: Final = 0.05
# Retries of one partition before anyone is told: a moved leader or a topic just being created is nothing to tell.
QUIET_RETRIES: Final = 5
# A leader that moves, or a broker's restart, is over sooner as a rule.
STALLED_S: Final = 2.0
SETTLE_LOOK_S: Final = 0.2
# What metadata say of a topic that has no leaders for us, and that doesn't heal by itself: no right to it, or no topic.
_UNHEARD: Final = frozenset({codes.TOPIC_AUTHORIZATION_FAILED, codes.UNKNOWN_TOPIC_OR_PARTITION})
# No code of Kafka's: an answer that says nothing of a partition that was in the request.
NOT_ANSWERED: Final = -1000


class _LeasedProduce(Produce):
    """Looks at the lease when it is written, which may be long after it was asked for (a connection to be made).

    `left`: whether it was written.
    """

    left: bool

    def __init__(self, batches: Sequence[ProducePartition], timeout_ms: int, lease: Callable[[], bool]) -> None:
        super().__init__(batches, timeout_ms=timeout_ms)
        object.__setattr__(self, "_lease", lease)
        object.__setattr__(self, "left", False)

    def encode(self, version: int, writer: Writer) -> None:
        lease: Callable[[], bool] = object.__getattribute__(self, "_lease")
        if not lease():
            raise LeaseLostError
        object.__setattr__(self, "left", True)
        super().encode(version, writer)


class BatchProducer:
    """Sends what its partitions' feeds hold. One event loop; `start` first, `close` last.

    `lease()` tells whether the target may be written to; `notice(line)` takes lines for the worker's log. `away` hears
    while the whole target doesn't answer.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerSettings,
        transactional_id: str,
        lease: Callable[[], bool],
        notice: Callable[[str], None],
        *,
        away: Outage | None = None,
    ) -> None:
        self._cluster = cluster
        self._away = away or Outage("The target cluster can't be reached")
        self._settings = settings
        self._timeout_s = settings.request_timeout_ms / 1000
        self._identity = ProducerIdentity(cluster, transactional_id, lease, notice, idempotent=settings.idempotent)
        self._transactional_id = transactional_id
        self._lease = lease
        self._notice = notice
        self._loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[None] = self._loop.create_future()
        self._producer = ProducerId()
        self._partitions: dict[tuple[str, int], TargetPartition] = {}
        self._nodes: dict[int, TargetBroker] = {}
        self._leaderless: dict[TargetPartition, None] = {}
        self._wire_bytes = 0
        self._requests = 0
        self._halted = True
        self._closed = False
        self._bump_wanted = False
        self._pump_scheduled = False
        self._answered = asyncio.Event()
        self._stale = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._told = ToldOnce(notice)
        self._limits_asked: set[str] = set()
        self._to_split: deque[tuple[TargetPartition, Sent]] = deque()

    # --- what a task calls ------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Takes the producer id, which fences the former owner of the transactional id.

        Tried until it works, and only while the lease is valid; raises NotAuthorized.
        """
        self._producer = await self._identity.take()
        self._halted = False
        self._spawn(self._keep_metadata())

    @property
    def trouble(self) -> str:
        """One line for the status about the producer itself, while there is something; "" otherwise."""
        return self._identity.trouble

    def partition(self, topic: str, partition: int, feed: Feed, *, ahead: bool = False) -> TargetPartition:
        """The sending side of a partition. Asked for again after `release`, its sequences go on.

        `ahead`: what it has goes into the next request before all others. For little that must not wait behind much.
        """
        known = self._partitions.get((topic, partition))
        if known is not None and not known.closing:
            raise ValueError(f"{topic}-{partition} already has a feed in this task")
        window = min(WINDOW, self._settings.max_in_flight) if self._producer.idempotent else 1
        target = TargetPartition(topic, partition, feed, window, MERGE_LIMIT, ahead)
        if known is not None:
            target.next_sequence = known.next_sequence
            target.limit, target.largest = known.limit, known.largest
            target.may_land_until = known.may_land_until
        self._partitions[topic, partition] = target
        return target

    def wake(self, target: TargetPartition) -> None:
        """The target's feed has something. Cheap when it was known."""
        if target.node is None or target not in self._nodes[target.node].row(target):
            self._make_ready(target)

    def stalled(self, target: TargetPartition) -> bool:
        """Whether the target doesn't take what this partition has, and hasn't for more than a moment."""
        since = target.failing_since
        return bool(target.trouble) or (since is not None and self._loop.time() - since >= STALLED_S)

    def hold_head(self, target: TargetPartition) -> bool:
        """See TargetPartition.hold_head."""
        return target.hold_head(self._producer)

    async def settle(self, targets: Iterable[TargetPartition], seconds: float) -> bool:
        """Takes no more from their feeds and waits until all that was taken is acknowledged; False if it is not.

        For `seconds` at most, and not for what the target doesn't take at present: nobody knows for how long it won't.
        """
        waited = list(targets)
        for target in waited:
            target.closing = True
        deadline = self._loop.time() + seconds
        while any(target.unacked and not self._is_refused(target) for target in waited):
            self._answered.clear()
            remaining = deadline - self._loop.time()
            if remaining <= 0 or self.failed.done():
                return False
            with contextlib.suppress(TimeoutError):
                # Those that wait for a leader get no answer.
                async with asyncio.timeout(min(remaining, SETTLE_LOOK_S)):
                    await self._answered.wait()
        return not any(target.unacked for target in waited)

    def _is_refused(self, target: TargetPartition) -> bool:
        """Without a line only for want of a leader: what got no answer yet may come through in smaller requests."""
        return bool(target.trouble) or (target in self._leaderless and self.stalled(target))

    async def release(self, targets: Iterable[TargetPartition], seconds: float) -> None:
        """Settles partitions that were taken away, and forgets what is not acknowledged in time.

        Returns when no request with a batch of theirs is under way: another task may have them after this. It writes with
        another producer id, so that the broker would take a batch of ours behind its first one.
        """
        waited = list(targets)
        if not await self.settle(waited, seconds):
            for target in waited:
                target.given_up = True
        # Also those of which nothing is unacknowledged: of a refused one the batches behind its head were given up.
        while any(target.on_wire for target in waited):
            self._answered.clear()
            await self._answered.wait()
        landed = max((target.may_land_until for target in waited), default=0.0)
        await asyncio.sleep(max(0.0, landed - self._loop.time()))
        for target in waited:
            target.abandon()

    @property
    def fenceable(self) -> bool:
        """Whether the next producer of this transactional id fences this one off."""
        return self._identity.fenced_by_others

    @property
    def settled(self) -> bool:
        """Whether nothing that was sent, and of which nobody knows whether it is written, may be written from now on."""
        now = self._loop.time()
        return not any(target.on_wire or now < target.may_land_until for target in self._partitions.values())

    async def close(self) -> None:
        """Sends nothing more. The cluster's connections are the caller's to close."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.failed.done():
            self.failed.exception()
        else:
            self.failed.cancel()

    # --- which partitions can send ----------------------------------------------------------------------------------

    def _make_ready(self, target: TargetPartition) -> None:
        if not target.sendable() or self._closed:
            return
        wait = target.blocked_until - self._loop.time()
        if wait > 0:
            return  # a timer set with `blocked_until` calls again
        if target.node is None:
            leader = self._cluster.leader(target.topic, target.partition)
            if leader is None or leader.node_id < 0:
                self._leaderless[target] = None
                self._fails(target)
                self._stale.set()
                return
            target.node = leader.node_id
            if target.failures_in_row == 0:
                target.failing_since = None
        node = self._nodes.get(target.node)
        if node is None:
            node = self._nodes[target.node] = TargetBroker(target.node)
            # Who has nothing to send learns of an absence in no other way.
            self._spawn(node.keep_round_trip(self._cluster, self._stale.set))
        node.row(target)[target] = None
        self._schedule_pump()

    def _fails(self, target: TargetPartition) -> None:
        if target.failing_since is None:
            target.failing_since = self._loop.time()

    def _block(self, target: TargetPartition, *, elsewhere: bool, longest: float) -> None:
        self._fails(target)
        target.failures_in_row += 1
        wait = min(longest, self._settings.retry_backoff_s * 2 ** min(target.failures_in_row - 1, 10))
        target.blocked_until = self._loop.time() + wait
        if target.node is not None:
            self._nodes[target.node].row(target).pop(target, None)
        if elsewhere:
            target.node = None
            self._stale.set()
        self._loop.call_at(target.blocked_until + 0.001, self._make_ready, target)

    # --- requests ---------------------------------------------------------------------------------------------------

    def _schedule_pump(self) -> None:
        # Once per turn of the loop: what one fetch brought for many partitions leaves in one request.
        if not self._pump_scheduled:
            self._pump_scheduled = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._pump_scheduled = False
        try:
            self._send_what_is_ready()
        except Exception as error:  # noqa: BLE001 - nobody awaits a callback: the task must hear of it
            self._fail(error)

    def _send_what_is_ready(self) -> None:
        if self._halted or self._closed or self.failed.done():
            return
        if not self._lease():
            self._loop.call_later(LEASE_POLL_S, self._schedule_pump)
            return
        now = self._loop.time()
        for node in self._nodes.values():
            most, limit = self._settings.max_in_flight, self._settings.max_request_bytes
            if now < node.paced_until:
                most, limit = 1, min(limit, node.paced_bytes)
            if node.carries is not None:
                most, limit = 1, min(limit, node.carries)
            while (
                (node.ahead or node.ready)
                and node.requests < most
                and now >= node.throttled_until
                and self._wire_bytes < WIRE_LIMIT
            ):
                taken = self._take(node, limit)
                if taken:
                    self._spawn(self._exchange(node, taken))
                    if taken[-1][0].taken_apart:
                        # One in each turn of the loop: those of many partitions would hold it up together.
                        self._schedule_pump()
                        return

    def _take(self, node: TargetBroker, limit: int) -> list[tuple[TargetPartition, Sent]]:
        taken, size = node.take(self._producer, limit)
        if taken:
            node.requests += 1
            self._requests += 1
            self._wire_bytes += size
        return taken

    async def _exchange(self, node: TargetBroker, taken: list[tuple[TargetPartition, Sent]]) -> None:
        size = sum(sent.size for _, sent in taken)
        batches = [ProducePartition(target.topic, target.partition, [sent.payload]) for target, sent in taken]
        answer: ProduceResponse | None = None
        lost = "the connection to the target was lost"
        sent_at = self._loop.time()
        request = _LeasedProduce(batches, self._settings.request_timeout_ms, self._lease)
        try:
            answer = await self._cluster.send(node.node_id, request, purpose="produce")
            node.answered_after(self._loop.time() - sent_at, self._timeout_s, self._settings.max_request_bytes)
        except LeaseLostError:
            pass
        except RequestTimedOut as error:
            lost = str(error)
            node.timed_out(self._loop.time(), sent_at, size)
        except (ClusterUnreachable, ConnectionLost) as error:
            lost = str(error)
        except (NotAuthorized, UnsupportedByBroker) as error:
            self._fail(error)
        finally:
            node.requests -= 1
            self._requests -= 1
            self._wire_bytes -= size
            if not self._closed:
                if answer is None and request.left:
                    # The broker may have it in front of it still: for as long as an answer is waited for, once more.
                    for target, _ in taken:
                        target.may_land_until = self._loop.time() + self._timeout_s
                self._take_answer(node, taken, answer, lost)

    def _take_answer(
        self,
        node: TargetBroker,
        taken: list[tuple[TargetPartition, Sent]],
        answer: ProduceResponse | None,
        lost: str,
    ) -> None:
        now = self._loop.time()
        if answer is None:
            for target, sent in taken:
                target.answered(sent, Outcome.RETRY)
                self._block(target, elsewhere=True, longest=self._settings.retry_backoff_max_s)
                if target.failures_in_row >= QUIET_RETRIES:
                    line = f"Broker {node.node_id} of the target: {lost}; it is tried again until it answers"
                    target.trouble = line
                    self._told.tell("", node.node_id, line)
        else:
            self._told.over("", node.node_id)
            if answer.throttle_ms > 0:
                node.throttled(now, answer.throttle_ms / 1000, sum(sent.size for _, sent in taken))
                self._loop.call_at(node.throttled_until + 0.001, self._schedule_pump)
            # Answers come in the order of the request but for topics put together: by name, then.
            by_name = {(entry.topic, entry.partition): entry for entry in answer.partitions}
            for target, sent in taken:
                entry = by_name.get((target.topic, target.partition))
                if entry is None:
                    target.answered(sent, Outcome.RETRY)
                    self._retry(target, NOT_ANSWERED, "the broker did not answer for it", elsewhere=True)
                else:
                    self._take_code(target, sent, entry.error, entry.base_offset, entry.message)
        self._after_answers(target for target, _ in taken)

    def _after_answers(self, targets: Iterable[TargetPartition]) -> None:
        for target in targets:
            self._make_ready(target)
        self._answered.set()
        if self._bump_wanted and self._requests == 0:
            self._bump_wanted = False
            self._spawn(self._begin_anew())
        self._schedule_pump()

    def _take_code(self, target: TargetPartition, sent: Sent, code: int, base_offset: int, message: str) -> None:
        outcome = codes.outcome(code)
        if outcome is Outcome.WRITTEN:
            if target.failures_in_row:
                self._told.over(str(target))
            target.answered(sent, outcome, base_offset)
            return
        head = target.is_head(sent)
        if outcome is Outcome.TOO_LARGE and target.failure is None and (head or sent.outgoing.count > 1):
            self._split_soon(target, sent)
            return
        # A gap in the sequences or a batch too large is found before anything is written; of other errors nobody knows.
        target.answered(sent, Outcome.RETRY, absent=outcome in (Outcome.SEQUENCE, Outcome.TOO_LARGE))
        if target.failure is not None:
            return
        if outcome is Outcome.FENCED and self._identity.fenced_by_others:
            self._fail(FencedError(self._transactional_id))
        elif outcome in (Outcome.FENCED, Outcome.SEQUENCE):
            # Of a later batch it only says that the head is missing, and the head goes again anyway.
            if head:
                self._halted = True
                self._bump_wanted = True
                self._told.tell(str(target), code, f"{target}: the target lost track of this producer, it begins anew")
        elif outcome is Outcome.REFUSED:
            if head:
                target.fail(
                    PartitionRefusedError(
                        f"The target refused the batch at offset {sent.outgoing.first_offset} for {target} with "
                        f"{codes.reason(code, message)}; {codes.advice(code)}"
                    )
                )
        else:
            self._retry(target, code, message, elsewhere=outcome is Outcome.RETRY_ELSEWHERE)

    def _split_soon(self, target: TargetPartition, sent: Sent) -> None:
        """In a turn of the loop of its own: it takes up to a second, and one answer may refuse many batches."""
        target.splitting()
        # As if its request were still under way: no new epoch meanwhile.
        self._requests += 1
        self._to_split.append((target, sent))
        if len(self._to_split) == 1:
            self._loop.call_soon(self._split_next)

    def _split_next(self) -> None:
        target, sent = self._to_split.popleft()
        self._requests -= 1
        if self._closed:
            return
        if self._to_split:
            self._loop.call_soon(self._split_next)
        try:
            self._make_smaller(target, sent)
        except Exception as error:  # noqa: BLE001 - nobody awaits a callback: the task must hear of it
            self._fail(error)
        self._after_answers([target])

    def _make_smaller(self, target: TargetPartition, sent: Sent) -> None:
        # Given up meanwhile, if one before it was refused for good.
        if target.failure is None:
            try:
                target.split(sent, self._producer)
            except PartitionRefusedError as error:
                # Only the head may end its partition: those in front of another one are not known yet.
                if target.is_head(sent):
                    target.fail(error)
            else:
                self._ask_for_limit(target.topic, sent.size)
        target.answered(sent, Outcome.RETRY, absent=True)

    def _ask_for_limit(self, topic: str, refused: int) -> None:
        """Once for each topic: with its limit known, larger batches are split before they are sent."""
        if topic not in self._limits_asked:
            self._limits_asked.add(topic)
            self._spawn(self._take_limit(topic, refused))

    async def _take_limit(self, topic: str, refused: int) -> None:
        largest = await largest_message(self._cluster, topic)
        # One that was raised meanwhile, or that is not the reason: halves go on telling.
        if largest is not None and largest >= refused:
            largest = None
        for target in self._partitions.values():
            if largest is not None and target.topic == topic:
                target.told(largest)
        self._notice(too_large(topic, refused, largest))

    def _retry(self, target: TargetPartition, code: int, message: str, *, elsewhere: bool) -> None:
        refused = code == codes.TOPIC_AUTHORIZATION_FAILED
        self._block(target, elsewhere=elsewhere, longest=5.0 if refused else self._settings.retry_backoff_max_s)
        if refused:
            what = f"Not authorized to write to topic {target.topic} on the target"
            denied = MissingRight(what, on_topic("WRITE", target.topic), PRODUCING_USER)
            target.trouble = f"{denied}; it is tried again"
            self._told.tell(str(target), code, target.trouble)
        elif target.failures_in_row >= QUIET_RETRIES:
            why = message if code == NOT_ANSWERED else codes.reason(code, message)
            target.trouble = f"{target} can't be written to at present: {why}; it is tried again"
            self._told.tell(str(target), code, target.trouble)

    async def _begin_anew(self) -> None:
        """Another epoch for all partitions, after everything in flight has been answered or lost (KIP-360)."""
        try:
            self._producer = await self._identity.take(self._producer)
        except (FencedError, NotAuthorized) as error:
            self._fail(error)
            return
        # Also those that were refused: they may be taken up again.
        for target in self._partitions.values():
            target.restamp(self._producer)
        self._halted = False
        for target in self._partitions.values():
            self._make_ready(target)
        self._schedule_pump()

    # --- metadata ---------------------------------------------------------------------------------------------------

    async def _keep_metadata(self) -> None:
        """New metadata when a leader is missing or has moved, and now and then."""
        unreachable = 0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.metadata_max_age_s):
                    await self._stale.wait()
            self._stale.clear()
            try:
                await self._cluster.refresh({target.topic for target in self._partitions.values()})
                unreachable = 0
                self._away.over()
            except ClusterUnreachable as error:
                unreachable += 1
                self._away.lasts(str(error))
                if unreachable == QUIET_RETRIES:
                    self._notice(f"The target cluster can't be reached: {error}; it is tried again until it answers")
                self._stale.set()
            except NotAuthorized as error:
                self._fail(error)
                return
            waiting, self._leaderless = self._leaderless, {}
            for target in waiting:
                code = self._cluster.topic_error(target.topic)
                if unreachable == 0 and code in _UNHEARD and target.sendable():
                    # Without a leader there is no request to be refused, and nobody else to say why nothing is written.
                    self._retry(target, code, "", elsewhere=True)
                else:
                    self._make_ready(target)
            # A partition without a leader asks again at once: not more often than this.
            pause = self._settings.retry_backoff_s * 2 ** min(unreachable, 10)
            await asyncio.sleep(min(self._settings.retry_backoff_max_s, pause))

    # --- the rest ---------------------------------------------------------------------------------------------------

    def _fail(self, error: BaseException) -> None:
        self._halted = True
        if not self.failed.done():
            self.failed.set_exception(error)
        self._answered.set()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)
