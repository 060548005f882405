"""Sends the batches of a BatchProducer: picks partitions, sends requests, handles answers, retries, reads metadata.

A partition waits at the broker that leads it. In each turn of the event loop, every broker with room for a request gets
one, with a batch of each partition that waits there. Small batches that must not wait go ahead: over a connection of their
own. There is one task for each request; a batch costs no future and no task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problem, ProblemCode, Problems
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.connection import ConnectionLost, RequestTimedOut, UnsupportedByBroker
from mirror_connect.kafka_io.client.copier_settings import ProducerSettings
from mirror_connect.kafka_io.client.round_trip import LINK_BYTES_PER_S
from mirror_connect.kafka_io.producer.in_flight_batch import InFlightBatch
from mirror_connect.kafka_io.producer.oversize import BatchSplitter
from mirror_connect.kafka_io.producer.produce_outcome import FencedError, Outcome, outcome
from mirror_connect.kafka_io.producer.producer_identity import ProducerIdentity
from mirror_connect.kafka_io.producer.producer_states import ProducerStates
from mirror_connect.kafka_io.producer.target_broker import TargetBroker
from mirror_connect.kafka_io.producer.target_connection import Taken, TargetConnection
from mirror_connect.kafka_io.producer.target_partition import (
    ProducerIdAndEpoch,
    TargetPartition,
)
from mirror_connect.kafka_io.producer.task_lease import LeaseCheck, LeaseLostError
from mirror_connect.kafka_io.producer.transaction_errors import NOT_WRITTEN
from mirror_connect.kafka_io.producer.transactions import Transactions
from mirror_connect.kafka_io.producer.wanted_metadata import WantedMetadata
from mirror_connect.kafka_io.producer.write_problems import (
    NOT_ANSWERED,
    batch_refused,
    broker_name,
    broker_unreachable,
    limited_far_away,
    own_times,
    producer_state_lost,
    still_unreachable,
    unread_far_away,
    unwritable,
    write_denied,
)
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode
from mirror_connect.kafka_io.protocol.produce import Produce, ProducedPartition, ProducePartition, ProduceResponse

# The most bytes of data under way. Over long distances as many as fill so fast a link, up to buffer.memory.
WIRE_LIMIT: Final = 16 << 20
LEASE_POLL_S: Final = 0.05
# Retries of one partition before it is a problem: a moved leader or a new topic is none.
QUIET_RETRIES: Final = 5
# Nor is a request without an answer, for so long.
QUIET_S: Final = 10.0
# The target is still writing the end of the last transaction into its partitions.
CONCURRENT_S: Final = 0.005
CONCURRENT_TRIES: Final = 5
# An election or a broker's restart usually takes less.
STALLED_S: Final = 2.0
# Errors of a topic in the metadata that need a user: no right to the topic, or no such topic.
_NEEDS_USER: Final = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


class Sender:
    """Sends with several requests in flight per broker, and batches in order within each partition. One event loop.

    `transactions`: of a transactional producer. They say when a partition may send; None for any other.

    `failed` gets the error that ends the producer: it was fenced, or its credentials were refused. `answered` is set after
    each answer. `leaderless`: partitions that wait for a leader; `wanted`: topics whose leaders are looked up.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerSettings,
        identity: ProducerIdentity,
        lease: Callable[[], bool],
        problems: Problems,
        *,
        unreachable: Problem,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._timeout_s = settings.request_timeout_ms / 1000
        self._identity = identity
        self._lease = lease
        self._problems = problems
        self._unreachable = unreachable
        self._loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[None] = self._loop.create_future()
        self.answered = asyncio.Event()
        self.producer = ProducerIdAndEpoch()
        self.partitions: dict[TopicPartition, TargetPartition] = {}
        self.leaderless: dict[TargetPartition, None] = {}
        # Each that has failed is here, and perhaps some that have continued since.
        self._failing: dict[TargetPartition, None] = {}
        self._nodes: dict[int, TargetBroker] = {}
        self._splitter = BatchSplitter(cluster, problems, self)
        self._states = ProducerStates(cluster, self)
        self._requests = 0
        self._halted = True
        self._closed = False
        self._bump_wanted = False
        self._pump_scheduled = False
        self._told: set[str] = set()
        self.wanted = WantedMetadata(
            settings.retry_backoff_s, settings.retry_backoff_max_s, settings.metadata_max_age_s
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self.transactions: Transactions | None = None

    async def start(self) -> None:
        """Takes the producer id, then sends; a transactional producer when a transaction begins. NotAuthorized."""
        self.producer = await self._identity.take()
        if self.transactions is not None:
            await self.transactions.start()
        else:
            self._halted = False
        self.spawn(self._keep_metadata())

    async def close(self) -> None:
        """Sends nothing more."""
        self._closed = True
        self._splitter.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.failed.done():
            self.failed.exception()
        else:
            self.failed.cancel()

    def wake(self, target: TargetPartition) -> None:
        """The target's feed has something. Repeated calls cost little."""
        if target.node is None or target not in self._nodes[target.node].row(target):
            self._make_ready(target)

    def _may_become_wide(self, target: TargetPartition) -> bool:
        """Whether to ask if the partition may have more batches in flight than a broker remembers; see LeaderState.

        Not in transactions: there, a failure that leaves anything open aborts. The own records that go ahead are few.
        """
        plain = self.transactions is None and not target.ahead and not target.leader.asked
        return plain and self.producer.idempotent and self._settings.max_in_flight is None and target.established

    @property
    def troubled(self) -> bool:
        """Whether a partition has a problem, or has failed since its last acknowledgement."""
        for target in list(self._failing):
            goes_on = target.failing_since is None and target.problem is None
            # A partition that was refused continues as another one.
            if goes_on or self.partitions.get(TopicPartition(target.topic, target.partition)) is not target:
                del self._failing[target]
        return bool(self._failing)

    def stalled(self, target: TargetPartition) -> bool:
        """Whether the partition has a problem, or has failed for STALLED_S without an acknowledgement."""
        since = target.failing_since
        return target.problem is not None or (since is not None and self._loop.time() - since >= STALLED_S)

    # Which partitions can send.

    def _make_ready(self, target: TargetPartition) -> None:
        if self._closed or not (target.sendable() or target.must_ask):
            return
        if self.transactions is not None and not self.transactions.admits(target):
            return
        wait = target.blocked_until - self._loop.time()
        if wait > 0:
            return  # a timer set with `blocked_until` calls again
        if target.node is None:
            leader = self._cluster.leader(target.topic, target.partition)
            if leader is None or leader.node_id < 0:
                self.leaderless[target] = None
                self._fails(target)
                self.wanted.want(target.topic)
                return
            target.node = leader.node_id
            if target.failures_in_row == 0:
                target.failing_since = None
        node = self._nodes.get(target.node)
        if node is None:
            node = self._nodes[target.node] = TargetBroker(target.node)
            # A producer with nothing to send notices a broker's absence only this way.
            self.spawn(node.keep_round_trip(self._cluster, self.wanted.want_all, self._is_far))
        node.wide = node.wide or target.leader.wide
        if target.must_ask or (node.far and self._may_become_wide(target)):
            self._states.ask(node, target)
        if target.must_ask:
            node.row(target).pop(target, None)
            return
        node.row(target)[target] = None
        self._schedule_pump()

    def _fails(self, target: TargetPartition) -> None:
        if target.failing_since is None:
            target.failing_since = self._loop.time()
        self._failing[target] = None

    def _block(self, target: TargetPartition, *, elsewhere: bool, longest: float) -> None:
        self._fails(target)
        if target.node is not None:
            self._nodes[target.node].row(target).pop(target, None)
        if elsewhere:
            target.node = None
            self.wanted.want(target.topic)
        # All that was in flight when a connection broke, for example, is one failure.
        if self._loop.time() >= target.blocked_until or target.failures_in_row == 0:
            target.failures_in_row += 1
            wait = min(longest, self._settings.retry_backoff_s * 2 ** min(target.failures_in_row - 1, 10))
            target.blocked_until = self._loop.time() + wait
            self._loop.call_at(target.blocked_until + 0.001, self._make_ready, target)

    def _schedule_pump(self) -> None:
        # Once per turn of the loop, so that what one fetch brought for many partitions leaves in one request.
        if not self._pump_scheduled:
            self._pump_scheduled = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._pump_scheduled = False
        try:
            self._send_what_is_ready()
        except Exception as error:  # noqa: BLE001 - nobody awaits a callback, so the error must end the producer
            self.fail(error)

    def _send_what_is_ready(self) -> None:
        if self._halted or self._closed or self.failed.done():
            return
        if not self._lease():
            self._loop.call_later(LEASE_POLL_S, self._schedule_pump)
            return
        now, wire_limit = self._loop.time(), self._wire_limit()
        for node in self._nodes.values():
            most_bytes = node.most_bytes(wire_limit)
            for connection in (node.ahead, node.data):
                while connection.waiting:
                    most = node.most_requests(self._settings.max_in_flight, connection)
                    most_now, limit = connection.limits(now, most, self._settings.max_request_bytes)
                    if connection.requests >= most_now:
                        break
                    if connection is node.data and (
                        connection.wire_bytes >= most_bytes or self._data_bytes() >= wire_limit
                    ):
                        break
                    if self._send(node, connection, limit):
                        # One split in each turn of the loop: many together would block it for long.
                        self._schedule_pump()
                        return

    def _wire_limit(self) -> float:
        farthest = max((node.round_trip for node in self._nodes.values()), default=0.0)
        return max(WIRE_LIMIT, min(self._settings.buffer_bytes, LINK_BYTES_PER_S * farthest))

    def _data_bytes(self) -> int:
        return sum(node.data.wire_bytes for node in self._nodes.values())

    def _send(self, node: TargetBroker, connection: TargetConnection, limit: int) -> bool:
        """Sends a request, if there is something for it; True if its last batch was split, or should have been."""
        taken, size = connection.take(self.producer, limit, merges=node.merges)
        if not taken:
            return False
        connection.sent(size)
        self._requests += 1
        self.spawn(self._exchange(node, connection, taken, size))
        return taken[-1][0].split_tried

    async def _exchange(self, node: TargetBroker, connection: TargetConnection, taken: Taken, size: int) -> None:
        batches = [ProducePartition(target.topic, target.partition, sent.payload) for target, sent in taken]
        answer: ProduceResponse | None = None
        lost = "the connection to the target was lost"
        sent_at = self._loop.time()
        lease = LeaseCheck(self._lease)
        request = self._request(batches, lease)
        try:
            answer = await self._cluster.send(node.node_id, request, purpose=connection.purpose)
            self._answered(node, connection, self._loop.time() - sent_at, size, answer.throttle_ms / 1000)
        except LeaseLostError:
            pass
        except RequestTimedOut as error:
            lost = str(error)
            connection.timed_out(self._loop.time(), sent_at, size)
            # A firewall may have forgotten the others, too. They would notice that after another request.timeout.ms.
            self._cluster.close_idle(node.node_id)
        except (ClusterUnreachable, ConnectionLost) as error:
            lost = str(error)
        except (NotAuthorized, UnsupportedByBroker) as error:
            self.fail(error)
        finally:
            connection.ended(size)
            self._requests -= 1
            if not self._closed:
                if answer is None and lease.passed:
                    # The broker may still have the request unread. It is taken as gone after another request.timeout.ms.
                    for target, _ in taken:
                        target.may_land_until = self._loop.time() + self._timeout_s
                self._take_answer(node, taken, answer, lost, self._loop.time() - sent_at, written=lease.passed)

    def _request(self, batches: list[ProducePartition], lease: LeaseCheck) -> Produce:
        timeout_ms = self._settings.request_timeout_ms
        if self.transactions is None:
            return Produce(batches, timeout_ms=timeout_ms, before_write=lease)
        self.transactions.sends()
        return Produce(
            batches,
            timeout_ms=timeout_ms,
            transactional_id=self.transactions.transactional_id,
            before_write=lease,
            adds_partitions=self.transactions.gives_epochs,
        )

    def _answered(
        self, node: TargetBroker, connection: TargetConnection, seconds: float, size: int, throttled: float
    ) -> None:
        connection.answered_after(seconds, self._timeout_s, self._settings.max_request_bytes)
        if node.wide and connection is node.data:
            node.answered(size, seconds, self._wire_limit())
        if throttled > 0:
            connection.throttled(self._loop.time(), throttled, size)
            self._loop.call_at(connection.throttled_until + 0.001, self._schedule_pump)

    def _take_answer(
        self,
        node: TargetBroker,
        taken: Taken,
        answer: ProduceResponse | None,
        lost: str,
        waited_s: float,
        *,
        written: bool,
    ) -> None:
        """`written`: whether the request was written to the connection."""
        if answer is None:
            for target, sent in taken:
                target.answered(sent, Outcome.RETRY, absent=not written)
                self.not_answered(node, target, lost, waited_s)
        else:
            # Answers are grouped by topic, so their order differs from the request's: find them by name.
            by_name = {(entry.topic, entry.partition): entry for entry in answer.partitions}
            for target, sent in taken:
                entry = by_name.get((target.topic, target.partition))
                if entry is None:
                    target.answered(sent, Outcome.RETRY)
                    self.retry(target, NOT_ANSWERED, "the broker did not answer for it", elsewhere=True)
                else:
                    self._take_entry(target, sent, entry)
            if node.reported and not still_unreachable(node.node_id, self.partitions.values()):
                node.reported = False
                self._problems.resolve(broker_name(node.node_id), ProblemCode.BROKER_UNREACHABLE)
        self.after_answers(target for target, _ in taken)

    def after_answers(self, targets: Iterable[TargetPartition]) -> None:
        """These partitions may have something to send. Takes a new epoch if one is needed and nothing is under way."""
        for target in targets:
            self._make_ready(target)
        self.answered.set()
        if self._bump_wanted and self._requests == 0 and not self._splitter.waiting:
            self._bump_wanted = False
            self.spawn(self._begin_anew())
        self._schedule_pump()

    def _take_entry(self, target: TargetPartition, sent: InFlightBatch, entry: ProducedPartition) -> None:
        code = entry.error
        found = outcome(code)
        if found is Outcome.WRITTEN:
            self._is_written(target, sent, entry)
            return
        head = target.is_head(sent)
        if self.transactions is not None and target.failure is None and self.transactions.judged(target, sent, code):
            return
        if found not in (Outcome.RETRY, Outcome.RETRY_ELSEWHERE):
            target.leader.refuses(sent)
        if found is Outcome.TOO_LARGE and target.failure is None and (head or sent.batch.count > 1):
            self._splitter.split_soon(target, sent)
            return
        # It may have been written, and so many after it that the broker does not recognise it.
        asks = head and found is Outcome.SEQUENCE and target.leader.doubt()
        target.answered(sent, Outcome.RETRY, absent=code in NOT_WRITTEN)
        if target.failure is not None:
            return
        if found is Outcome.FENCED and self._identity.fenced_by_others:
            self.fail(self._identity.fenced())
        elif found in (Outcome.FENCED, Outcome.SEQUENCE):
            # For a later batch this error only shows that the head is missing, and the head is sent again anyway.
            if head and not asks:
                self._begin_anew_soon(target, code)
        elif found is Outcome.REFUSED:
            if head:
                target.fail(batch_refused(target, sent, code, entry.message))
        else:
            self.retry(target, code, entry.message, elsewhere=found is Outcome.RETRY_ELSEWHERE)

    def _is_written(self, target: TargetPartition, sent: InFlightBatch, entry: ProducedPartition) -> None:
        self._problems.resolve(str(target), ProblemCode.PRODUCER_STATE_LOST)
        if target.failures_in_row:
            self._problems.resolve(str(target))
            self._problems.resolve(target.topic, ProblemCode.PARTITION_WRITE_DENIED)
        target.answered(sent, Outcome.WRITTEN, entry.base_offset, entry.log_append_time)
        if target.leader.lost:
            self._begin_anew_soon(target, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        if self.transactions is not None:
            self.transactions.acknowledged(target)
        if sent.batch.append_time is not None and entry.log_append_time < 0:
            self._tell_once(f"times of {target.topic}", own_times(target, sent))

    def _is_far(self, node: TargetBroker) -> None:
        configured = self._settings.max_in_flight
        if configured is not None and self.transactions is None and self._settings.idempotent:
            self._tell_once("limit", limited_far_away(node.round_trip, configured, self._settings.window))

    def not_told(self, target: TargetPartition, code: int) -> None:
        """The leader, which is far away, does not tell what it has of the partition; `code`: why."""
        if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            self._tell_once("unread", unread_far_away(target.topic))

    def _tell_once(self, what: str, line: str) -> None:
        if what not in self._told:
            self._told.add(what)
            self._problems.log(line)

    def retry(self, target: TargetPartition, code: int, message: str, *, elsewhere: bool) -> None:
        """Tries the partition again later. `code`: why."""
        refused = code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        self._block(target, elsewhere=elsewhere, longest=5.0 if refused else self._settings.retry_backoff_max_s)
        if refused:
            target.problem = write_denied(target.topic, code)
        elif target.failures_in_row >= QUIET_RETRIES:
            target.problem = unwritable(target, code, message)
        else:
            return
        self._problems.report(target.problem)

    def not_answered(self, node: TargetBroker, target: TargetPartition, lost: str, waited_s: float) -> None:
        """The broker has not answered for the partition; `lost`: why. It is tried again, perhaps at another broker."""
        self._block(target, elsewhere=True, longest=self._settings.retry_backoff_max_s)
        if target.failures_in_row >= QUIET_RETRIES or waited_s >= QUIET_S:
            target.problem = broker_unreachable(node.node_id, lost)
            self._problems.report(target.problem)
            node.reported = True

    # For transactions.

    @property
    def busy(self) -> bool:
        """Whether requests are under way, or batches are being split."""
        return self._requests > 0 or self._splitter.waiting

    def hold(self) -> None:
        """Sends nothing until `go_on`."""
        self._halted = True
        for node in self._nodes.values():
            node.ahead.waiting.clear()
            node.data.waiting.clear()

    def go_on(self) -> None:
        """Sends again what is ready, or will be."""
        self._halted = self.failed.done()

    def ready(self, targets: Iterable[TargetPartition]) -> None:
        """These partitions may have something to send."""
        for target in targets:
            self._make_ready(target)

    def wait_shortly(self, target: TargetPartition) -> None:
        """Tries the partition again in some milliseconds."""
        self._block(target, elsewhere=False, longest=CONCURRENT_S * 2 ** min(target.failures_in_row, CONCURRENT_TRIES))

    def _begin_anew_soon(self, target: TargetPartition, code: int) -> None:
        self._halted = True
        self._bump_wanted = True
        self._problems.report(producer_state_lost(target, code))

    async def _begin_anew(self) -> None:
        """Takes another epoch for all partitions, after all requests in flight are answered or lost (KIP-360)."""
        former = self.producer
        try:
            self.producer = await self._identity.take(former)
        except (FencedError, NotAuthorized) as error:
            self.fail(error)
            return
        # Also refused partitions: they may continue later.
        for target in self.partitions.values():
            target.restamp(self.producer, fenced=self.producer.producer_id == former.producer_id)
        self._halted = False
        for target in self.partitions.values():
            self._make_ready(target)
        self._schedule_pump()

    async def _keep_metadata(self) -> None:
        """Reads metadata where a leader is missing or has moved, and periodically that of all topics."""
        unreachable = 0
        while True:
            wanted = await self.wanted.due()
            topics = {target.topic for target in self.partitions.values()} if wanted is None else set(wanted)
            topics |= self.wanted.along()
            try:
                await self._cluster.refresh(topics)
                unreachable = 0
                self._problems.resolve(self._unreachable.subject, ProblemCode.CLUSTER_UNREACHABLE)
            except ClusterUnreachable as error:
                unreachable += 1
                problem = self._unreachable.because(str(error))
                self._problems.report(problem, logged=unreachable >= QUIET_RETRIES, shown=True)
                self.wanted.want_all()
                self.wanted.want_along(topics)
            except NotAuthorized as error:
                self.fail(error)
                return
            waiting = [target for target in self.leaderless if target.topic in topics]
            for target in waiting:
                del self.leaderless[target]
                code = self._cluster.topic_error(target.topic)
                if unreachable == 0 and code in _NEEDS_USER and (target.sendable() or target.must_ask):
                    # Without a leader no request is sent, so no answer would show why nothing is written.
                    self.retry(target, code, "", elsewhere=True)
                else:
                    self._make_ready(target)
            self.wanted.was_read(topics, {target.topic for target in self.leaderless})
            # Many topics that miss their leaders one after the other are read together.
            pause = self._settings.retry_backoff_s * 2 ** min(unreachable, 10)
            await asyncio.sleep(min(self._settings.retry_backoff_max_s, pause))

    def fail(self, error: BaseException) -> None:
        """Ends the producer with this error."""
        self._halted = True
        if not self.failed.done():
            self.failed.set_exception(error)
        self.answered.set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs this until `close`. Its error ends the producer."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)
