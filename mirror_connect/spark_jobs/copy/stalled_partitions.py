"""Keeps the stalled partitions of a source task: shows why they are stalled, and tries them again.

A record that the target refuses, or a corrupt batch, stalls its partition alone. The status shows what a user can do. The
partition is tried again from time to time, so nothing has to be restarted (docs/decisions/0013).

If the target does not accept a partition's batches at present, the partition releases what was fetched of it, as the others
need the room. The producer keeps what was sent, and tries it again. After its acknowledgement, fetching continues.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from mirror_connect.connectors.mirror.mirror_source import CORRUPT_BATCHES, OVERSIZE_RECORDS, SKIP
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problem, ProblemCode, ProblemLine, Problems, different
from mirror_connect.connectors.wording import counted
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.consumer.fetcher import Fetcher
from mirror_connect.kafka_io.producer.batch_producer import BatchProducer
from mirror_connect.kafka_io.producer.oversize import given_up, largest_message
from mirror_connect.kafka_io.producer.produce_outcome import OversizeRecordError, PartitionRefusedError
from mirror_connect.kafka_io.producer.target_partition import TargetPartition
from mirror_connect.kafka_io.records.record_batch import CorruptBatchError
from mirror_connect.spark_jobs.copy.dead_letters import DeadLetters
from mirror_connect.spark_jobs.copy.partition_flow import PartitionFlow
from mirror_connect.spark_jobs.copy.stalled_partition import StalledPartition
from mirror_connect.spark_jobs.task_context import WorkerLink

RETRY_S: Final = 1.0
RETRY_MAX_S: Final = 60.0
# A batch on the wire is answered soon, or lost after request.timeout.ms.
ON_WIRE_POLL_S: Final = 0.05


class StalledPartitions:
    """`flows` and `targets`: the task's partitions; a partition that continues gets a new target here.

    `target_unreachable`: the subject of that problem. `all_stalled`: set when every partition waits for a user.
    `leaving`: partitions that are being taken away. They must not continue meanwhile, or two tasks would write to one
    partition. `letters`: what goes to the dead letter topic.
    """

    def __init__(
        self,
        flows: Mapping[TopicPartition, PartitionFlow],
        targets: dict[TopicPartition, TargetPartition],
        fetcher: Fetcher,
        producer: BatchProducer,
        link: WorkerLink,
        *,
        problems: Problems,
        target: Cluster,
        target_unreachable: str,
        skips_corrupt: bool,
        skips_oversize: bool,
        letters: DeadLetters | None = None,
    ) -> None:
        self._flows = flows
        self._targets = targets
        self._fetcher = fetcher
        self._producer = producer
        self._link = link
        self._problems = problems
        self._target = target
        self._target_unreachable = target_unreachable
        self._skips_corrupt = skips_corrupt
        self._skips_oversize = skips_oversize
        self._letters = letters
        self._stalled: dict[TopicPartition, StalledPartition] = {}
        # Partitions that wait for an acknowledgement, and are not fetched meanwhile.
        self._given_back: set[TopicPartition] = set()
        self._timers: set[asyncio.TimerHandle] = set()
        self._asking: set[asyncio.Task[None]] = set()
        # Refused records whose topic's limit is being requested. Nothing else continues their partitions meanwhile.
        self._asked: dict[TopicPartition, OversizeRecordError] = {}
        self.all_stalled = asyncio.Event()
        self.leaving: set[TopicPartition] = set()

    async def close(self) -> None:
        """Ends all retries."""
        for timer in self._timers:
            timer.cancel()
        for asking in self._asking:
            asking.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)

    def forget(self, source: TopicPartition) -> None:
        """Forgets a partition: another task has it now."""
        self._stalled.pop(source, None)
        self._given_back.discard(source)
        self._asked.pop(source, None)

    def give_back(self) -> None:
        """Releases what was fetched of partitions that the target doesn't accept, as it would block all others."""
        if not self._producer.troubled:
            return
        for source, target in self._targets.items():
            if not self._producer.stalled(target):
                continue
            flow = self._flows.get(source)
            if flow is None or flow.stopped or target.closing or source in self.leaving:
                continue
            # Only a batch that is tried again shows when the target accepts the partition. The search for one may stop the
            # flow at a corrupt batch.
            if self._producer.hold_head(target) and not flow.stopped:
                self._give_back(source, flow)
        if self._letters is not None and self._letters.stalled:
            for source, flow in self._flows.items():
                # With letters under way it is not read on for long.
                if flow.letters is not None and flow.letters.sent and not (flow.stopped or source in self.leaving):
                    self._give_back(source, flow)

    def _give_back(self, source: TopicPartition, flow: PartitionFlow) -> None:
        self._fetcher.remove(source)
        flow.clear()
        self._given_back.add(source)

    def acknowledged(self, flow: PartitionFlow) -> None:
        """The target accepts the partition's records, or dead letters: what the partition released is fetched again."""
        if not self._given_back:
            return
        source = flow.source
        if source in self._given_back and source not in self.leaving:
            self._given_back.discard(source)
            self._fetcher.add(source, flow.restart(), flow.topic_id, flow.leader_epoch)

    def show(self, besides: Iterable[Problem | None]) -> None:
        """Shows the problems of the partitions in the task's status, with `besides`, the problems of its other writes.

        The task ends if all partitions need a user.
        """
        found: dict[TopicPartition, Problem] = {}
        target_unreachable = self._problems.shown(self._target_unreachable)
        waiting = len(self._flows)
        for source in self._with_problems():
            flow, stalled = self._flows[source], self._stalled.get(source)
            if stalled is not None and stalled.topic_id not in (None, flow.topic_id):
                # It was stalled in front of a record of another topic.
                del self._stalled[source]
                stalled = None
            if stalled is not None and flow.source_offset >= stalled.offset:
                del self._stalled[source]
                self._link.log(f"{flow} continues after offset {stalled.offset}")
                stalled = None
            if stalled is not None:
                found[source] = stalled.problem
                waiting -= stalled.for_good
                continue
            # While the target is unreachable, its refusals are old.
            problem = None if target_unreachable else self._targets[source].problem
            with contextlib.suppress(KeyError):  # it isn't fetched at present
                state = self._fetcher.state(source)
                problem = problem or state.problem
                waiting -= problem is not None and state.failed
            if problem is not None:
                found[source] = problem
        common = target_unreachable or besides
        partitions = (found[source] for source in sorted(found))
        self._link.problems = different((*self._fetcher.unreachable(), *common, *partitions))
        if self._flows and waiting == 0:
            self.all_stalled.set()

    def refuse(self, flow: PartitionFlow, error: PartitionRefusedError) -> None:
        """Stalls a partition whose batch the target refuses. It is tried again later, so nobody has to restart the task."""
        if isinstance(error, OversizeRecordError):
            source = flow.source
            self._fetcher.remove(source)
            self._asked[source] = error
            asking = asyncio.create_task(self._oversize(flow, error))
            self._asking.add(asking)
            asking.add_done_callback(self._asking.discard)
        else:
            refused = Problem(
                str(flow),
                ProblemCode.PARTITION_STALLED_BATCH_REFUSED,
                f"{flow} is stalled at offset {error.offset}",
                str(error),
            )
            self._stall(flow, refused, error.offset, for_good=True)

    async def _oversize(self, flow: PartitionFlow, error: OversizeRecordError) -> None:
        limit = await largest_message(self._target, error.topic)
        source = flow.source
        if self._asked.get(source) is not error:
            return
        del self._asked[source]
        if self._flows.get(source) is not flow or source in self.leaving:
            return
        if not self._skips_oversize:
            too_large = Problem(
                str(flow),
                ProblemCode.PARTITION_STALLED_RECORD_TOO_LARGE,
                f"{flow} is stalled at offset {error.offset}",
                error.what,
                f"{error.remedy(limit)}, or give the record up with {OVERSIZE_RECORDS}={SKIP}",
            )
            self._stall(flow, too_large, error.offset, for_good=True)
            return
        flow.skip_to(error.behind)
        self._link.counters["skipped"] = self._link.counters.get("skipped", 0) + 1
        self._problems.event(given_up(str(flow), error, limit))
        self._try_again(source, flow)

    def stop_at_corrupt(self, flow: PartitionFlow, error: CorruptBatchError) -> None:
        """Stalls the partition and tries it again later: another replica may have the batch intact."""
        source = flow.source
        before = self._stalled.get(source)
        # Where the partition stopped, perhaps in the middle of the batch. The corrupt header can't show that.
        at = flow.next_offset or 0
        # Not at the first read: the bytes may have been damaged on their way.
        seen = before is not None and before.offset == at
        if self._skips_corrupt and seen and (lost := flow.skip_corrupt()) is not None:
            text = (
                f"{flow}: {counted(lost, 'offset')} skipped at offset {at}, their batch is corrupt ({error.reason}) and "
                f"{CORRUPT_BATCHES} is {SKIP}; reading continues at {flow.next_offset}"
            )
            self._problems.event(Problem(str(flow), ProblemCode.CORRUPT_BATCH_SKIPPED, text))
            del self._stalled[source]
            self._fetcher.remove(source)
            self._later(0.0, lambda: self._try_again(source, flow))
            return
        corrupt = Problem(
            str(flow),
            ProblemCode.PARTITION_STALLED_BATCH_CORRUPT,
            f"{flow} is stalled at offset {at}",
            f"its batch is corrupt ({error.reason})",
            "it is read again and again. "
            + (
                "It is skipped when an intact batch is found after it"
                if self._skips_corrupt
                else f"To give its records up, set {CORRUPT_BATCHES}={SKIP}"
            ),
        )
        self._stall(flow, corrupt, at, for_good=False)

    def _stall(self, flow: PartitionFlow, problem: Problem, offset: int, *, for_good: bool) -> None:
        source = flow.source
        before = self._stalled.get(source)
        again = before is not None and before.offset == offset
        wait = min(before.wait * 2, RETRY_MAX_S) if before and again else RETRY_S
        if before is None or not again or before.problem != problem:
            self._link.log(ProblemLine.of(problem.line, problem.code))
        self._stalled[source] = StalledPartition(problem, offset, wait, for_good, flow.topic_id)
        self._fetcher.remove(source)
        self._later(wait, lambda: self._try_again(source, flow))

    def _try_again(self, source: TopicPartition, flow: PartitionFlow) -> None:
        if self._flows.get(source) is not flow or source in self.leaving or source in self._asked:
            return
        self._given_back.discard(source)
        target = self._targets[source]
        if target.failure is not None:
            if target.on_wire:
                self._later(ON_WIRE_POLL_S, lambda: self._try_again(source, flow))
                return
            target.closing = True
            self._targets[source] = self._producer.partition(target.topic, target.partition, flow.feed)
        self._fetcher.add(source, flow.restart(), flow.topic_id, flow.leader_epoch)

    def _with_problems(self) -> list[TopicPartition]:
        """The partitions that may have a problem. There may be thousands of others, which must cost very little."""
        refused = (
            [source for source, target in self._targets.items() if target.problem] if self._producer.troubled else ()
        )
        found = dict.fromkeys((*self._stalled, *refused, *self._fetcher.with_problems()))
        return [source for source in found if source in self._flows]

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        def act() -> None:
            self._timers.discard(timer)
            action()

        timer = asyncio.get_running_loop().call_later(seconds, act)
        self._timers.add(timer)
